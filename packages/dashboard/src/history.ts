// Counters of the last ten minutes of this process, in buckets of 5 s. Buckets begin at multiples
// of 5 s of the wall clock, so that those of several processes can be added.

import type { StampedeStats } from '@stampede/core'
import { usageOf } from '@stampede/core/operator'

export const BUCKET_MS = 5_000
export const BUCKETS = 120

export const SERIES = ['fresh', 'stale', 'miss', 'bypass', 'origin', 'collapsed', 'saved'] as const
export type Series = (typeof SERIES)[number]
type Counts = Record<Series, number>

export interface HistoryView {
  /** Wall-clock end of the last bucket, in ms since 1970. */
  readonly endAt: number
  /** Oldest bucket first. `saved` is in ms of the origin. */
  readonly series: Readonly<Record<Series, readonly number[]>>
}

export class History {
  #last: Counts
  readonly #buckets = new Map<number, Counts>()

  constructor(stats: StampedeStats) {
    this.#last = countsOf(stats)
  }

  /** Adds the difference to the last call to the bucket that has just ended, or is under way. */
  sample(stats: StampedeStats, wallMs: number): void {
    const index = Math.floor((wallMs - BUCKET_MS / 2) / BUCKET_MS)
    const counts = countsOf(stats)
    const bucket = this.#buckets.get(index) ?? zero()
    for (const name of SERIES) bucket[name] += Math.max(0, counts[name] - this.#last[name])
    this.#last = counts
    this.#buckets.set(index, bucket)
    for (const each of this.#buckets.keys()) {
      if (Math.abs(each - index) >= BUCKETS) this.#buckets.delete(each)
    }
  }

  view(): HistoryView {
    const newest = Math.max(...this.#buckets.keys())
    if (!Number.isFinite(newest)) return { endAt: 0, series: seriesOf([]) }
    const oldest = Math.max(Math.min(...this.#buckets.keys()), newest - BUCKETS + 1)
    const ordered = Array.from(
      { length: newest - oldest + 1 },
      (_, at) => this.#buckets.get(oldest + at) ?? zero(),
    )
    return { endAt: (newest + 1) * BUCKET_MS, series: seriesOf(ordered) }
  }
}

function countsOf(stats: StampedeStats): Counts {
  const { hits, stale, misses, bypasses, collapsed, origin } = stats
  return {
    fresh: hits.l1 + hits.l2 - stale.revalidate,
    stale: sum(stale),
    miss: misses,
    bypass: sum(bypasses),
    origin: usageOf(stats).runs,
    collapsed,
    saved: Math.round(origin.savedMs),
  }
}

const sum = (counts: Readonly<Record<string, number>>): number =>
  Object.values(counts).reduce((total, each) => total + each, 0)

const zero = (): Counts => Object.fromEntries(SERIES.map((name) => [name, 0])) as Counts

function seriesOf(buckets: readonly Counts[]): HistoryView['series'] {
  const series = SERIES.map((name) => [name, buckets.map((each) => each[name])])
  return Object.fromEntries(series) as Record<Series, number[]>
}
