// IDs of stream entries: two numbers of 64 bits, compared one after the other.

export type StreamId = readonly [ms: bigint, sequence: bigint]

export interface StreamEntry {
  readonly id: StreamId
  readonly text: string
  readonly fields: readonly string[]
}

/** `-` and `+` are the ends of a range. `sequence`: what an ID without a second number means. */
export function idOf(text: string, sequence: bigint): StreamId {
  if (text === '-') return [0n, 0n]
  if (text === '+') return [(1n << 64n) - 1n, (1n << 64n) - 1n]
  const [ms = '0', rest] = text.split('-')
  return [BigInt(ms), rest === undefined ? sequence : BigInt(rest)]
}

export function after([a, x]: StreamId, [b, y]: StreamId): boolean {
  return a > b || (a === b && x > y)
}
