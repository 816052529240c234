// The fleet as the page shows it, and how it is made from the reports of the processes.

import { ratiosOf, usageOf } from '@stampede/core/operator'
import { type ProcessReport, reportEveryMs } from '@stampede/operate'
import { BUCKET_MS, BUCKETS, type HistoryView, SERIES, type Series } from './history.ts'
import { type NotCached, notCachedOf, routesOf, sum, type Totals, totalsOf } from './totals.ts'

type Ratios = ReturnType<typeof ratiosOf>
type Usage = Parameters<typeof ratiosOf>[0]
type ReportedEvent = ProcessReport['recent'][number]
type ReportedKey = ProcessReport['hotKeys'][number]

export interface ProcessView {
  readonly id: string
  readonly host: string
  readonly pid: number
  readonly isSelf: boolean
  readonly uptimeMs: number
  /** Time since its last report arrived. 0 for the process that serves the page. */
  readonly silentMs: number
  /** Whether its report is overdue: it is frozen, was killed, or is cut off from the store. */
  readonly isSilent: boolean
  readonly requests: number
  readonly hits: number
  readonly misses: number
  readonly savedMs: number
  readonly l1: Readonly<Record<string, number>>
  readonly store: ProcessReport['stats']['store']
  readonly leases: number
  readonly flights: number
}

/** A process that no longer reports. */
export interface GoneView {
  readonly id: string
  readonly host: string
  readonly pid: number
  readonly goneForMs: number
  /** Whether it closed its dashboard, and did not just stop to report. */
  readonly wasClosed: boolean
}

/** A key that at least one process looks up or fills. */
export interface WorkView {
  readonly key: string
  readonly id: string
  /** Name of the process that holds the lease. */
  readonly holder?: string
  readonly isHolderSilent: boolean
  readonly states: Readonly<Record<string, number>>
  readonly waiters: number
  readonly processes: number
  readonly ageMs: number
}

export interface LockView {
  readonly key: string
  readonly id: string
  readonly holder: string
  readonly fence: string
  readonly heldMs: number
}

export interface FleetView {
  /** Identity of the process that serves the page. */
  readonly self: string
  readonly at: number
  /** Time between two reports of one process. */
  readonly reportEveryMs: number
  /** Why the reports of the other processes cannot be read. */
  readonly storeError?: string
  readonly processes: readonly ProcessView[]
  readonly gone: readonly GoneView[]
  readonly totals: Totals | undefined
  readonly ratios: { readonly lastMinute: Ratios; readonly sinceStart: Ratios }
  readonly work: readonly WorkView[]
  readonly hotKeys: readonly ReportedKey[]
  readonly routes: ReturnType<typeof routesOf>
  readonly notCached: readonly NotCached[]
  /** Newest first. */
  readonly events: ReadonlyArray<ReportedEvent & { readonly process: string }>
  readonly history: HistoryView & { readonly bucketMs: number }
  readonly locks: {
    readonly stats: Readonly<Record<string, number>>
    readonly held: readonly LockView[]
  }
}

/** A report, and the time since it arrived. */
export interface Heard {
  readonly report: ProcessReport
  readonly silentMs: number
}

/** A report is overdue after this many intervals. */
const OVERDUE = 2.5

export function isOverdue(silentMs: number, processes: number): boolean {
  return silentMs > OVERDUE * reportEveryMs(processes)
}

export function fleetView(
  self: string,
  heard: readonly Heard[],
  rest: Pick<FleetView, 'gone' | 'storeError'>,
): FleetView {
  const reports = heard.map(({ report }) => report)
  const stats = reports.map((report) => report.stats)
  const history = historyOf(heard)
  const processes = heard.map((each) => processView(each, self, heard.length))
  return {
    self,
    at: Date.now(),
    reportEveryMs: reportEveryMs(heard.length),
    ...rest,
    processes: processes.sort(byName).slice(0, 200),
    totals: totalsOf(stats),
    ratios: ratiosOver(stats, history),
    work: workOf(heard),
    hotKeys: hotKeysOf(reports),
    routes: routesOf(stats, 40),
    notCached: notCachedOf(stats, 10),
    events: eventsOf(reports),
    history,
    locks: locksOf(reports),
  }
}

const MINUTE_MS = 60_000

function ratiosOver(
  stats: ReadonlyArray<ProcessReport['stats']>,
  { series, bucketMs }: FleetView['history'],
): FleetView['ratios'] {
  const last = (name: Series): number => sum(series[name].slice(-MINUTE_MS / bucketMs))
  const all = stats.map(usageOf)
  const total = (name: keyof Usage): number => all.reduce((count, each) => count + each[name], 0)
  return {
    lastMinute: ratiosOf({
      hits: last('fresh') + last('stale'),
      misses: last('miss'),
      runs: last('origin'),
    }),
    sinceStart: ratiosOf({ hits: total('hits'), misses: total('misses'), runs: total('runs') }),
  }
}

export const nameOf = ({ host, pid }: Pick<ProcessReport, 'host' | 'pid'>): string =>
  `${host}:${pid}`

const byName = (a: ProcessView, b: ProcessView): number => (nameOf(a) < nameOf(b) ? -1 : 1)

function processView({ report, silentMs }: Heard, self: string, processes: number): ProcessView {
  const { id, host, pid, uptimeMs, stats } = report
  const { hits, misses } = usageOf(stats)
  return {
    id,
    host,
    pid,
    isSelf: id === self,
    uptimeMs: uptimeMs + silentMs,
    silentMs,
    isSilent: isOverdue(silentMs, processes),
    requests: hits + misses + sum(stats.bypasses),
    hits,
    misses,
    savedMs: stats.origin.savedMs ?? 0,
    l1: stats.l1,
    store: stats.store,
    leases: stats.active.leases ?? 0,
    flights: stats.active.flights ?? 0,
  }
}

/** Shorter lookups are not shown: on a busy server, one is always under way. */
const SHORTEST_LOOKUP_MS = 100

/** The flights of all processes, joined by their keys. Most waiters first. */
function workOf(heard: readonly Heard[]): WorkView[] {
  const byKey = new Map<string, WorkView>()
  for (const { report, silentMs } of heard) {
    const isSilent = isOverdue(silentMs, heard.length)
    for (const { key, id, state, hasLease, ageMs, waiters } of report.flights) {
      if (state === 'looking-up' && ageMs < SHORTEST_LOOKUP_MS) continue
      const known = byKey.get(id)
      // A silent process may have lost its lease, so a process that reports goes first.
      const isHolder = hasLease && (known?.holder === undefined || known.isHolderSilent)
      byKey.set(id, {
        key,
        id,
        ...(known?.holder !== undefined && { holder: known.holder }),
        ...(isHolder && { holder: nameOf(report) }),
        isHolderSilent: isHolder ? isSilent : (known?.isHolderSilent ?? false),
        states: { ...known?.states, [state]: (known?.states[state] ?? 0) + 1 },
        waiters: (known?.waiters ?? 0) + waiters,
        processes: (known?.processes ?? 0) + 1,
        // A report does not say what happened since. A silent process still holds its lease.
        ageMs: Math.max(known?.ageMs ?? 0, ageMs + (isSilent ? silentMs : 0)),
      })
    }
  }
  return [...byKey.values()].sort((a, b) => b.waiters - a.waiters || b.ageMs - a.ageMs).slice(0, 50)
}

function hotKeysOf(reports: readonly ProcessReport[]): FleetView['hotKeys'] {
  const byKey = new Map<string, ReportedKey>()
  for (const hot of reports.flatMap((report) => report.hotKeys)) {
    byKey.set(hot.id, { ...hot, hits: (byKey.get(hot.id)?.hits ?? 0) + hot.hits })
  }
  return [...byKey.values()].sort((a, b) => b.hits - a.hits).slice(0, 20)
}

function eventsOf(reports: readonly ProcessReport[]): FleetView['events'] {
  return reports
    .flatMap((report) => report.recent.map((event) => ({ ...event, process: nameOf(report) })))
    .sort((a, b) => b.at - a.at)
    .slice(0, 60)
}

/**
 * The sum of all histories, up to the time that every process has reported. Without that cut, the
 * last buckets would always look like a drop.
 */
function historyOf(heard: readonly Heard[]): FleetView['history'] {
  const histories = heard
    .filter(({ report }) => report.history.endAt > 0)
    .map((each) => ({
      series: each.report.history.series,
      endAt: each.report.history.endAt + skewOf(each),
      isPresent: !isOverdue(each.silentMs, heard.length),
    }))
  const ends = histories.filter(({ isPresent }) => isPresent).map(({ endAt }) => endAt)
  const endAt = ends.length > 0 ? Math.min(...ends) : 0
  const series = Object.fromEntries(
    SERIES.map((name) => [name, Array.from({ length: BUCKETS }, () => 0)]),
  ) as Record<Series, number[]>
  let used = 0
  for (const history of histories) {
    const shift = Math.round((endAt - history.endAt) / BUCKET_MS)
    for (const name of SERIES) {
      const values = history.series[name] ?? []
      used = Math.max(used, values.length + shift)
      for (const [at, value] of values.entries()) {
        const to = BUCKETS - values.length - shift + at
        const into = series[name]
        if (to >= 0 && to < BUCKETS) into[to] = (into[to] ?? 0) + value
      }
    }
  }
  const cut = Math.max(0, BUCKETS - used)
  const kept = SERIES.map((name) => [name, series[name].slice(cut)])
  return { endAt, bucketMs: BUCKET_MS, series: Object.fromEntries(kept) as HistoryView['series'] }
}

/** Differences between the clocks of two machines up to this one are ignored. */
const MOST_SKEW_MS = 15_000

/** Difference between the clock of this process and that of the report, in whole buckets. */
function skewOf({ report, silentMs }: Heard): number {
  const skewMs = Date.now() - silentMs - report.at
  return Math.abs(skewMs) < MOST_SKEW_MS ? 0 : Math.round(skewMs / BUCKET_MS) * BUCKET_MS
}

function locksOf(reports: readonly ProcessReport[]): FleetView['locks'] {
  const held = reports.flatMap((report) =>
    report.locks.held.map((lock) => ({ ...lock, holder: nameOf(report) })),
  )
  const stats: Record<string, number> = Object.create(null)
  for (const report of reports) {
    for (const [name, value] of Object.entries(report.locks.stats)) {
      stats[name] = (stats[name] ?? 0) + value
    }
  }
  return { stats, held: held.sort((a, b) => b.heldMs - a.heldMs).slice(0, 50) }
}
