// stampede.stats(): the counters and current sizes of one Stampede.

import type { RouteStats, StaleReason } from './entry/counts.ts'
import type { IdempotencyRuntime } from './idempotency/runtime.ts'
import { type Ratios, ratiosOf, usageOf } from './ratios.ts'
import type { Runtime } from './runtime.ts'

/**
 * Counters since `createStampede`. `unleased`, `store.available`, `store.confirmedAgoMs`, `l1`,
 * `active`, and `running` and `unstored` of `idempotency` are current values. All times are in ms.
 */
export interface StampedeStats {
  /** Requests and calls served from memory (`l1`) or from the store (`l2`), stale ones included. */
  readonly hits: { readonly l1: number; readonly l2: number }
  /** Requests and calls that ran the origin, or waited for its result. */
  readonly misses: number
  /**
   * Shares of the requests and calls that used the cache, 0 to 1, undefined without any.
   * `hitRatio`: hits, stale ones included. `saved`: 1 − runs of the origin / requests. A request
   * that gets the response of another one's run is a miss, but it is saved.
   */
  readonly ratios: Ratios
  /** Requests that bypassed the cache, by the `detail` of Cache-Status, or `method`. */
  readonly bypasses: Readonly<Record<string, number>>
  /** Stale entries served, by reason. */
  readonly stale: Readonly<Record<StaleReason, number>>
  /** Runs of the origin, counted by their events `fill.started`, `fill.committed` and so on. */
  readonly fills: {
    readonly started: number
    readonly committed: number
    /** Commits that the store refused, because of a purge or a newer lease. */
    readonly fenced: number
    readonly passed: number
    /** Runs that returned `skip(value)`. */
    readonly skipped: number
    readonly failed: number
    readonly abandoned: number
  }
  /** Leases that this process got, by the `reason` for which it filled the key. */
  readonly leases: Readonly<Record<string, number>>
  /** Requests and calls that joined a lookup or fill of this process. */
  readonly collapsed: number
  /** Lookups in the store that found the failure of another run. */
  readonly failuresShared: number
  /**
   * `started`: waits for a fill of another process, one per key for all its waiters. `timedOut`:
   * callers that waited for `waitMs`. `totalMs`: duration of all waits.
   */
  readonly waits: { readonly started: number; readonly timedOut: number; readonly totalMs: number }
  /**
   * `totalMs`: duration of all fills. `savedMs`: for each hit, the duration of the fill that made
   * its entry, so the time that the origin would have spent. A stale entry in place of the failure
   * of the request's own run saves nothing.
   */
  readonly origin: { readonly totalMs: number; readonly savedMs: number }
  /** Runs of the origin without a lease, and keys that wait for a concurrency slot. */
  readonly unleased: { readonly running: number; readonly queued: number }
  /** Purges that this process received. */
  readonly purges: { readonly hard: number; readonly soft: number }
  /** The state of the store, as this process sees it. */
  readonly store: {
    readonly name: string
    /** Operations that failed. */
    readonly failures: number
    /** How often purges may have been missed, so that all copies in memory were dropped. */
    readonly gaps: number
    /** False while operations fail at once, because the store did not reply a moment ago. */
    readonly available: boolean
    /**
     * Time since this process last knew that it had missed no purge. A copy in memory may be that
     * much older than a purge. Undefined: the store has not confirmed it yet.
     */
    readonly confirmedAgoMs: number | undefined
    /** Bytes of entries that this process has sent to the store, before compression. */
    readonly bytesRaw: number
    /** The same, as the store has them. */
    readonly bytesStored: number
  }
  /** Entries in the memory of this process, their size in bytes, and the limit of that size. */
  readonly l1: { readonly entries: number; readonly bytes: number; readonly maxBytes: number }
  /** Keys that are being resolved, and leases of fills. */
  readonly active: { readonly flights: number; readonly leases: number }
  /**
   * `running`: handlers that run under an idempotency key. `unstored`: attempts whose end is not
   * stored yet, because the store was unavailable. `outcomes`: requests and jobs by outcome.
   */
  readonly idempotency: {
    readonly running: number
    readonly unstored: number
    readonly outcomes: Readonly<Record<string, number>>
  }
  /**
   * Counters by route pattern, such as `/products/:id`. `getOrSet` calls are counted by the part of
   * their key before the first colon, or as `(data)`. `(http)`: no route is known. `(other)`: all
   * routes after the first 200.
   */
  readonly routes: Readonly<Record<string, RouteStats>>
  /**
   * GET and HEAD requests that bypassed the cache, and runs whose response was not stored, by route
   * and by the `detail` of Cache-Status.
   */
  readonly notCached: Readonly<Record<string, Readonly<Record<string, number>>>>
}

export function statsOf(rt: Runtime, idempotency: IdempotencyRuntime | undefined): StampedeStats {
  const { events, counts, store } = rt
  const purges = events.countByDetail('entry.purged')
  const routes = Object.fromEntries([...counts.routes].map(([name, each]) => [name, { ...each }]))
  const sum = (name: keyof RouteStats) =>
    Object.values(routes).reduce((total, route) => total + route[name], 0)
  const hits = { ...events.hits }
  const used = { hits, misses: sum('misses'), stale: { ...counts.stale }, routes }
  return {
    ...used,
    ratios: ratiosOf(usageOf(used)),
    bypasses: Object.fromEntries(counts.bypasses),
    fills: {
      started: events.count('fill.started'),
      committed: events.count('fill.committed'),
      fenced: events.count('fill.fenced'),
      passed: events.count('fill.passed'),
      skipped: events.count('fill.skipped'),
      failed: events.count('fill.failed'),
      abandoned: events.count('fill.abandoned'),
    },
    leases: events.countByDetail('lease.granted'),
    collapsed: events.collapsed,
    failuresShared: events.count('failure.shared'),
    waits: {
      started: events.count('wait.started'),
      timedOut: events.count('wait.timed-out'),
      totalMs: Math.round(counts.waitedMs),
    },
    origin: {
      totalMs: Math.round(counts.originMs),
      savedMs: sum('savedMs'),
    },
    unleased: { running: rt.originSlots.taken, queued: rt.originSlots.queued },
    purges: { hard: purges.false ?? 0, soft: purges.true ?? 0 },
    store: {
      name: store.name,
      failures: events.count('store.failed'),
      gaps: events.count('bus.gap'),
      available: store.isAvailable,
      confirmedAgoMs: confirmedAgoMs(rt),
      bytesRaw: rt.records?.written?.raw ?? 0,
      bytesStored: rt.records?.written?.stored ?? 0,
    },
    l1: { ...rt.l1.size, maxBytes: rt.l1.maxBytes },
    active: { flights: rt.flights.size, leases: rt.keeper.size },
    idempotency: {
      running: idempotency?.attempts.counts.running ?? 0,
      unstored: idempotency?.attempts.counts.unstored ?? 0,
      outcomes: events.countByDetail('idempotency.answered'),
    },
    notCached: Object.fromEntries(
      [...counts.notCached].map(([name, each]) => [name, Object.fromEntries(each)]),
    ),
  }
}

/** 0 for a store of one process, which misses no purge. */
function confirmedAgoMs({ store, clock }: Runtime): number | undefined {
  const { confirmedAt } = store
  if (confirmedAt === Number.NEGATIVE_INFINITY) return undefined
  return Math.max(0, Math.round(clock.now() - confirmedAt))
}
