// Counters of one route, which an entry in memory references so that a hit needs no search.

/** Counters of one route pattern, or of one group of `getOrSet` keys. */
export interface RouteStats {
  /** Requests and calls that got a fresh entry. */
  readonly hits: number
  /** Requests and calls that got a stale entry. */
  readonly stale: number
  /** Requests and calls that ran the origin, or waited for its result. */
  readonly misses: number
  /** Requests that bypassed the cache. */
  readonly bypasses: number
  /**
   * Runs of the origin in requests that used the cache, stored or not, and their total duration.
   */
  readonly runs: number
  /** Total duration of these runs in ms. */
  readonly originMs: number
  /** Sum over all hits of the duration of the run that made the entry. */
  readonly savedMs: number
  /** Bytes of bodies and values served from entries. */
  readonly bytes: number
}

export type RouteCounts = { -readonly [K in keyof RouteStats]: RouteStats[K] }

export function newRouteCounts(): RouteCounts {
  return {
    hits: 0,
    stale: 0,
    misses: 0,
    bypasses: 0,
    runs: 0,
    originMs: 0,
    savedMs: 0,
    bytes: 0,
  }
}
