// Measures the cost of one call of a data cache. Every cache runs in a process of its own, and the
// caches take turns, round by round.
import { type Child, startChild } from '../lib/child.ts'
import { medianOf, ratios, type Spread, spreadOf } from '../lib/statistics.ts'
import type { Called, CallOrder } from './member.ts'
import type { DataPeer } from './peer.ts'

export interface CallPlan {
  readonly tier: 'memory' | 'redis'
  readonly peers: readonly DataPeer[]
  readonly callers: number
  /** Every call is for a new key, which neither memory nor Redis has. */
  readonly isEachNew: boolean
  readonly rounds: number
  readonly roundMs: number
  readonly warmUpMs: number
}

export interface CallRow {
  readonly id: string
  readonly name: string
  readonly kind: DataPeer['kind']
  readonly callsPerSecond: Spread
  readonly cpuMicros: number
  /** The median of the ratios to the rate of the first cache, each taken within one round. */
  readonly ofFloor: number
  /** Rates in the order of the rounds. */
  readonly rates: readonly number[]
  /** The figures of each round. */
  readonly rounds: readonly Measured[]
}

const KEYS = 1_000

export async function runCalls(plan: CallPlan, redisUrl: string): Promise<CallRow[]> {
  const members: Member[] = []
  try {
    for (const peer of plan.peers) members.push(await prepare(peer, plan, redisUrl))
    for (let round = 0; round < plan.rounds; round++) {
      for (const member of members) member.measured.push(await measure(member, plan))
      console.error(`${plan.tier}: round ${round + 1} of ${plan.rounds}`)
    }
  } finally {
    for (const { child } of members) await child[Symbol.asyncDispose]()
  }
  const ratesOf = ({ measured }: Member) => measured.map(({ rate }) => rate)
  const floors = members[0] ? ratesOf(members[0]) : []
  return members.map((member) => ({
    id: member.peer.id,
    name: member.peer.name,
    kind: member.peer.kind,
    callsPerSecond: spreadOf(ratesOf(member)),
    cpuMicros: medianOf(member.measured.map(({ cpuMicros }) => cpuMicros)),
    ofFloor: medianOf(ratios(ratesOf(member), floors)),
    rates: ratesOf(member),
    rounds: member.measured,
  }))
}

interface Member {
  readonly peer: DataPeer
  readonly child: Child
  readonly measured: Measured[]
}

export interface Measured {
  readonly rate: number
  readonly cpuMicros: number
}

/** Starts the process of a cache, fills the cache, checks its values and warms it up. */
async function prepare(peer: DataPeer, plan: CallPlan, redisUrl: string): Promise<Member> {
  const child = await startChild('data/member.js', [plan.tier, peer.id, redisUrl])
  await child.ask('fill', KEYS)
  await child.ask<Called>('call', orderOf(plan, plan.warmUpMs))
  return { peer, child, measured: [] }
}

const orderOf = ({ callers, isEachNew }: CallPlan, durationMs: number): CallOrder => ({
  keys: isEachNew ? 0 : KEYS,
  callers,
  durationMs,
})

async function measure({ peer, child }: Member, plan: CallPlan): Promise<Measured> {
  const called = await child.ask<Called>('call', orderOf(plan, plan.roundMs))
  const { calls, originCalls, cpuMicros, durationMs } = called
  if (originCalls !== (plan.isEachNew ? calls : 0)) {
    throw new Error(`${peer.id}: ${originCalls} origin calls in ${calls} calls`)
  }
  return { rate: (calls * 1_000) / durationMs, cpuMicros: cpuMicros / calls }
}
