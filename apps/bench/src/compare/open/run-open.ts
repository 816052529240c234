// Runs every scenario with a fleet of four processes of each cache, round by round.
import { setTimeout as sleep } from 'node:timers/promises'
import { startRedis, urlOf } from '../../torture/redis-server.ts'
import { type Child, startChild } from '../lib/child.ts'
import { ascending, quantile, type Spread, spreadOf } from '../lib/statistics.ts'
import { seeded } from './arrivals.ts'
import type { Fired, FireOrder } from './generator.ts'
import type { SceneOrder } from './member.ts'
import type { OpenPeer } from './peer.ts'
import type { Scenario, Trouble } from './scenarios.ts'

export interface OpenPlan {
  readonly peers: readonly OpenPeer[]
  readonly scenarios: readonly Scenario[]
  readonly processes: number
  readonly rounds: number
}

export interface OpenRow {
  readonly peer: string
  readonly scenario: string
  readonly originCalls: Spread
  /** Requests of all processes in one round. */
  readonly requests: number
  readonly failed: number
  readonly latencyMs: Latency
  /** The figures of each round. */
  readonly rounds: readonly OpenRound[]
}

export interface OpenRound {
  readonly originCalls: number
  readonly requests: number
  readonly failed: number
  readonly latencyMs: Latency
}

interface Latency {
  readonly p50: number
  readonly p99: number
  readonly p999: number
}

interface Fleet {
  readonly members: readonly Child[]
  readonly ports: readonly number[]
  readonly redisPid: number
  readonly generator: Child
}

interface Seen extends Fired {
  readonly peer: string
  readonly scenario: string
  readonly originCalls: number
}

export async function runOpen({
  peers,
  scenarios,
  processes,
  rounds,
}: OpenPlan): Promise<OpenRow[]> {
  const seen: Seen[] = []
  await using generator = await startChild('open/generator.js')
  for (let round = 1; round <= rounds; round++) {
    for (const peer of peers) {
      await using redis = await startRedis()
      const starting = Array.from({ length: processes }, () =>
        startChild('open/member.js', [peer.id, urlOf(redis.port)]),
      )
      const members = await Promise.all(starting)
      const ports = await Promise.all(members.map((member) => member.ask<number>('port')))
      const fleet: Fleet = { members, ports, redisPid: redis.pid, generator }
      for (const scenario of scenarios) {
        seen.push({ peer: peer.id, scenario: scenario.id, ...(await play(scenario, round, fleet)) })
      }
      for (const member of members) await member[Symbol.asyncDispose]()
      console.error(`open: round ${round} of ${rounds}: ${peer.id}`)
    }
  }
  return scenarios.flatMap(({ id }) => peers.map((peer) => rowOf(peer.id, id, seen)))
}

async function play(scenario: Scenario, seed: number, fleet: Fleet) {
  const { members, ports, generator } = fleet
  const { id, ttlMs, staleMs, originMs } = scenario
  const scene: SceneOrder = { ttlMs, staleMs, originMs }
  await Promise.all(members.map((member) => member.ask('open', scene)))
  const arrivals = scenario.arrivals(seeded(seed))
  const order: FireOrder = { arrivals, seed, ports, prefix: `${id}-` }
  await generator.ask<Fired>('warmUp', order)
  const before = await originCalls(members)
  const [fired] = await Promise.all([
    generator.ask<Fired>('fire', order),
    ...scenario.troubles.map(({ atMs, what }) => sleep(atMs).then(() => cause(what, fleet))),
  ])
  return { ...fired, originCalls: (await originCalls(members)) - before }
}

async function cause(trouble: Trouble, { members, redisPid }: Fleet): Promise<void> {
  if (trouble === 'redis freezes') process.kill(redisPid, 'SIGSTOP')
  else if (trouble === 'redis thaws') process.kill(redisPid, 'SIGCONT')
  else {
    const isWell = trouble === 'origin is well'
    await Promise.all(members.map((member) => member.ask('originIsWell', isWell)))
  }
}

async function originCalls(members: readonly Child[]): Promise<number> {
  const counts = await Promise.all(members.map((member) => member.ask<number>('originCalls')))
  return counts.reduce((sum, count) => sum + count, 0)
}

function rowOf(peer: string, scenario: string, seen: readonly Seen[]): OpenRow {
  const rounds = seen.filter((each) => each.peer === peer && each.scenario === scenario)
  const latencies = ascending(rounds.flatMap(({ latenciesMs }) => latenciesMs))
  const failed = rounds.reduce((sum, each) => sum + each.failed, 0)
  return {
    peer,
    scenario,
    originCalls: spreadOf(rounds.map((each) => each.originCalls)),
    requests: Math.round(latencies.length / rounds.length),
    failed: failed / latencies.length,
    latencyMs: latencyOf(latencies),
    rounds: rounds.map((each) => ({
      originCalls: each.originCalls,
      requests: each.latenciesMs.length,
      failed: each.failed,
      latencyMs: latencyOf(ascending(each.latenciesMs)),
    })),
  }
}

const latencyOf = (sorted: readonly number[]): Latency => ({
  p50: quantile(sorted, 0.5),
  p99: quantile(sorted, 0.99),
  p999: quantile(sorted, 0.999),
})
