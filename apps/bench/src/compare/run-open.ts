// Runs every scenario with a fleet of four processes of each cache, round by round.
import { setTimeout as sleep } from 'node:timers/promises'
import { seeded } from '../lib/arrivals.ts'
import { type Child, startChild } from '../lib/child.ts'
import { startRedis } from '../lib/redis.ts'
import { ascending, medianOf, quantile, type Spread, spreadOf } from '../lib/statistics.ts'
import type { OpenScenario, Trouble } from './scenarios.ts'

type Loader = Child<typeof import('../lib/loader.ts')>
type Member = Child<typeof import('./fleet-member.ts')>

export interface OpenPlan {
  readonly peers: readonly { readonly id: string; readonly name: string }[]
  readonly scenarios: readonly OpenScenario[]
  readonly processes: number
  readonly rounds: number
}

export interface OpenRow {
  readonly peer: string
  readonly name: string
  readonly scenario: string
  readonly originCalls: Spread
  /** Requests of all processes in one round. */
  readonly requests: number
  /** The share of requests that failed. */
  readonly failed: number
  /** Latencies in ms: the medians of the percentiles of the rounds. */
  readonly p50: number
  readonly p99: number
  readonly p999: number
  /** The figures of each round. */
  readonly rounds: readonly object[]
}

/** One round of a scenario with one cache. */
export interface Seen {
  readonly peer: string
  readonly scenario: string
  readonly latenciesMs: readonly number[]
  readonly failed: number
  readonly originCalls: number
}

export async function runOpen(plan: OpenPlan): Promise<OpenRow[]> {
  const { peers, scenarios, processes, rounds } = plan
  const seen: Seen[] = []
  await using loader = await startChild<typeof import('../lib/loader.ts')>('lib/loader', [])
  for (let round = 1; round <= rounds; round++) {
    for (const { id: peer } of round % 2 ? peers : peers.toReversed()) {
      await using redis = await startRedis()
      const starting = Array.from({ length: processes }, () =>
        startChild<typeof import('./fleet-member.ts')>('compare/fleet-member', [peer, redis.url]),
      )
      const members = await Promise.all(starting)
      for (const scenario of scenarios) {
        const played = await play(scenario, round, loader, members, redis.pid)
        seen.push({ peer, scenario: scenario.id, ...played })
      }
      for (const member of members) await member[Symbol.asyncDispose]()
      console.error(`open: round ${round} of ${rounds}: ${peer}`)
    }
  }
  return scenarios.flatMap(({ id }) => peers.map((peer) => rowOf(peer, id, seen)))
}

async function play(
  { id, ttlMs, staleMs, originMs, arrivals, troubles }: OpenScenario,
  seed: number,
  loader: Loader,
  members: readonly Member[],
  redisPid: number,
) {
  const originCalls = async () => {
    const counts = await Promise.all(members.map(({ call }) => call.originCalls()))
    return counts.reduce((sum, count) => sum + count, 0)
  }
  const cause = async (what: Trouble) => {
    if (what === 'redis freezes') process.kill(redisPid, 'SIGSTOP')
    else if (what === 'redis thaws') process.kill(redisPid, 'SIGCONT')
    else await Promise.all(members.map(({ call }) => call.originIsWell(what === 'origin is well')))
  }
  await Promise.all(members.map(({ call }) => call.open({ ttlMs, staleMs, originMs })))
  const ports = await Promise.all(members.map(({ call }) => call.port()))
  const order = { arrivals: arrivals(seeded(seed)), seed, ports, prefix: `${id}-` }
  await loader.call.warmUp(order)
  const before = await originCalls()
  const [fired] = await Promise.all([
    loader.call.openLoop(order),
    ...troubles.map(([atMs, what]) => sleep(atMs).then(() => cause(what))),
  ])
  return { ...fired, originCalls: (await originCalls()) - before }
}

export function rowOf(
  { id, name }: { id: string; name: string },
  scenario: string,
  seen: readonly Seen[],
): OpenRow {
  const rounds = seen
    .filter((each) => each.peer === id && each.scenario === scenario)
    .map(({ latenciesMs, originCalls, failed }) => ({
      ...{ originCalls, failed, requests: latenciesMs.length },
      ...percentiles(latenciesMs),
    }))
  const all = (figure: keyof (typeof rounds)[number]) => rounds.map((round) => round[figure])
  const sum = (values: readonly number[]) => values.reduce((total, each) => total + each, 0)
  const requests = sum(all('requests'))
  return {
    ...{ peer: id, name, scenario },
    originCalls: spreadOf(all('originCalls')),
    requests: Math.round(requests / rounds.length),
    failed: sum(all('failed')) / requests,
    p50: medianOf(all('p50')),
    p99: medianOf(all('p99')),
    p999: medianOf(all('p999')),
    rounds,
  }
}

function percentiles(latenciesMs: readonly number[]) {
  const sorted = ascending(latenciesMs)
  const at = (share: number) => quantile(sorted, share)
  return { p50: at(0.5), p99: at(0.99), p999: at(0.999) }
}
