// Parses `life`, the lifetime of an entry in its record: `fence made fresh swr sie keep`, six whole
// numbers. It parses byte by byte, because splitting the text was the slowest part of a hit.

export interface Life {
  readonly fence: number
  /** Moments of the commit and of the end of the logical TTL, in ms of the server's clock. */
  readonly made: number
  readonly fresh: number
  /** Durations in ms, counted from `fresh`. */
  readonly swr: number
  readonly sie: number
  readonly keep: number
}

const PARTS = 6
const SPACE = 0x20
const ZERO = 0x30

/** Parses the field. Undefined if it is missing or malformed. */
export function readLife(text: unknown): Life | undefined {
  if (!Buffer.isBuffer(text)) return undefined
  const parts = [0, 0, 0, 0, 0, 0]
  let part = 0
  let number = 0
  let digits = 0
  for (let i = 0; i < text.length; i++) {
    const byte = text[i] as number
    if (byte === SPACE && digits > 0 && part < PARTS - 1) {
      parts[part] = number
      part += 1
      number = 0
      digits = 0
      continue
    }
    if (byte < ZERO || byte > ZERO + 9) return undefined
    number = number * 10 + (byte - ZERO)
    // A number this large is no longer exact, and no script writes one.
    if (number > Number.MAX_SAFE_INTEGER) return undefined
    digits += 1
  }
  if (digits === 0 || part !== PARTS - 1) return undefined
  const [fence = 0, made = 0, fresh = 0, swr = 0, sie = 0] = parts
  return { fence, made, fresh, swr, sie, keep: number }
}
