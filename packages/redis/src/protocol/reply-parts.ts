// The parts of a script's reply, read: whatever was planted on the server, times are times and bytes are bytes.

/** No duration of ours is longer; what is was not written by us. */
const LONGEST_MS = 400 * 24 * 3600 * 1000

/** A number of milliseconds: a broken one is 0, and so is over already. */
export function signed(value: unknown): number {
  const ms = Number(value)
  return Number.isFinite(ms) ? Math.min(LONGEST_MS, Math.max(-LONGEST_MS, ms)) : 0
}

export function duration(value: unknown): number {
  return Math.max(0, signed(value))
}

/** Undefined for what is there no longer, and for what is no string of the server's. */
export function bytes(value: unknown): Buffer | undefined {
  return Buffer.isBuffer(value) ? value : undefined
}
