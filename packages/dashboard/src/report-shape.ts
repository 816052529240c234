// The form of a report, and its reader. A report may come from any version, or from a client of the
// store, so the reader trusts no part of it.

import { BUCKETS, type HistoryView, SERIES } from './history.ts'
import type { LastFill } from './last-fills.ts'
import { bool, list, maybeNum, num, object, record, type Shape, text } from './shape.ts'
import type { ShownKey } from './shown.ts'

type Counts = Readonly<Record<string, number>>

/** `StampedeStats` of any version. Counters that may be missing are records. */
export interface ReportedStats {
  readonly hits: { readonly l1: number; readonly l2: number }
  readonly misses: number
  readonly bypasses: Counts
  readonly stale: Counts
  readonly fills: Counts
  readonly notStored: Counts
  readonly leases: Counts
  readonly collapsed: number
  readonly failuresShared: number
  readonly waits: Counts
  readonly origin: Counts
  readonly unleased: Counts
  readonly purges: Counts
  readonly store: ReportedStore
  readonly l1: Counts
  readonly active: Counts
  readonly idempotency: {
    readonly running: number
    readonly unstored: number
    readonly outcomes: Counts
  }
  readonly routes: Readonly<Record<string, Counts>>
}

export interface ReportedStore {
  readonly name: string
  readonly failures: number
  readonly gaps: number
  readonly available: boolean
  readonly confirmedAgoMs: number | undefined
}

export interface ReportedEvent extends ShownKey {
  readonly at: number
  readonly type: string
  readonly fields: Readonly<Record<string, string | number>>
}

export interface ReportedFlight extends ShownKey {
  readonly state: string
  readonly hasLease: boolean
  readonly ageMs: number
  readonly waiters: number
}

export interface ReportedKey extends ShownKey {
  readonly hits: number
  /** The last fill by the process, if it remembers one. */
  readonly fill: LastFill
}

export interface ReportedLock extends ShownKey {
  readonly fence: string
  readonly heldMs: number
}

export interface ProcessReport {
  readonly id: string
  /** Wall clock of the process. */
  readonly at: number
  readonly pid: number
  readonly host: string
  readonly uptimeMs: number
  /** Whether the process has closed its dashboard. */
  readonly bye: boolean
  readonly stats: ReportedStats
  readonly flights: readonly ReportedFlight[]
  readonly hotKeys: readonly ReportedKey[]
  readonly recent: readonly ReportedEvent[]
  readonly history: HistoryView
  readonly locks: { readonly stats: Counts; readonly held: readonly ReportedLock[] }
}

/** Longest names of keys in a report, see `shower`. */
const name = text(600)
const shown = { key: name, id: name }
const counts: Shape<Counts> = record(num, 64)
const series = Object.fromEntries(SERIES.map((each) => [each, list(num, BUCKETS)]))

const STATS: Shape<ReportedStats> = object({
  hits: object({ l1: num, l2: num }),
  misses: num,
  bypasses: counts,
  stale: counts,
  fills: counts,
  notStored: counts,
  leases: counts,
  collapsed: num,
  failuresShared: num,
  waits: counts,
  origin: counts,
  unleased: counts,
  purges: counts,
  store: object({
    name: text(40),
    failures: num,
    gaps: num,
    available: bool,
    confirmedAgoMs: maybeNum,
  }),
  l1: counts,
  active: counts,
  idempotency: object({ running: num, unstored: num, outcomes: counts }),
  routes: record(counts, 60),
})

const EVENT: Shape<ReportedEvent> = object({
  ...shown,
  at: num,
  type: text(40),
  fields: record((value) => (typeof value === 'number' ? num(value) : text(200)(value)), 8),
})

const FLIGHT: Shape<ReportedFlight> = object({
  ...shown,
  state: text(20),
  hasLease: bool,
  ageMs: num,
  waiters: num,
})

const HOT_KEY: Shape<ReportedKey> = object({
  ...shown,
  hits: num,
  fill: object({ at: num, reason: text(40) }),
})

/** Reads a report that was parsed as JSON. */
export const readProcessReport: Shape<ProcessReport> = object({
  id: text(40),
  at: num,
  pid: num,
  host: text(80),
  uptimeMs: num,
  bye: bool,
  stats: STATS,
  flights: list(FLIGHT, 50),
  hotKeys: list(HOT_KEY, 20),
  recent: list(EVENT, 100),
  history: object({ endAt: num, series: object(series) as Shape<HistoryView['series']> }),
  locks: object({
    stats: counts,
    held: list<ReportedLock>(object({ ...shown, fence: text(40), heldMs: num }), 50),
  }),
})
