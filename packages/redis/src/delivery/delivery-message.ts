// Messages of lua/commit-2.lua that wake a waiting process and carry the new entry. First comes a
// line of words and numbers, of which the last is the length of the key. Then come the key and the
// frame. A message is a hint, and checked like all that comes from the server.

/** Limit of the bytes of a frame in a message, as lua/commit-2.lua sends it. */
export const LONGEST_FRAME: number = 16 * 1024

export interface Delivery {
  readonly key: string
  /** Token of the lookup that waits. */
  readonly token: string
  /** Fence of the commit. */
  readonly fence: string
  /** Moment of the commit, in milliseconds of the server's clock. */
  readonly at: number
  readonly freshMs: number
  readonly staleWhileRevalidateMs: number
  readonly staleIfErrorMs: number
  readonly keepMs: number
  /** A view of the message. */
  readonly frame: Uint8Array
}

const LONGEST_LINE = 300
const LINE = /^\0([\w-]{1,64}) (\d{1,16})((?: \d{1,16}){6})$/

/** No key begins with a zero byte. */
export function isDelivery(message: Buffer): boolean {
  return message[0] === 0
}

/** Undefined if the message cannot be read. */
export function readDelivery(message: Buffer): Delivery | undefined {
  const end = message.subarray(0, LONGEST_LINE).indexOf(10)
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
