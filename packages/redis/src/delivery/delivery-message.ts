// Parses wake-ups of lua/commit-2.lua that carry the new entry. A message is a line of values, then
// the key, then the frame. The last value of the line is the length of the key. The server is not
// trusted, so each part is checked.

/** Largest frame that lua/commit-2.lua sends in a message. */
export const MAX_FRAME_BYTES: number = 16 * 1024

export interface Delivery {
  readonly key: string
  /** Token of the waiting lookup. */
  readonly token: string
  /** Fence of the commit. */
  readonly fence: string
  /** Moment of the commit, in ms of the server's clock. */
  readonly at: number
  readonly freshMs: number
  readonly staleWhileRevalidateMs: number
  readonly staleIfErrorMs: number
  readonly keepMs: number
  /** A view of the message, not a copy. */
  readonly frame: Uint8Array
}

const MAX_LINE_BYTES = 300
const LINE = /^\0([\w-]{1,64}) (\d{1,16})((?: \d{1,16}){6})$/

/**
 * Whether a wake-up carries an entry. A plain wake-up is a key, and no key begins with a zero byte.
 */
export function isDelivery(message: Buffer): boolean {
  return message[0] === 0
}

/** Parses a wake-up that carries an entry. Undefined if the message is malformed. */
export function readDelivery(message: Buffer): Delivery | undefined {
  const end = message.subarray(0, MAX_LINE_BYTES).indexOf(10)
  const found = LINE.exec(message.toString('latin1', 0, Math.max(end, 0)))
  if (found === null) return undefined
  const [, token = '', fence = '', numbers = ''] = found
  const [at = 0, freshMs = 0, swr = 0, sie = 0, keepMs = 0, keyBytes = 0] = numbers
    .slice(1)
    .split(' ')
    .map(Number)
  const keyEnd = end + 1 + keyBytes
  if (keyBytes === 0 || keyEnd > message.length) return undefined
  const key = message.toString('utf8', end + 1, keyEnd)
  const windows = { staleWhileRevalidateMs: swr, staleIfErrorMs: sie, keepMs }
  return { key, token, fence, at, freshMs, ...windows, frame: message.subarray(keyEnd) }
}
