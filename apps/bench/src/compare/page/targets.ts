// The targets of the benchmarks, and whether a run met them.
import type { CallRow } from '../data/run-calls.ts'
import type { HitRow } from '../hit/run-hits.ts'
import { medianOf, ratios } from '../lib/statistics.ts'
import type { OpenRow } from '../open/run-open.ts'
import { BURSTS, scenarios } from '../open/scenarios.ts'
import type { Growth, Results } from './results.ts'

export interface Target {
  readonly what: string
  readonly wanted: string
  readonly seen: string
  readonly isMet: boolean
}

export const targetsOf = ({ hits, calls, redisHits, open, growth }: Results): Target[] => [
  ...(hits ? hitTargets(hits) : []),
  ...(calls ? [fastest(calls)] : []),
  ...(redisHits ? [redisTarget(redisHits)] : []),
  ...(open ? burstTargets(open) : []),
  ...(growth ? growthTargets(growth) : []),
]

const atLeast = (what: string, wanted: number, seen: number): Target => ({
  what,
  wanted: `≥ ${wanted.toFixed(2)}`,
  seen: seen.toFixed(2),
  isMet: seen >= wanted,
})

const atMost = (what: string, wanted: number, seen: number, unit: string): Target => ({
  what,
  wanted: `≤ ${Math.round(wanted)} ${unit}`,
  seen: `${Math.round(seen)} ${unit}`,
  isMet: seen <= wanted,
})

function hitTargets(hits: readonly HitRow[]): Target[] {
  const wanted = [
    ['express', 'express-used', 0.98, 'hit on Express 5 ÷ ready bytes on Express 5'],
    ['express4', 'express4-floor', 0.98, 'hit on Express 4 ÷ ready bytes on Express 4'],
    ['koa', 'koa-floor', 0.98, 'hit on Koa ÷ ready bytes on Koa'],
    ['front', 'node-floor', 0.95, 'hit of `stampedeFront` ÷ ready bytes on node:http'],
    ['express', 'express-uncached', 1.3, 'hit on Express 5 ÷ the route without a cache'],
    ['express', 'bentocache', 1.8, 'hit on Express 5 ÷ bentocache in a handler'],
    ['redis', 'redis-floor', 0.8, 'hit from Redis on Express 5 ÷ `getBuffer` in a handler'],
    ['front', 'express-uncached', 3, 'hit of `stampedeFront` ÷ the route without a cache'],
  ] as const
  return wanted.flatMap(([ours, other, least, what]) => {
    const [upper, lower] = [rates(hits, ours), rates(hits, other)]
    return upper && lower ? [atLeast(what, least, medianOf(ratios(upper, lower)))] : []
  })
}

const rates = (hits: readonly HitRow[], id: string) =>
  hits.find(({ subject }) => subject.id === id)?.rates

function fastest(calls: readonly CallRow[]): Target {
  const best = Math.max(...ratesOf(calls, 'peer'))
  const ours = Math.max(...ratesOf(calls, 'ours'))
  return atLeast('`getOrSet` of a bound cache ÷ the fastest other cache', 1.2, ours / best)
}

const ratesOf = (calls: readonly CallRow[], kind: CallRow['kind']): number[] =>
  calls.filter((row) => row.kind === kind).map(({ callsPerSecond }) => callsPerSecond.median)

function redisTarget(calls: readonly CallRow[]): Target {
  const bytes = calls.find(({ id }) => id === 'stampede-bytes')
  return atLeast('hit in Redis, bytes ÷ `getBuffer`', 0.8, bytes?.ofFloor ?? Number.NaN)
}

function burstTargets(open: readonly OpenRow[]): Target[] {
  const rows = open.filter(({ scenario }) => scenario === 'burst')
  const ours = rows.find(({ peer }) => peer === 'stampede')
  const others = rows.filter(({ peer }) => peer !== 'stampede')
  const originMs = scenarios.find(({ id }) => id === 'burst')?.originMs ?? 0
  if (ours === undefined || others.length === 0) return []
  const calls = ours.originCalls.median / BURSTS
  const fewest = Math.min(...others.map(({ originCalls }) => originCalls.median)) / BURSTS
  const seen = ours.latencyMs.p99 - originMs
  const best = Math.min(...others.map(({ latencyMs }) => latencyMs.p99)) - originMs
  return [
    {
      what: `cold burst over 4 processes: origin calls (others: at least ${fewest.toFixed(1)})`,
      wanted: '1',
      seen: String(calls),
      isMet: calls === 1,
    },
    atMost(
      `cold burst: p99 after the origin (best other cache: ${Math.round(best)} ms)`,
      9,
      seen,
      'ms',
    ),
  ]
}

function growthTargets({ keys, pages, waiters, crowds }: Growth): Target[] {
  const ours = waiters.filter(({ peer }) => peer === 'stampede')
  const [most, before] = [ours.at(-1), ours.at(-2)]
  const times = before && most ? most.waiters / before.waiters : 1
  const grown = before && most ? most.settledMs / before.settledMs : Number.NaN
  const crowd = crowds.filter(({ subject }) => subject === 'stampede').at(-1)
  return [
    atMost(
      `time for ${most?.waiters} waiters ÷ time for ${before?.waiters} (linear: ${times})`,
      times * 1.5,
      grown,
      '×',
    ),
    atMost(
      `event loop blocked by ${most?.waiters} callers`,
      50,
      most?.blockedMs ?? Number.NaN,
      'ms',
    ),
    atMost(
      `event loop blocked by ${crowd?.clients} clients`,
      50,
      crowd?.blockedMs ?? Number.NaN,
      'ms',
    ),
    ...keys
      .filter((seen) => seen.keys >= 10_000)
      .map((seen) =>
        memoryTarget(
          `a value of ${seen.storedBytes} bytes, with ${seen.keys} keys`,
          seen.storedBytes,
          seen,
        ),
      ),
    memoryTarget(`a response of ${pages.bodyBytes} bytes`, pages.bodyBytes, pages),
  ]
}

const memoryTarget = (what: string, stored: number, { memoryBytes }: { memoryBytes: number }) =>
  atMost(`memory of ${what}`, 1.15 * stored + 600, memoryBytes, 'bytes')
