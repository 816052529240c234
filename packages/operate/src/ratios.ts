// The hit ratio and the share of requests that the origin was spared, for all tools of operators.

import type { StampedeStats } from '@stampede/core'

/**
 * Requests and calls that used the cache, so without bypasses, and runs of the origin. `hits`
 * includes stale entries, and `runs` those in the background.
 */
type Usage = Readonly<Record<'hits' | 'misses' | 'runs', number>>

/**
 * Both are undefined without a request. A request that gets the response of another request's run
 * is a miss, but it is saved: `saved` is 1 − runs / requests.
 */
export function ratiosOf({
  hits,
  misses,
  runs,
}: Usage): Readonly<Record<'hitRatio' | 'saved', number | undefined>> {
  const requests = hits + misses
  if (requests === 0) return { hitRatio: undefined, saved: undefined }
  return { hitRatio: hits / requests, saved: Math.max(0, 1 - runs / requests) }
}

/** Runs of the origin on all routes. */
export function runsOn(
  routes: Readonly<Record<string, Partial<Pick<StampedeStats['routes'][string], 'runs'>>>>,
): number {
  return Object.values(routes).reduce((sum, { runs = 0 }) => sum + runs, 0)
}
