// Results of one run, and what is said about them: targets, and where Stampede is behind.
import { whole } from '../lib/markdown.ts'
import { median, type Row, ratio } from '../lib/rows.ts'
import type { DataPeer } from './data-peers.ts'
import type { Growth } from './run-growth.ts'
import type { OpenRow } from './run-open.ts'
import type { ServerRow } from './run-servers.ts'
import { BURSTS, scenarios } from './scenarios.ts'

/** A part that did not run is missing. */
export interface Results {
  hits?: readonly Row<ServerRow>[]
  calls?: readonly Row<DataPeer>[]
  redisHits?: readonly Row<DataPeer>[]
  redisMisses?: readonly Row<DataPeer>[]
  open?: readonly OpenRow[]
  growth?: Growth
}

/** A row of the table of targets: what, wanted, seen, and whether it is met. */
type Target = readonly string[]

const target = (what: string, wanted: string, seen: string, isMet: boolean): Target => [
  ...[what, wanted, seen, isMet ? 'met' : '**not met**'],
]

const atLeast = (what: string, wanted: number, seen: number): Target =>
  target(what, `≥ ${wanted.toFixed(2)}`, seen.toFixed(2), seen >= wanted)

const atMost = (what: string, wanted: number, seen: number, unit: string): Target => {
  const words = (value: number) => `${Math.round(value)} ${unit}`
  return target(what, `≤ ${words(wanted)}`, words(seen), seen <= wanted)
}

export function targetsOf({ hits, calls, redisHits, open, growth }: Results): Target[] {
  const [best, ours] = (['peer', 'ours'] as const).map((kind) =>
    Math.max(...(calls ?? []).filter((row) => row.kind === kind).map((row) => median(row, 'rate'))),
  ) as [number, number]
  const redisRatio = ratio(redisHits ?? [], 'stampede-bytes', 'get-buffer', 'rate')
  return [
    ...HIT_TARGETS.flatMap(([id, other, least, what]) => {
      const seen = ratio(hits ?? [], id, other, 'rate')
      return seen === undefined ? [] : [atLeast(what, least, seen)]
    }),
    ...(calls
      ? [atLeast('`getOrSet` of a bound cache ÷ the fastest other cache', 1.2, ours / best)]
      : []),
    ...(redisRatio ? [atLeast('hit in Redis, bytes ÷ `getBuffer`', 0.8, redisRatio)] : []),
    ...burstTargets((open ?? []).filter(({ scenario }) => scenario === 'burst')),
    ...(growth ? growthTargets(growth) : []),
  ]
}

const HIT_TARGETS = [
  ['express', 'express-used', 0.98, 'hit on Express 5 ÷ ready bytes on Express 5'],
  ['express4', 'express4-floor', 0.98, 'hit on Express 4 ÷ ready bytes on Express 4'],
  ['koa', 'koa-floor', 0.98, 'hit on Koa ÷ ready bytes on Koa'],
  ['front', 'node-floor', 0.95, 'hit of `stampedeFront` ÷ ready bytes on node:http'],
  ['express', 'express-uncached', 1.3, 'hit on Express 5 ÷ the route without a cache'],
  ['express', 'bentocache', 1.8, 'hit on Express 5 ÷ bentocache in a handler'],
  ['redis', 'redis-floor', 0.8, 'hit from Redis on Express 5 ÷ `getBuffer` in a handler'],
  ['front', 'express-uncached', 3, 'hit of `stampedeFront` ÷ the route without a cache'],
] as const

function burstTargets(rows: readonly OpenRow[]): Target[] {
  const ours = rows.find(({ peer }) => peer === 'stampede')
  const others = rows.filter((row) => row !== ours)
  const originMs = scenarios[0]?.originMs ?? 0
  if (ours === undefined || others.length === 0) return []
  const calls = ours.originCalls.median / BURSTS
  const fewest = Math.min(...others.map(({ originCalls }) => originCalls.median)) / BURSTS
  const best = Math.min(...others.map(({ p99 }) => p99)) - originMs
  const what = `cold burst over 4 processes: origin calls (others: at least ${fewest.toFixed(1)})`
  const late = `cold burst: p99 after the origin (best other cache: ${Math.round(best)} ms)`
  return [target(what, '1', String(calls), calls === 1), atMost(late, 9, ours.p99 - originMs, 'ms')]
}

function growthTargets({ keys, pages, waiters, crowds }: Growth): Target[] {
  const ours = waiters.filter(({ peer }) => peer === 'stampede')
  const [most, before] = [ours.at(-1), ours.at(-2)]
  const crowd = crowds.at(-1)
  if (!most || !before || !crowd) return []
  const times = most.waiters / before.waiters
  const grown = `time for ${most.waiters} waiters ÷ time for ${before.waiters} (linear: ${times})`
  const memory = (what: string, stored: number, { memoryBytes }: { memoryBytes: number }) =>
    atMost(`memory of ${what}`, 1.15 * stored + 600, memoryBytes, 'bytes')
  return [
    atMost(grown, times * 1.5, most.settledMs / before.settledMs, '×'),
    atMost(`event loop blocked by ${most.waiters} callers`, 50, most.blockedMs, 'ms'),
    atMost(`event loop blocked by ${crowd.clients} clients`, 50, crowd.blockedMs, 'ms'),
    ...keys
      .filter((seen) => seen.keys >= 10_000)
      .map((seen) => {
        const what = `a value of ${seen.storedBytes} bytes, with ${seen.keys} keys`
        return memory(what, seen.storedBytes, seen)
      }),
    memory(`a response of ${pages.bodyBytes} bytes`, pages.bodyBytes, pages),
  ]
}

/** A figure that is compared with those of the same group. */
interface Figure {
  readonly group: string
  /** The name of Stampede's figure. Undefined: the figure of another cache. */
  readonly ours?: string | undefined
  readonly name: string
  /** Less is better. */
  readonly value: number
  readonly text: string
  /** A smaller difference does not count. */
  readonly margin?: number
}

/** Every figure in which another cache, or no cache at all, was better than Stampede. */
export function shortfalls(results: Results): string[] {
  const figures = figuresOf(results)
  return figures.flatMap(({ group, ours, value, text, margin = 0 }) => {
    if (ours === undefined) return []
    const better = figures.filter(
      (each) => each.ours === undefined && each.group === group && each.value < value - margin,
    )
    if (better.length === 0) return []
    return [`${ours}: ${text}; ${better.map((each) => `${each.name} ${each.text}`).join(', ')}.`]
  })
}

function figuresOf({ hits, calls, redisHits, redisMisses, open, growth }: Results): Figure[] {
  const rateOf = (row: Row) => ({
    value: -median(row, 'rate'),
    text: `${whole(median(row, 'rate'))}/s`,
  })
  const callsOf = (what: string, rows: readonly Row[] = []) =>
    rows.map((row) => {
      const ours = row.kind === 'ours' ? `${what}, ${row.name}` : undefined
      return { group: what, ours, name: row.name, ...rateOf(row) }
    })
  return [
    // Hits with hits, misses with misses, and each with no cache, all on the same framework.
    ...(hits ?? []).flatMap((row) => {
      if (row.kind === 'floor') return []
      const groups = row.kind === 'uncached' ? ['same', 'new'] : [row.request ?? 'same']
      const ours = row.kind === 'ours' ? row.name : undefined
      const figure = { ours, name: row.name, ...rateOf(row) }
      return groups.map((request) => ({ group: `${row.floor} ${request}`, ...figure }))
    }),
    ...callsOf('a hit in memory', calls),
    ...callsOf('a hit in Redis', redisHits),
    ...callsOf('a miss over Redis', redisMisses),
    ...(open ?? []).flatMap(openFigures),
    ...(growth ? growthFigures(growth) : []),
  ]
}

/** A timer can be late by a millisecond, so a smaller difference does not count. */
const MARGIN_MS = 1

function openFigures({ peer, scenario, originCalls, failed, p50, p99, p999 }: OpenRow): Figure[] {
  const title = scenarios.find(({ id }) => id === scenario)?.title
  const figures = [
    ...([
      ['origin calls', originCalls.median, 0],
      ['failed requests in 1000', failed * 1_000, 0],
    ] as const),
    ...([
      ['p50 in ms', p50, MARGIN_MS],
      ['p99 in ms', p99, MARGIN_MS],
    ] as const),
    ...([['p999 in ms', p999, MARGIN_MS]] as const),
  ]
  return figures.map(([what, value, margin]) => {
    const group = `${title}, ${what}`
    const ours = peer === 'stampede' ? group : undefined
    return { group, ours, name: peer, value, text: String(Math.round(value)), margin }
  })
}

function growthFigures({ keys, waiters, crowds }: Growth): Figure[] {
  const time = (group: string, peer: string, value: number): Figure => {
    const ours = peer === 'stampede' ? group : undefined
    return { group, ours, name: peer, value, text: whole(value), margin: MARGIN_MS }
  }
  return [
    ...waiters.map((row) =>
      time(`${whole(row.waiters)} callers, ms until the last value`, row.peer, row.settledMs),
    ),
    ...crowds.flatMap((row) => {
      const clients = `${whole(row.clients)} clients`
      return [
        time(`${clients}, ms until the last response`, row.peer, row.respondedMs),
        time(`${clients}, event loop blocked in ms`, row.peer, row.blockedMs),
      ]
    }),
    ...keys.flatMap((row) => {
      const group = `a hit in memory with ${whole(row.keys)} keys of ${whole(row.storedBytes)} bytes`
      const nanos = (name: string, value: number) =>
        ({ group, name, value, text: `${whole(value)} ns` }) as const
      return [
        { ours: group, ...nanos('stampede', row.hitNanos) },
        nanos('lru-cache alone', row.lruNanos),
      ]
    }),
  ]
}
