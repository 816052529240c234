// Hit ratio and share of requests saved from the origin, for stats() and all operator tools.

type Counts = Readonly<Record<string, number>>

/**
 * Requests and calls that used the cache, so without bypasses, and runs of the origin. `hits`
 * includes stale entries, and `runs` those in the background.
 */
export type Usage = Readonly<Record<'hits' | 'misses' | 'runs', number>>

/** Both are undefined without a request. */
export type Ratios = Readonly<Record<'hitRatio' | 'saved', number | undefined>>

/** The counters of `stats()`, or of the report of a process of any version. */
export function usageOf({
  hits,
  misses,
  stale,
  routes,
}: {
  readonly hits: Readonly<Record<'l1' | 'l2', number>>
  readonly misses: number
  readonly stale: Counts
  readonly routes: Readonly<Record<string, { readonly runs?: number }>>
}): Usage {
  // `hits` has no stale entries in place of a late or failed run.
  const late = sum(Object.values(stale)) - (stale.revalidate ?? 0)
  const runs = sum(Object.values(routes).map((route) => route.runs ?? 0))
  return { hits: hits.l1 + hits.l2 + late, misses, runs }
}

/**
 * A request that gets the response of another request's run is a miss, but it is saved: `saved` is
 * 1 − runs / requests.
 */
export function ratiosOf({ hits, misses, runs }: Usage): Ratios {
  const requests = hits + misses
  if (requests === 0) return { hitRatio: undefined, saved: undefined }
  return { hitRatio: hits / requests, saved: Math.max(0, 1 - runs / requests) }
}

const sum = (all: readonly number[]): number => all.reduce((total, each) => total + each, 0)
