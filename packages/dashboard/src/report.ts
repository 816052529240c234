// The report of this process: its snapshot as JSON, short enough for the store.

import type { RouteStats, StampedeStats } from '@stampede/core'
import type { EventView, Observer } from '@stampede/core/operator'
import { type Failure, LONGEST_REPORT } from '@stampede/core/store'
import type { HistoryView } from './history.ts'
import type { LastFills } from './last-fills.ts'
import type { LocksReport } from './lock-watch.ts'
import { type ProcessReport, readProcessReport } from './report-shape.ts'
import { num } from './shape.ts'
import type { shower } from './shown.ts'

/** Undefined if the text is no report. */
export function readReport(json: string): ProcessReport | undefined {
  try {
    const report = readProcessReport(JSON.parse(json))
    return report.id === '' ? undefined : report
  } catch {
    return undefined
  }
}

export interface ReportParts {
  readonly observer: Observer
  readonly history: HistoryView
  readonly locks: LocksReport | undefined
  readonly fills: LastFills
  readonly show: ReturnType<typeof shower>
  readonly showKeys: boolean
  readonly at: number
}

/** The report of this process, with at most `LONGEST_REPORT` characters. */
export function writeReport(parts: ReportParts): string {
  for (let share = 1; share > 0.01; share /= 2) {
    const json = JSON.stringify(reportOf(parts, share))
    if (json.length <= LONGEST_REPORT) return json
  }
  return '{}'
}

/** The report of this process, as other processes read it. */
export function ownReport(parts: ReportParts): ProcessReport {
  return readProcessReport(reportOf(parts, 1))
}

/** `share`: the part of the lists that is kept, so that the report is not too long. */
function reportOf(
  { observer, history, locks, fills, show, showKeys, at }: ReportParts,
  share: number,
) {
  const { stats, flights, hotKeys, recent, ...process } = observer.snapshot()
  const most = (count: number) => Math.ceil(count * share)
  return {
    ...process,
    at,
    stats: { ...stats, routes: busiest(stats.routes, most(40)) },
    flights: flights
      .slice(0, most(50))
      .map(({ key, internalKey, ...rest }) => ({ ...show(key, internalKey), ...rest })),
    hotKeys: hotKeys.slice(0, most(20)).map(({ key, internalKey, hits }) => ({
      ...show(key, internalKey),
      hits,
      fill: fills.of(internalKey),
    })),
    recent: recent.slice(-most(60)).map((event) => ({
      ...show(event.key, event.internalKey),
      at: event.at,
      type: event.type,
      fields: fieldsOf(event, showKeys),
    })),
    history,
    locks: locks && { ...locks, held: locks.held.slice(-most(50)) },
  }
}

/** The scalar fields of an event. Messages of errors may have keys, so they are hidden, too. */
function fieldsOf(event: EventView, showKeys: boolean): Record<string, unknown> {
  const { at: _at, type: _type, key: _key, internalKey: _internalKey, ...fields } = event
  if ('failure' in fields) {
    const { status, message } = fields.failure as Failure
    Object.assign(fields, { failure: showKeys ? `${status} ${message}` : status, error: null })
  }
  const scalars = Object.entries(fields).filter(
    ([field, value]) => typeof value !== 'object' && (showKeys || field !== 'error'),
  )
  return Object.fromEntries(scalars.map(([field, value]) => [field, scalarOf(value)]))
}

function scalarOf(value: unknown): string | number {
  return typeof value === 'number' ? value : String(value).slice(0, 200)
}

/** The routes with the most requests. The others are added up. */
function busiest(routes: StampedeStats['routes'], most: number): Record<string, RouteStats> {
  const all = Object.entries(routes).sort(([, a], [, b]) => requestsIn(b) - requestsIn(a))
  const others = all.slice(most).map(([, each]) => each)
  const named = Object.fromEntries(all.slice(0, most))
  if (others.length === 0) return named
  const parts = [named['(other)'], ...others].filter((each) => each !== undefined)
  return { ...named, '(other)': parts.reduce(add) }
}

const requestsIn = ({ hits, stale, misses, bypasses }: RouteStats): number =>
  hits + stale + misses + bypasses

function add(a: RouteStats, b: RouteStats): RouteStats {
  const sums = Object.entries(a).map(([field, value]) => [
    field,
    value + num(Reflect.get(b, field)),
  ])
  return Object.fromEntries(sums) as RouteStats
}
