// Where ours is behind, by the figures of a run alone: behind another cache, or behind what has no cache at all.
import type { CallRow } from '../data/run-calls.ts'
import type { HitRow } from '../hit/run-hits.ts'
import type { OpenRow } from '../open/run-open.ts'
import { scenarios } from '../open/scenarios.ts'
import type { Results } from './results.ts'

export const shortfalls = (results: Results): string[] => [
  ...slowerHits(results.hits ?? []),
  ...slowerCalls('a hit in memory, `getOrSet`', results.calls ?? []),
  ...slowerCalls('a hit in Redis, `getOrSet`', results.redisHits ?? []),
  ...slowerCalls('a miss over Redis, `getOrSet`', results.redisMisses ?? []),
  ...scenarios.flatMap(({ id, title }) =>
    slowerScenario(
      title,
      (results.open ?? []).filter(({ scenario }) => scenario === id),
    ),
  ),
]

/** Against those with the same floor, and of the same kind: hits with hits, misses with misses. */
const slowerHits = (rows: readonly HitRow[]): string[] =>
  rows
    .filter(({ subject }) => subject.kind === 'ours')
    .flatMap((ours) => {
      const better = rows.filter(
        ({ subject, requestsPerSecond }) =>
          subject.kind !== 'ours' &&
          subject.kind !== 'floor' &&
          subject.floor === ours.subject.floor &&
          Boolean(subject.isEachNew) === Boolean(ours.subject.isEachNew) &&
          requestsPerSecond.median > ours.requestsPerSecond.median,
      )
      const rate = perSecond(ours.requestsPerSecond.median)
      return sentence(
        `${ours.subject.name}: ${rate}`,
        better.map((row) => `${row.subject.name} ${perSecond(row.requestsPerSecond.median)}`),
      )
    })

const slowerCalls = (what: string, rows: readonly CallRow[]): string[] => {
  const ours = rows.findLast(({ kind }) => kind === 'ours')
  if (ours === undefined) return []
  const better = rows.filter(
    ({ kind, callsPerSecond }) =>
      kind !== 'ours' && callsPerSecond.median > ours.callsPerSecond.median,
  )
  return sentence(
    `${what}: ${perSecond(ours.callsPerSecond.median)}`,
    better.map(({ name, callsPerSecond }) => `${name} ${perSecond(callsPerSecond.median)}`),
  )
}

/** By more than a millisecond, which is what a timer may be late. */
function slowerScenario(title: string, rows: readonly OpenRow[]): string[] {
  const ours = rows.find(({ peer }) => peer === 'stampede')
  if (ours === undefined) return []
  const figures = [
    ['origin calls', (row: OpenRow) => row.originCalls.median, 0],
    ['failed requests in 1000', (row: OpenRow) => row.failed * 1_000, 0],
    ['p50 in ms', (row: OpenRow) => row.latencyMs.p50, 1],
    ['p99 in ms', (row: OpenRow) => row.latencyMs.p99, 1],
    ['p999 in ms', (row: OpenRow) => row.latencyMs.p999, 1],
  ] as const
  return figures.flatMap(([what, figure, margin]) => {
    const better = rows.filter((row) => figure(row) < figure(ours) - margin)
    return sentence(
      `${title}, ${what}: ${Math.round(figure(ours))}`,
      better.map((row) => `${row.peer} ${Math.round(figure(row))}`),
    )
  })
}

const perSecond = (rate: number): string => `${Math.round(rate)}/s`

const sentence = (ours: string, others: readonly string[]): string[] =>
  others.length > 0 ? [`${ours}; ${others.join(', ')}.`] : []
