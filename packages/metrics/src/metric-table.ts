// The table of counters and gauges: name, help, labels, and the values in stats(). All are read
// when Prometheus scrapes, so a request pays nothing for them.

import type { StampedeEvent, StampedeStats } from '@stampede/core'

/** The part of `locks.stats()` that has metrics. All times are in ms. */
export interface LockStats {
  /** Calls that got the lock. */
  readonly acquired: number
  /** Calls that waited. */
  readonly contended: number
  /** Calls that waited for `waitMs` without getting the lock. */
  readonly timedOut: number
  /** Calls whose wait was aborted. */
  readonly aborted: number
  /** Leases that ended before their release. */
  readonly lost: number
  /** Released leases. */
  readonly released: number
  /** Calls that failed because the store did not reply. */
  readonly unavailable: number
  /** Sum of the waits. */
  readonly waitedMs: number
  /** Sum of the time that ended leases were held. */
  readonly heldMs: number
  /** Leases that the process holds now. */
  readonly held: number
  /** Calls that wait now. */
  readonly waiting: number
}

/** The values of one Stampede at one scrape. */
export interface Snapshot {
  readonly stats: StampedeStats
  readonly locks: LockStats | undefined
}

export type LabelValues = Readonly<Record<string, string>>
export type Sample = readonly [value: number, labels?: LabelValues]

export interface MetricRow {
  readonly type: 'counter' | 'gauge'
  readonly help: string
  /** Label names, in addition to `stampede` and those of the option `labels`. */
  readonly labels: readonly string[]
  /** How a cluster's primary combines the workers' values. */
  readonly aggregator: 'sum' | 'min' | 'max'
  readonly read: (snapshot: Snapshot) => readonly Sample[]
}

/** Undefined: the metric has no sample. */
type Read = (stats: StampedeStats, locks: LockStats | undefined) => number | Samples | undefined
type Samples = readonly Sample[]

const row =
  (type: MetricRow['type']) =>
  (help: string, measure: Read, ...labels: string[]): MetricRow => ({
    type,
    help,
    labels,
    aggregator: 'sum',
    read({ stats, locks }) {
      const value = measure(stats, locks) ?? []
      return typeof value === 'number' ? [[value]] : value
    },
  })

const counter = row('counter')
const gauge = row('gauge')

/** One sample for each property of `record`, whose name is the value of the label. */
const by = (label: string, record: Readonly<Record<string, number>>): Sample[] =>
  Object.entries(record).map(([name, value]) => [value, { [label]: name }])

type EventOf<T extends StampedeEvent['type']> = Extract<StampedeEvent, { type: T }>

const byRoute = (
  { routes }: StampedeStats,
  of: (route: StampedeStats['routes'][string]) => number,
): Sample[] => Object.entries(routes).map(([route, stats]) => [of(stats), { route }])

/** Reasons in `notCached` that are no decision about a response. */
const NO_DECISIONS = new Set([
  'hit-for-miss',
  'request-no-store',
  'server-error',
  'store-unavailable',
  'wait-timeout',
])

/** Requests by the reason for which their response was not stored, without bypasses. */
function notStored({ notCached, bypasses }: StampedeStats): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const [reason, count] of Object.values(notCached).flatMap(Object.entries<number>))
    counts[reason] = (counts[reason] ?? -(bypasses[reason] ?? 0)) + count
  const decided = ([reason, count]: [string, number]) => count > 0 && !NO_DECISIONS.has(reason)
  return Object.fromEntries(Object.entries(counts).filter(decided))
}

const seconds = (ms: number): number => ms / 1000

/**
 * A counter whose first sample is 1 shows no increase in Prometheus. So counters that alerts use
 * have all their series from the start.
 */
const NO_OUTCOMES: Readonly<Record<EventOf<'idempotency.answered'>['outcome'], number>> = {
  started: 0,
  recovered: 0,
  replayed: 0,
  'replayed-l1': 0,
  'replayed-after-wait': 0,
  'in-progress': 0,
  'key-reused': 0,
  'key-missing': 0,
  'key-invalid': 0,
  uncertain: 0,
  'not-retained': 0,
  'too-large': 0,
  incomplete: 0,
  unavailable: 0,
  unprotected: 0,
}

const NO_LEASES: Readonly<Record<EventOf<'lease.granted'>['reason'], number>> = {
  absent: 0,
  expired: 0,
  purged: 0,
  stale: 0,
  'hit-for-miss': 0,
}

/** All counters and gauges, by name without the prefix. docs/guide/metrics.md has them (tested). */
export const METRICS: Readonly<Record<string, MetricRow>> = {
  requests_total: counter(
    'Requests and calls. Outcome: hit (fresh), stale, miss or bypass',
    ({ routes }) =>
      Object.entries(routes).flatMap(([route, { hits, stale, misses, bypasses }]) =>
        by('outcome', { hit: hits, stale, miss: misses, bypass: bypasses }).map(
          ([value, labels]): Sample => [value, { route, ...labels }],
        ),
      ),
    'route',
    'outcome',
  ),
  hits_total: counter(
    'Requests and calls served from memory (l1) or the store (l2), stale ones included',
    ({ hits }) => by('tier', hits),
    'tier',
  ),
  bypasses_total: counter(
    'Requests that bypassed the cache, by the detail of Cache-Status, or method',
    ({ bypasses }) => by('reason', bypasses),
    'reason',
  ),
  stale_served_total: counter(
    'Stale entries served. Reason: revalidate, soft-timeout, origin-queue or if-error',
    ({ stale }) => by('reason', stale),
    'reason',
  ),
  collapsed_requests_total: counter(
    'Requests and calls that joined a lookup or fill of this process',
    ({ collapsed }) => collapsed,
  ),
  shared_failures_total: counter(
    'Requests and calls that got the failure of another run',
    ({ failuresShared }) => failuresShared,
  ),
  fills_started_total: counter('Runs of the origin that started', ({ fills }) => fills.started),
  fills_total: counter(
    'Runs of the origin that ended. Outcome: committed, fenced, passed, skipped, failed or abandoned',
    ({ fills: { started: _, ...ended } }) => by('outcome', ended),
    'outcome',
  ),
  responses_not_stored_total: counter(
    'Responses that were not stored, by the detail of Cache-Status',
    (stats) => by('reason', notStored(stats)),
    'reason',
  ),
  leases_granted_total: counter(
    'Leases that this process got, by the reason for which it filled the key',
    ({ leases }) => by('reason', { ...NO_LEASES, ...leases }),
    'reason',
  ),
  waits_started_total: counter(
    'Waits for a fill of another process, one per key for all its waiters',
    ({ waits }) => waits.started,
  ),
  wait_timeouts_total: counter(
    'Requests and calls that waited for waitMs',
    ({ waits }) => waits.timedOut,
  ),
  origin_seconds_total: counter(
    'Duration of all runs of the origin in fills, without the commit',
    ({ origin }) => seconds(origin.totalMs),
  ),
  origin_saved_seconds_total: counter(
    'For each hit, the duration of the fill that made its entry',
    (stats) => byRoute(stats, ({ savedMs }) => seconds(savedMs)),
    'route',
  ),
  route_origin_runs_total: counter(
    'Runs of the origin in requests that used the cache, stored or not',
    (stats) => byRoute(stats, ({ runs }) => runs),
    'route',
  ),
  route_origin_seconds_total: counter(
    'Duration of the runs in route_origin_runs_total',
    (stats) => byRoute(stats, ({ originMs }) => seconds(originMs)),
    'route',
  ),
  served_bytes_total: counter(
    'Bytes of bodies and values served from entries',
    (stats) => byRoute(stats, ({ bytes }) => bytes),
    'route',
  ),
  purges_total: counter(
    'Purges that this process received. Mode: hard or soft',
    ({ purges }) => by('mode', purges),
    'mode',
  ),
  flights: gauge('Keys with a lookup or fill under way', ({ active }) => active.flights),
  leases: gauge('Leases of fills that this process holds', ({ active }) => active.leases),
  unleased_runs: gauge(
    'Runs of the origin without a lease, at most originConcurrency',
    ({ unleased }) => unleased.running,
  ),
  unleased_queued: gauge(
    'Keys that wait for a concurrency slot',
    ({ unleased }) => unleased.queued,
  ),
  l1_entries: gauge('Entries in the memory of this process', ({ l1 }) => l1.entries),
  l1_bytes: gauge('Size of the entries in memory', ({ l1 }) => l1.bytes),
  l1_max_bytes: gauge('Limit of the size of the entries in memory', ({ l1 }) => l1.maxBytes),
  store_info: {
    ...gauge(
      'Always 1, with the name of the store',
      ({ store }) => [[1, { store: store.name }]],
      'store',
    ),
    aggregator: 'max',
  },
  store_available: {
    ...gauge(
      '0 while operations fail at once, because the store did not reply a moment ago, else 1',
      ({ store }) => Number(store.available),
    ),
    aggregator: 'min',
  },
  store_confirmed_age_seconds: {
    ...gauge(
      'Time since this process last knew that it had missed no purge. No sample before the first such moment',
      ({ store: { confirmedAgoMs } }) =>
        confirmedAgoMs === undefined ? undefined : seconds(confirmedAgoMs),
    ),
    aggregator: 'max',
  },
  store_failures_total: counter(
    'Operations of the store that failed',
    ({ store }) => store.failures,
  ),
  store_gaps_total: counter(
    'How often purges may have been missed, so that all copies in memory were dropped',
    ({ store }) => store.gaps,
  ),
  store_raw_bytes_total: counter(
    'Entries sent to the store, before compression',
    ({ store }) => store.bytesRaw,
  ),
  store_stored_bytes_total: counter('The same, as stored', ({ store }) => store.bytesStored),
  idempotency_requests_total: counter(
    'Requests and jobs with an idempotency key, by outcome',
    ({ idempotency }) => by('outcome', { ...NO_OUTCOMES, ...idempotency.outcomes }),
    'outcome',
  ),
  idempotency_running: gauge(
    'Handlers that run under an idempotency key',
    ({ idempotency }) => idempotency.running,
  ),
  idempotency_unstored: gauge(
    'Attempts whose end is not stored yet, because the store was unavailable',
    ({ idempotency }) => idempotency.unstored,
  ),
  lock_calls_total: counter(
    'Calls that acquire a lock. Outcome: acquired, timed-out, aborted or unavailable',
    (_, locks) => locks && by('outcome', callsOf(locks)),
    'outcome',
  ),
  lock_contended_total: counter(
    'Calls that waited, because another owner held the lock',
    (_, locks) => locks?.contended,
  ),
  lock_leases_ended_total: counter(
    'Leases of locks that ended. Outcome: released or lost',
    (_, locks) => locks && by('outcome', { released: locks.released, lost: locks.lost }),
    'outcome',
  ),
  lock_wait_seconds_total: counter(
    'Time that calls waited for a lock',
    (_, locks) => locks && seconds(locks.waitedMs),
  ),
  lock_held_seconds_total: counter(
    'Time that ended leases of locks were held',
    (_, locks) => locks && seconds(locks.heldMs),
  ),
  locks_held: gauge('Locks that this process holds', (_, locks) => locks?.held),
  locks_waiting: gauge('Calls of this process that wait for a lock', (_, locks) => locks?.waiting),
}

function callsOf({ acquired, timedOut, aborted, unavailable }: LockStats) {
  return { acquired, 'timed-out': timedOut, aborted, unavailable }
}
