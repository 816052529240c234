// The reports of the fleet's processes. A report is a ProcessSnapshot as JSON, or the report of a
// dashboard. It may come from any version, so each field is read with care.

import type { StampedeStore } from '@stampede/core'
import { groupOf } from '@stampede/core/store'

export interface ReportedEvent {
  /** Wall-clock time of the process, in ms since the Unix epoch. */
  readonly at: number
  readonly type: string
  readonly internalKey: string
  readonly [field: string]: unknown
}

export interface Counted {
  readonly requests: number
  readonly hits: number
  readonly misses: number
  readonly stale: number
  readonly waits: number
  readonly fills: number
  readonly fenced: number
  readonly savedMs: number
  readonly l1Bytes: number
}

export interface ProcessReport extends Counted {
  readonly id: string
  readonly name: string
  readonly uptimeMs: number
  readonly isStoreAvailable: boolean
  readonly flights: ReadonlyArray<{
    readonly key: string
    readonly internalKey: string
    readonly state: string
    readonly ageMs: number
    readonly waiters: number
  }>
  readonly hotKeys: ReadonlyArray<{ readonly key: string; readonly hits: number }>
  readonly recent: readonly ReportedEvent[]
}

export async function readProcesses(store: StampedeStore): Promise<ProcessReport[]> {
  const reports = await store.operator.reports()
  return [...reports]
    .flatMap(([id, text]) => parsed(id, text) ?? [])
    .sort((a, b) => (a.name < b.name ? -1 : 1))
}

/** The sum over the fleet. */
export function totalOf(processes: readonly ProcessReport[]): Counted {
  const sum = (name: keyof Counted) => processes.reduce((all, each) => all + each[name], 0)
  return {
    requests: sum('requests'),
    hits: sum('hits'),
    misses: sum('misses'),
    stale: sum('stale'),
    waits: sum('waits'),
    fills: sum('fills'),
    fenced: sum('fenced'),
    savedMs: sum('savedMs'),
    l1Bytes: sum('l1Bytes'),
  }
}

/** The latest events about a key and its variants in the whole fleet, newest first. */
export function eventsOf(processes: readonly ProcessReport[], key: string): ReportedEvent[] {
  const group = groupOf(key)
  return (
    processes
      // The sort is stable. So events of one process within one millisecond keep their order.
      .flatMap(({ recent, name }) =>
        recent.toReversed().map((event) => ({ ...event, process: name })),
      )
      .filter(({ internalKey }) => groupOf(internalKey) === group)
      .sort((a, b) => b.at - a.at)
  )
}

/** The failure in the field `failure` of an event. Undefined for the value of another field. */
export function failureIn(value: unknown): { status: number; message: string } | undefined {
  const { status, message } = bag(value)
  return status === undefined ? undefined : { status: amount(status), message: text(message) }
}

type Bag = Readonly<Record<string, unknown>>

const bag = (value: unknown): Bag =>
  typeof value === 'object' && value !== null ? (value as Bag) : {}
const amount = (value: unknown): number => (Number.isFinite(value) ? Number(value) : 0)
const list = (value: unknown): Bag[] => (Array.isArray(value) ? value.map(bag) : [])
const text = (value: unknown): string => (typeof value === 'string' ? value : '')
const total = (values: Bag): number =>
  Object.values(values).reduce<number>((sum, each) => sum + amount(each), 0)

function parsed(id: string, report: string): ProcessReport | undefined {
  let snapshot: Bag
  try {
    snapshot = bag(JSON.parse(report))
  } catch {
    return undefined
  }
  const stats = bag(snapshot.stats)
  const [hits, fills, origin] = [bag(stats.hits), bag(stats.fills), bag(stats.origin)]
  // `hits` has no stale entries in place of a late or failed run.
  const stale = bag(stats.stale)
  const served = amount(hits.l1) + amount(hits.l2) + total(stale) - amount(stale.revalidate)
  return {
    id,
    name: `${text(snapshot.host) || '?'}:${amount(snapshot.pid)}`,
    uptimeMs: amount(snapshot.uptimeMs),
    requests: served + amount(stats.misses) + total(bag(stats.bypasses)),
    hits: served,
    misses: amount(stats.misses),
    stale: total(stale),
    waits: amount(bag(stats.waits).started),
    fills: amount(fills.started),
    fenced: amount(fills.fenced),
    savedMs: amount(origin.savedMs),
    l1Bytes: amount(bag(stats.l1).bytes),
    isStoreAvailable: bag(stats.store).available !== false,
    flights: list(snapshot.flights).map((flight) => ({
      key: text(flight.key),
      internalKey: text(flight.internalKey),
      state: text(flight.state),
      ageMs: amount(flight.ageMs),
      waiters: amount(flight.waiters),
    })),
    hotKeys: list(snapshot.hotKeys).map((hot) => ({ key: text(hot.key), hits: amount(hot.hits) })),
    recent: list(snapshot.recent).map(eventOf),
  }
}

/** In the report of a dashboard, `id` is the internal key, and `fields` has the other fields. */
function eventOf({ id, fields, ...event }: Bag): ReportedEvent {
  return {
    ...event,
    ...bag(fields),
    at: amount(event.at),
    type: text(event.type),
    internalKey: text(event.internalKey ?? id),
  }
}
