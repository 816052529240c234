// A model of a fleet as rates: Zipf-distributed keys, copies that end with the entry, memory caches
// that keep recent keys. It gives the expected figures per second, summed over every key, without
// random numbers.

export interface Load {
  readonly processes: number
  readonly keys: number
  /** Zipf's exponent. */
  readonly skew: number
  /** Requests per second of the whole fleet. */
  readonly requestsPerSecond: number
  readonly ttlS: number
  readonly fillS: number
  /** The number of keys that one process can keep in memory. */
  readonly entries: number
}

/** Per second, for the whole fleet. */
export interface Expected {
  readonly originCalls: number
  readonly lookups: number
  readonly commits: number
  /** Processes that wait for a fill, and get a wake-up. */
  readonly wakeUps: number
  /** Share of the requests served from the process's own memory. */
  readonly fromMemory: number
  /** Per process. */
  readonly entriesHeld: number
}

export function expect({ processes, ...load }: Load): Expected {
  const { keys, skew, requestsPerSecond, ttlS, fillS, entries } = load
  const shares = zipf(keys, skew)
  const perProcess = requestsPerSecond / processes
  const stayS = Math.min(ttlS, stayFor(shares, perProcess, entries))
  let [originCalls, lookups, wakeUps, entriesHeld] = [0, 0, 0, 0]
  for (const share of shares) {
    const rate = perProcess * share
    // A cycle: fresh for `ttlS`, then a time without requests, then the fill.
    const cycles = 1 / (ttlS + fillS + 1 / (requestsPerSecond * share))
    // Processes that ask during the fill wait, and then get the entry.
    const waits = processes * (1 - Math.exp(-rate * fillS))
    const knows = 1 - Math.exp(-rate * stayS)
    const misses = processes * (knows + rate * (ttlS - stayS) * (1 - knows))
    originCalls += cycles
    // Waiters have a copy afterwards.
    lookups += cycles * (1 + Math.max(misses, waits))
    wakeUps += cycles * waits
    entriesHeld += knows * Math.min(1, cycles * ttlS)
  }
  const fromMemory = 1 - lookups / requestsPerSecond
  return { originCalls, lookups, commits: originCalls, wakeUps, fromMemory, entriesHeld }
}

export function zipf(keys: number, skew: number): Float64Array {
  const shares = new Float64Array(keys)
  let sum = 0
  for (let i = 0; i < keys; i++) sum += shares[i] = 1 / (i + 1) ** skew
  for (let i = 0; i < keys; i++) shares[i] = (shares[i] as number) / sum
  return shares
}

/**
 * How long an entry stays in memory after its last use (Che, Tung, Wang 2002): until other entries
 * have filled it.
 */
function stayFor(shares: Float64Array, perSecond: number, entries: number): number {
  if (entries >= shares.length) return Number.POSITIVE_INFINITY
  const heldAfter = (seconds: number): number => {
    let held = 0
    for (const share of shares) held += 1 - Math.exp(-perSecond * share * seconds)
    return held
  }
  let [low, high] = [0, 1]
  while (heldAfter(high) < entries) high *= 2
  for (let i = 0; i < 40; i++) {
    const middle = (low + high) / 2
    if (heldAfter(middle) < entries) low = middle
    else high = middle
  }
  return high
}
