// The reports of the fleet's processes, and the counters that are shown.

import type { StampedeStore } from '@stampede/core'
import { usageOf } from '@stampede/core/operator'
import { isReported, type ProcessReport, readReport } from '@stampede/operate'

/** The counters that are shown. `runs`: runs of the origin, stored or not. */
const COUNTERS = [
  'requests',
  'hits',
  'misses',
  'stale',
  'waits',
  'runs',
  'fills',
  'fenced',
  'savedMs',
  'l1Bytes',
] as const

export type Counted = Readonly<Record<(typeof COUNTERS)[number], number>>

export interface ProcessView
  extends Counted,
    Pick<ProcessReport, 'id' | 'uptimeMs' | 'flights' | 'hotKeys' | 'recent'> {
  readonly name: string
  readonly isStoreAvailable: boolean
}

export type ReportedEvent = ProcessReport['recent'][number]
export type EventView = ReportedEvent & { readonly process: string }

export async function readProcesses({ operator }: StampedeStore): Promise<ProcessView[]> {
  const reports = [...(await operator.reports()).values()].flatMap((text) => readReport(text) ?? [])
  return reports
    .filter(({ bye }) => !bye)
    .map(viewOf)
    .sort((a, b) => (a.name < b.name ? -1 : 1))
}

/** The sum over the fleet. */
export function totalOf(processes: readonly ProcessView[]): Counted {
  const sums = COUNTERS.map((name) => [name, processes.reduce((all, each) => all + each[name], 0)])
  return Object.fromEntries(sums) as Counted
}

/** The latest events about a key and its variants in the whole fleet, newest first. */
export function eventsOf(processes: readonly ProcessView[], key: string): EventView[] {
  const isOurs = isReported(key)
  return (
    processes
      // The sort is stable. So events of one process within one millisecond keep their order.
      .flatMap(({ recent, name }) =>
        recent.toReversed().map((event) => ({ ...event, process: name })),
      )
      .filter(({ id }) => isOurs(id))
      .sort((a, b) => b.at - a.at)
  )
}

const sumOf = (counts: Readonly<Record<string, number>>): number =>
  Object.values(counts).reduce((sum, each) => sum + each, 0)

function viewOf(report: ProcessReport): ProcessView {
  const { id, host, pid, uptimeMs, flights, hotKeys, recent } = report
  const { bypasses, stale, waits, fills, origin, l1, store } = report.stats
  const usage = usageOf(report.stats)
  return {
    id,
    name: `${host || '?'}:${pid}`,
    uptimeMs,
    ...usage,
    requests: usage.hits + usage.misses + sumOf(bypasses),
    stale: sumOf(stale),
    waits: waits.started ?? 0,
    fills: fills.started ?? 0,
    fenced: fills.fenced ?? 0,
    savedMs: origin.savedMs ?? 0,
    l1Bytes: l1.bytes ?? 0,
    isStoreAvailable: store.available,
    flights,
    hotKeys,
    recent,
  }
}
