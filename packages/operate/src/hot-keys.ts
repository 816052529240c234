// The keys that are hit most often, counted with little memory while clients can send any number of
// keys.

/** Keys that are counted at once. A key outside of this number replaces the one hit least. */
const MOST_KEYS = 256
/** The counts are halved after this time, so that they follow what is hit now. */
const HALF_LIFE_MS = 30_000

export interface HotKey {
  readonly key: string
  /** Hits, of which older ones count less: a half after 30 s. At most this number too high. */
  readonly hits: number
}

/**
 * Space-Saving: a new key replaces a key with about the lowest count and takes over that count. So
 * a key that is hit often is never missing. Source: A. Metwally, D. Agrawal, A. El Abbadi:
 * Efficient Computation of Frequent and Top-k Elements in Data Streams, ICDT 2005.
 */
export class HotKeys {
  readonly #now: () => number
  #counts = new Map<string, number>()
  #halvedAt: number
  /** Keys whose count was below `#limit` when they were found. */
  #lowest: string[] = []
  #limit = 0

  constructor(now: () => number) {
    this.#now = now
    this.#halvedAt = now()
  }

  hit(key: string): void {
    const count = this.#counts.get(key)
    if (count !== undefined || this.#counts.size < MOST_KEYS) {
      this.#counts.set(key, (count ?? 0) + 1)
      return
    }
    this.#counts.set(key, this.#replaceLeast() + 1)
  }

  /** The keys with the highest counts, highest first. */
  top(most: number): HotKey[] {
    this.#halve()
    return [...this.#counts]
      .sort(([, a], [, b]) => b - a)
      .slice(0, most)
      .map(([key, count]) => ({ key, hits: Math.round(count) }))
  }

  /** Removes a key whose count is less than 1 above the lowest. Returns that count. */
  #replaceLeast(): number {
    for (;;) {
      const key = this.#lowest.pop()
      const count = key === undefined ? undefined : this.#counts.get(key)
      if (key !== undefined && count !== undefined && count < this.#limit) {
        this.#counts.delete(key)
        return count
      }
      if (key === undefined) this.#findLowest()
    }
  }

  /** Finds many keys at once, because a search for each hit would cost more than the hit. */
  #findLowest(): void {
    this.#limit = Math.min(...this.#counts.values()) + 1
    this.#lowest = [...this.#counts].filter(([, count]) => count < this.#limit).map(([key]) => key)
  }

  #halve(): void {
    const factor = 0.5 ** ((this.#now() - this.#halvedAt) / HALF_LIFE_MS)
    this.#halvedAt = this.#now()
    const halved = [...this.#counts].map(([key, count]) => [key, count * factor] as const)
    this.#counts = new Map(halved.filter(([, count]) => count >= 0.5))
    this.#lowest = []
  }
}
