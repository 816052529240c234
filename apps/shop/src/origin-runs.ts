// Counts how often a handler queried the database.

export interface OriginRuns {
  /** Counts one run of `route`. `runId` is the lab's query parameter, if the request has one. */
  record(route: string, runId: string | null): void
  byRoute(): Record<string, number>
  reset(): void
  /** Counts the runs with this `runId` until `stop`. Other ids are not kept. */
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
