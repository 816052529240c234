// Random numbers that can be repeated: the same seed gives the same scenario on every machine.

export interface Random {
  /** From 0 up to, but not including, 1. */
  next(): number
  /** A whole number from 0 to `below` - 1. */
  int(below: number): number
  chance(share: number): boolean
  pick<T>(items: readonly T[]): T
  /** Chooses each item with this probability, and keeps their order. */
  some<T>(items: readonly T[], share: number): T[]
  shuffle<T>(items: readonly T[]): T[]
  /** Lower-case hexadecimal digits. */
  hex(digits: number): string
}

/** Mulberry32: 32 bits of state are enough for distinct scenarios. */
export function randomFrom(seed: number): Random {
  // Neighbouring seeds must not start alike.
  let state = Math.imul(seed ^ (seed >>> 16), 0x45d9f3b) >>> 0
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  const int = (below: number): number => Math.floor(next() * below)
  const random: Random = {
    next,
    int,
    chance: (share) => next() < share,
    pick<T>(items: readonly T[]): T {
      if (items.length === 0) throw new Error('nothing to pick from')
      return items[int(items.length)] as T
    },
    some: (items, share) => items.filter(() => next() < share),
    shuffle: (items) =>
      items
        .map((item) => ({ item, rank: next() }))
        .sort((a, b) => a.rank - b.rank)
        .map(({ item }) => item),
    hex: (digits) => Array.from({ length: digits }, () => int(16).toString(16)).join(''),
  }
  return random
}
