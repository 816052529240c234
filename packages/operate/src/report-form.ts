// The form of a process's report, and its reader. A report may come from any version, or from a
// client of the store, so the reader trusts no part of it.

import type { StampedeStats } from '@stampede/core'
import { LONGEST_FIELD, type ReportedId } from './reported-key.ts'
import { bool, list, maybeNum, num, object, record, type Shape, text } from './shape.ts'

type Counts = Readonly<Record<string, number>>

/** The members of `T` that are counters. Some may be missing, so each is a record. */
type CountsOf<T> = { readonly [Name in keyof T as T[Name] extends Counts ? Name : never]: Counts }

/** `StampedeStats` of any version. */
export interface ReportedStats
  extends Pick<StampedeStats, 'hits' | 'misses' | 'collapsed' | 'failuresShared'>,
    CountsOf<Omit<StampedeStats, 'hits'>> {
  readonly store: ReportedStore
  readonly idempotency: {
    readonly running: number
    readonly unstored: number
    readonly outcomes: Counts
  }
  readonly routes: Readonly<Record<string, Counts>>
  /** Requests that were not cached, by route and reason. */
  readonly notCached: Readonly<Record<string, Counts>>
}

/** The state of the store, as the process sees it. See `stats().store`. */
type ReportedStore = Omit<StampedeStats['store'], 'bytesRaw' | 'bytesStored'>

/** An event. A key in a report is never an idempotency key. */
export interface ReportedEvent extends ReportedId {
  /** Wall-clock time of the process, in ms since 1970. */
  readonly at: number
  readonly type: string
  /** The scalar fields. An error is its message, a failure its status and its message. */
  readonly fields: Readonly<Record<string, string | number>>
}

/** One key that the process looks up or fills. Times are in ms. */
export interface ReportedFlight extends ReportedId {
  readonly state: string
  /** Whether the process holds the lease of the key. */
  readonly hasLease: boolean
  readonly ageMs: number
  /** Requests and calls that wait. The leader is not one of them. */
  readonly waiters: number
}

/** The last fill of a key by the process. */
export interface LastFill {
  /** Wall-clock time, in ms since 1970. */
  readonly at: number
  /** The `reason` of the event `lease.granted`. */
  readonly reason: string
}

/** A key with its hits in the process. */
export interface ReportedKey extends ReportedId {
  readonly hits: number
  /** The last fill by the process. `at` is 0 if it remembers none. */
  readonly fill: LastFill
}

/** A lock that the process holds. */
export interface ReportedLock extends ReportedId {
  readonly fence: string
  readonly heldMs: number
}

/** Parts of the report of a process with a dashboard. */
export interface ReportAdditions {
  /** Counters of the last minutes, oldest first, up to the wall-clock time `endAt`. */
  readonly history: {
    readonly endAt: number
    readonly series: Readonly<Record<string, readonly number[]>>
  }
  readonly locks: { readonly stats: Counts; readonly held: readonly ReportedLock[] }
}

/** The state of one process. */
export interface ProcessReport extends ReportAdditions {
  /** Random name of its observer. */
  readonly id: string
  /** Wall clock of the process. */
  readonly at: number
  readonly pid: number
  readonly host: string
  readonly uptimeMs: number
  /** Whether the process has closed its dashboard. */
  readonly bye: boolean
  readonly stats: ReportedStats
  /** Most waiters first. */
  readonly flights: readonly ReportedFlight[]
  /** Most hits first. */
  readonly hotKeys: readonly ReportedKey[]
  /** The latest events except hits, oldest first. */
  readonly recent: readonly ReportedEvent[]
}

/** Longest lists of a report. */
export const MOST = { flights: 50, hotKeys: 20, recent: 60, routes: 40, locks: 50 } as const

const name = text(LONGEST_FIELD)
const shown = { key: name, id: name }
const counts: Shape<Counts> = record(num, 64)

const STATS: Shape<ReportedStats> = object({
  ...{ bypasses: counts, stale: counts, fills: counts, leases: counts, waits: counts },
  ...{ origin: counts, unleased: counts, purges: counts, l1: counts, active: counts },
  hits: object({ l1: num, l2: num }),
  misses: num,
  collapsed: num,
  failuresShared: num,
  store: object({
    name: text(40),
    failures: num,
    gaps: num,
    available: bool,
    confirmedAgoMs: maybeNum,
  }),
  idempotency: object({ running: num, unstored: num, outcomes: counts }),
  routes: record(counts, MOST.routes + 1),
  notCached: record(counts, MOST.routes),
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

/** Reads a report that was parsed as JSON. What is missing or of another type is empty or 0. */
export const readParsedReport: Shape<ProcessReport> = object({
  id: text(40),
  at: num,
  pid: num,
  host: text(80),
  uptimeMs: num,
  bye: bool,
  stats: STATS,
  flights: list(FLIGHT, MOST.flights),
  hotKeys: list(HOT_KEY, MOST.hotKeys),
  recent: list(EVENT, MOST.recent),
  history: object({ endAt: num, series: record(list(num, 120), 16) }),
  locks: object({
    stats: counts,
    held: list<ReportedLock>(object({ ...shown, fence: text(40), heldMs: num }), MOST.locks),
  }),
})

/** Undefined if the text is no report. */
export function readReport(json: string): ProcessReport | undefined {
  try {
    const report = readParsedReport(JSON.parse(json))
    return report.id === '' ? undefined : report
  } catch {
    return undefined
  }
}

const SHORTEST_INTERVAL_MS = 2_000
const REPORTS_PER_SECOND = 5

/**
 * Time between two reports of one process. With it, reports of a fleet cost at most five commands a
 * second, for any number of processes from ten on.
 */
export function reportEveryMs(processes: number): number {
  return Math.max(SHORTEST_INTERVAL_MS, Math.ceil((processes * 1_000) / REPORTS_PER_SECOND))
}
