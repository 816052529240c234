// Sums of the counters of all processes.

import { adviceOn } from '@stampede/core/operator'
import type { ProcessReport } from '@stampede/operate'

/** The counters of a process without its routes and without the state of its store. */
type ReportedStats = ProcessReport['stats']

export type Totals = Omit<ReportedStats, 'routes' | 'notCached' | 'store'>

export function totalsOf(all: readonly ReportedStats[]): Totals | undefined {
  const parts = all.map(
    ({ routes: _routes, notCached: _notCached, store: _store, ...rest }) => rest,
  )
  if (parts.length === 0) return undefined
  return parts.reduce((a, b) => sumOf(a, b) as Totals)
}

/** Routes of all processes, those with the most requests first. */
export function routesOf(
  all: readonly ReportedStats[],
  most: number,
): Array<Readonly<Record<string, number>> & { readonly route: string }> {
  const routes = all.map((each) => each.routes).reduce((a, b) => sumOf(a, b), Object.create(null))
  return Object.entries(routes as Record<string, Record<string, number>>)
    .map(([route, each]) => ({ ...each, route }) as Record<string, number> & { route: string })
    .sort((a, b) => requestsIn(b) - requestsIn(a))
    .slice(0, most)
}

/** A route, a reason for which its requests were not cached, and the fix. */
export interface NotCached {
  readonly route: string
  readonly reason: string
  readonly requests: number
  readonly fix?: string
  /** File and section of the docs. */
  readonly page?: string
}

/** Reasons of all processes by route, those of the most requests first. */
export function notCachedOf(all: readonly ReportedStats[], most: number): NotCached[] {
  const routes = all
    .map((each) => each.notCached)
    .reduce((a, b) => sumOf(a, b), Object.create(null))
  return Object.entries(routes as ReportedStats['notCached'])
    .flatMap(([route, reasons]) =>
      Object.entries(reasons).map(([reason, requests]) => ({ route, reason, requests })),
    )
    .sort((a, b) => b.requests - a.requests)
    .slice(0, most)
    .map((each) => ({ ...each, ...adviceOn(each.reason) }))
}

const requestsIn = (each: Readonly<Record<string, number>>): number =>
  ['hits', 'stale', 'misses', 'bypasses'].reduce((sum, name) => sum + (each[name] ?? 0), 0)

export const sum = (counts: Readonly<Record<string, number>> | readonly number[]): number =>
  Object.values(counts).reduce((total, each) => total + each, 0)

/** Adds the numbers of two trees. A branch that only one of them has is taken as it is. */
function sumOf(a: unknown, b: unknown): object | number {
  if (typeof a === 'number' || typeof b === 'number') return (Number(a) || 0) + (Number(b) || 0)
  const sums: Record<string, unknown> = Object.assign(Object.create(null), a)
  for (const [name, value] of Object.entries(b ?? {})) {
    sums[name] = name in sums ? sumOf(sums[name], value) : value
  }
  return sums
}
