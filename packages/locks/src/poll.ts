// The spin lock, for servers where Pub/Sub is forbidden. It asks again with exponential back-off
// from 1 to 128 ms and full jitter. It costs commands and is not fair: prefer waiting by push.

const FIRST_MS = 1
const LONGEST_MS = 128

/** Milliseconds to wait before the attempt after `attempt` (0 is the first). */
export function backoffMs(attempt: number, random: () => number): number {
  const most = Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.min(attempt, 20))
  return Math.max(FIRST_MS, most * random())
}
