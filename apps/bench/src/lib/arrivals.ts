// Random arrival times and keys of requests, the same for the same seed.

/** A request, with its time in milliseconds after the start. */
export interface Arrival {
  readonly atMs: number
  readonly key: string
}

export type Random = () => number

/** The generator mulberry32: numbers from 0 to 1. */
export function seeded(seed: number): Random {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** A Poisson process: each request comes independently of the others and of the server's state. */
export function poisson(
  random: Random,
  { fromMs = 0, forMs, perSecond }: { fromMs?: number; forMs: number; perSecond: number },
  key: (number: number) => string,
): Arrival[] {
  const arrivals: Arrival[] = []
  let atMs = fromMs
  for (;;) {
    atMs += (-Math.log(1 - random()) * 1_000) / perSecond
    if (atMs >= fromMs + forMs) return arrivals
    arrivals.push({ atMs, key: key(arrivals.length) })
  }
}

/**
 * Returns a generator of numbers below `count`. The n-th number is 1/n as likely as the first
 * (Zipf).
 */
export function zipf(random: Random, count: number): () => number {
  const sums = new Float64Array(count)
  let sum = 0
  for (let rank = 1; rank <= count; rank++) {
    sum += 1 / rank
    sums[rank - 1] = sum
  }
  return () => {
    const wanted = random() * sum
    let low = 0
    for (let high = count - 1; low < high; ) {
      const middle = (low + high) >> 1
      if ((sums[middle] ?? 0) < wanted) low = middle + 1
      else high = middle
    }
    return low
  }
}
