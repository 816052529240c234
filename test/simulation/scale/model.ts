// A fleet as rates: keys asked for after Zipf, copies that end with the entry, memory tiers that
// keep recent keys. It gives the expected figures per second, summed over every key, with nothing
// random.

export interface Load {
  readonly processes: number
  readonly keys: number
  /** Zipf's exponent. */
  readonly skew: number
  /** Of the whole fleet. */
  readonly requestsPerSecond: number
  readonly ttlS: number
  readonly fillS: number
  /** That one process has room for in memory. */
  readonly entries: number
}

/** Per second, of the whole fleet. */
export interface Expected {
  readonly originCalls: number
  readonly lookups: number
  readonly commits: number
  /** Processes that are told to wait, and woken. */
  readonly wakeUps: number
  /** Share of the requests answered from the process's own memory. */
  readonly fromMemory: number
  /** Of one process. */
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
    // Fresh for `ttlS`, then nobody asks for a while, then it is filled.
    const cycles = 1 / (ttlS + fillS + 1 / (requestsPerSecond * share))
    // Whoever asks while it is filled is told to wait, and then what was made.
    const waits = processes * (1 - Math.exp(-rate * fillS))
    const knows = 1 - Math.exp(-rate * stayS)
    const misses = processes * (knows + rate * (ttlS - stayS) * (1 - knows))
    originCalls += cycles
    // Those who waited have it.
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

/** How long what was asked for once stays in memory (Che, Tung, Wang 2002): as long as the others take to fill it. */
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
