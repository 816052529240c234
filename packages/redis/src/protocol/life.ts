// The life of an entry, as it stands in its record: `fence made fresh swr sie keep`, whole numbers. Read by hand: to make
// strings of its parts and numbers of those took longer than all else about a hit.

export interface Life {
  readonly fence: number
  /** Moments of the server's clock, in milliseconds. */
  readonly made: number
  readonly fresh: number
  /** Durations, after `fresh`. */
  readonly swr: number
  readonly sie: number
  readonly keep: number
}

const PARTS = 6
const SPACE = 0x20
const ZERO = 0x30

/** Undefined for whatever else was planted there, and for what is not there. */
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
    // No longer exact: nothing of ours is so large.
    if (number > Number.MAX_SAFE_INTEGER) return undefined
    digits += 1
  }
  if (digits === 0 || part !== PARTS - 1) return undefined
  const [fence = 0, made = 0, fresh = 0, swr = 0, sie = 0] = parts
  return { fence, made, fresh, swr, sie, keep: number }
}
