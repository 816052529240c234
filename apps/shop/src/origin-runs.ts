// Counts how often the origin ran, that is, how often a handler went to the database.

export interface OriginRuns {
  /** One run of `route`; `runId` is the lab's mark in the query, if the request carries one. */
  record(route: string, runId: string | null): void
  byRoute(): Record<string, number>
  reset(): void
  /** Counts the runs that carry `runId`, until `stop`. Marks that nobody watches are not kept. */
  watch(runId: string): Watch
}

export interface Watch {
  readonly count: number
  stop(): void
}

export function createOriginRuns(): OriginRuns {
  const routes = new Map<string, number>()
  const watched = new Map<string, number>()
  return {
    record(route, runId) {
      routes.set(route, (routes.get(route) ?? 0) + 1)
      const count = runId === null ? undefined : watched.get(runId)
      if (runId !== null && count !== undefined) watched.set(runId, count + 1)
    },
    byRoute: () => Object.fromEntries([...routes].sort(([a], [b]) => (a < b ? -1 : 1))),
    reset: () => routes.clear(),
    watch(runId) {
      watched.set(runId, 0)
      return {
        get count() {
          return watched.get(runId) ?? 0
        },
        stop: () => watched.delete(runId),
      }
    },
  }
}
