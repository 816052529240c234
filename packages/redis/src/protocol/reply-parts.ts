// Parses single values of a script's reply. Malformed values become harmless ones: 0 or undefined.

/** No script writes a longer duration. */
const MAX_MS = 400 * 24 * 3600 * 1000

/**
 * A number of milliseconds, which may be negative. If it is malformed, 0, so that the time counts
 * as over.
 */
export function signedDuration(value: unknown): number {
  const ms = Number(value)
  return Number.isFinite(ms) ? Math.min(MAX_MS, Math.max(-MAX_MS, ms)) : 0
}

export function duration(value: unknown): number {
  return Math.max(0, signedDuration(value))
}

/** The bytes of a string reply. Undefined if the value is missing or of another type. */
export function bytes(value: unknown): Buffer | undefined {
  return Buffer.isBuffer(value) ? value : undefined
}
