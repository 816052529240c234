// Parses single values of a script's reply. Malformed values become harmless ones: 0 or undefined.

/** No script writes a longer duration. */
const MAX_MS = 400 * 24 * 3600 * 1000

/** A number of milliseconds, which may be negative. 0 if it is malformed: that time is over. */
export function signedDuration(value: unknown): number {
  const ms = Number(value)
  return Number.isFinite(ms) ? Math.min(MAX_MS, Math.max(-MAX_MS, ms)) : 0
}

export function duration(value: unknown): number {
  return Math.max(0, signedDuration(value))
}

/** Undefined if the value is missing or not a string. */
export function bytes(value: unknown): Buffer | undefined {
  return Buffer.isBuffer(value) ? value : undefined
}
