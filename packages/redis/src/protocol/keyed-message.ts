// Messages about a key: one line of words and numbers, then the key, then bytes. The last number of
// the line is the length of the key.

const LONGEST_HEAD = 300

export interface KeyedMessage {
  readonly words: readonly string[]
  readonly numbers: readonly number[]
  readonly key: string
  /** A view of the message. */
  readonly rest: Buffer
}

/** `head`: a group for each word, and one for the numbers, each after a space. Undefined for whatever cannot be read. */
export function readKeyed(message: Buffer, head: RegExp): KeyedMessage | undefined {
  const end = message.subarray(0, LONGEST_HEAD).indexOf(10)
  const found = head.exec(message.toString('latin1', 0, Math.max(end, 0)))
  if (found === null) return undefined
  const words = found.slice(1, -1)
  const numbers = (found.at(-1) ?? '').slice(1).split(' ').map(Number)
  const keyBytes = numbers.pop() ?? 0
  const keyEnd = end + 1 + keyBytes
  if (keyBytes === 0 || keyEnd > message.length) return undefined
  const key = message.toString('utf8', end + 1, keyEnd)
  return { words, numbers, key, rest: message.subarray(keyEnd) }
}
