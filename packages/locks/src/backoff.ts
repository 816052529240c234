// Back-off of the polling lock, for servers where Pub/Sub is forbidden. Pauses grow from 1 to 128
// ms with full jitter. Polling sends more commands than `push`, and does not serve waiters in order
// of arrival.

const FIRST_MS = 1
const LONGEST_MS = 128

/** Pause in ms after attempt number `attempt`, from 0. `random` is from 0 to 1. */
export function backoffMs(attempt: number, random: number): number {
  const most = Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.min(attempt, 20))
  return Math.max(FIRST_MS, most * random)
}
