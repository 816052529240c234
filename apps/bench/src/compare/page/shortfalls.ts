// Lists every figure of a run in which another cache, or no cache at all, was better than Stampede.
import type { CallRow } from '../data/run-calls.ts'
import type { HitRow } from '../hit/run-hits.ts'
import { whole } from '../lib/markdown.ts'
import type { OpenRow } from '../open/run-open.ts'
import { scenarios } from '../open/scenarios.ts'
import type { Growth, Results } from './results.ts'

export const shortfalls = (results: Results): string[] => [
  ...slowerHits(results.hits ?? []),
  ...slowerCalls('a hit in memory', results.calls ?? []),
  ...slowerCalls('a hit in Redis', results.redisHits ?? []),
  ...slowerCalls('a miss over Redis', results.redisMisses ?? []),
  ...scenarios.flatMap(({ id, title }) =>
    slowerScenario(
      title,
      (results.open ?? []).filter(({ scenario }) => scenario === id),
    ),
  ),
  ...(results.growth ? slowerGrowth(results.growth) : []),
]

/**
 * Compares with rows of the same floor and kind: hits with hits, misses with misses, and each with
 * no cache.
 */
const slowerHits = (rows: readonly HitRow[]): string[] =>
  rows
    .filter(({ subject }) => subject.kind === 'ours')
    .flatMap((ours) => {
      const better = rows.filter(
        ({ subject, requestsPerSecond }) =>
          subject.kind !== 'ours' &&
          subject.kind !== 'floor' &&
          subject.floor === ours.subject.floor &&
          (subject.kind === 'uncached' ||
            Boolean(subject.isEachNew) === Boolean(ours.subject.isEachNew)) &&
          requestsPerSecond.median > ours.requestsPerSecond.median,
      )
      const rate = perSecond(ours.requestsPerSecond.median)
      return sentence(
        `${ours.subject.name}: ${rate}`,
        better.map((row) => `${row.subject.name} ${perSecond(row.requestsPerSecond.median)}`),
      )
    })

const slowerCalls = (what: string, rows: readonly CallRow[]): string[] =>
  rows
    .filter(({ kind }) => kind === 'ours')
    .flatMap((ours) => {
      const better = rows.filter(
        ({ kind, callsPerSecond }) =>
          kind !== 'ours' && callsPerSecond.median > ours.callsPerSecond.median,
      )
      return sentence(
        `${what}, ${ours.name}: ${perSecond(ours.callsPerSecond.median)}`,
        better.map(({ name, callsPerSecond }) => `${name} ${perSecond(callsPerSecond.median)}`),
      )
    })

function slowerScenario(title: string, rows: readonly OpenRow[]): string[] {
  const ours = rows.find(({ peer }) => peer === 'stampede')
  if (ours === undefined) return []
  const figures = [
    ['origin calls', (row: OpenRow) => row.originCalls.median, 0],
    ['failed requests in 1000', (row: OpenRow) => row.failed * 1_000, 0],
    ['p50 in ms', (row: OpenRow) => row.latencyMs.p50, MARGIN_MS],
    ['p99 in ms', (row: OpenRow) => row.latencyMs.p99, MARGIN_MS],
    ['p999 in ms', (row: OpenRow) => row.latencyMs.p999, MARGIN_MS],
  ] as const
  return figures.flatMap(([what, figure, margin]) => {
    const better = rows.filter((row) => figure(row) < figure(ours) - margin)
    return sentence(
      `${title}, ${what}: ${Math.round(figure(ours))}`,
      better.map((row) => `${row.peer} ${Math.round(figure(row))}`),
    )
  })
}

/** Differences of less than a millisecond do not count, because a timer can be late by that. */
const MARGIN_MS = 1

function slowerGrowth({ keys, waiters, crowds }: Growth): string[] {
  const times = [
    ...waiters.map((row) => ({
      isOurs: row.peer === 'stampede',
      what: `${whole(row.waiters)} callers, ms until the last value`,
      name: row.peer,
      ms: row.settledMs,
    })),
    ...crowds.flatMap((row) => {
      const of = { isOurs: row.subject === 'stampede', name: row.subject }
      const clients = `${whole(row.clients)} clients`
      return [
        { ...of, what: `${clients}, ms until the last response`, ms: row.respondedMs },
        { ...of, what: `${clients}, event loop blocked in ms`, ms: row.blockedMs },
      ]
    }),
  ]
  const slower = times
    .filter(({ isOurs }) => isOurs)
    .flatMap((ours) => {
      const better = times.filter(
        ({ isOurs, what, ms }) => !isOurs && what === ours.what && ms < ours.ms - MARGIN_MS,
      )
      return sentence(
        `${ours.what}: ${whole(ours.ms)}`,
        better.map(({ name, ms }) => `${name} ${whole(ms)}`),
      )
    })
  const hits = keys
    .filter(({ hitNanos, lruNanos }) => lruNanos < hitNanos)
    .flatMap(({ keys: count, storedBytes, hitNanos, lruNanos }) =>
      sentence(
        `a hit in memory with ${whole(count)} keys of ${whole(storedBytes)} bytes: ${whole(hitNanos)} ns`,
        [`lru-cache alone ${whole(lruNanos)} ns`],
      ),
    )
  return [...slower, ...hits]
}

const perSecond = (rate: number): string => `${whole(rate)}/s`

const sentence = (ours: string, others: readonly string[]): string[] =>
  others.length > 0 ? [`${ours}; ${others.join(', ')}.`] : []
