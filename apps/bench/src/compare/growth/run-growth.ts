// Measures time, memory and origin calls with more keys, processes and waiters.
import { startRedis, urlOf } from '../../torture/redis-server.ts'
import { type Child, startChild } from '../lib/child.ts'
import type { ClosedLoopResult } from '../lib/closed-loop.ts'
import type { LoadOrder } from '../lib/loader.ts'
import { medianOf } from '../lib/statistics.ts'
import type { FleetMemberSeen } from './fleet-member.ts'
import type { KeysSeen } from './keys-member.ts'
import type { PagesSeen } from './pages-member.ts'
import { FLEET_ORIGIN_MS, type Sizes } from './sizes.ts'
import type { WaitersSeen } from './waiters-member.ts'

export interface FleetRow {
  readonly peer: string
  readonly processes: number
  readonly originCalls: number
  /** Wait of the slowest caller, minus the time of the origin. */
  readonly overheadMs: number
}

export interface PagesRow {
  readonly entries: number
  readonly bodyBytes: number
  readonly memoryBytes: number
  readonly countedBytes: number
}

export interface WaitersRow extends WaitersSeen {
  readonly peer: string
  readonly waiters: number
}

export async function runKeys({ keys }: Sizes): Promise<KeysSeen[]> {
  const rows: KeysSeen[] = []
  for (const [count, bytes] of keys) {
    const flags = ['--expose-gc', '--max-old-space-size=8192']
    await using member = await startChild('growth/keys-member.js', [`${count}`, `${bytes}`], flags)
    rows.push(await member.ask<KeysSeen>('measure'))
  }
  return rows
}

/**
 * Measures twice and takes the difference, so that memory which the server needs only once does not
 * count.
 */
export async function runPages({ pagesMs }: Sizes): Promise<PagesRow> {
  await using member = await startChild('growth/pages-member.js', [], ['--expose-gc'])
  await using loader = await startChild('lib/loader.js')
  const port = await member.ask<number>('port')
  const order: LoadOrder = {
    port,
    path: '/products/p',
    isEachNew: true,
    connections: 20,
    durationMs: pagesMs,
  }
  const { bodyBytes } = await loader.ask<ClosedLoopResult>('load', order)
  const before = await member.ask<PagesSeen>('seen')
  await loader.ask<ClosedLoopResult>('load', order)
  const after = await member.ask<PagesSeen>('seen')
  const entries = after.entries - before.entries
  return {
    entries,
    bodyBytes,
    memoryBytes: (after.memoryBytes - before.memoryBytes) / entries,
    countedBytes: (after.countedBytes - before.countedBytes) / entries,
  }
}

export async function runFleets(
  { processes, rounds }: Sizes,
  peers: readonly string[],
): Promise<FleetRow[]> {
  const rows: FleetRow[] = []
  for (const peer of peers) {
    await using redis = await startRedis()
    const starting = Array.from({ length: Math.max(...processes) }, () =>
      startChild('growth/fleet-member.js', [peer, urlOf(redis.port)]),
    )
    const members = await Promise.all(starting)
    await Promise.all(members.map((member, index) => member.ask('ask', `warm-up:${index}`)))
    for (const count of processes) {
      rows.push({ peer, processes: count, ...(await askTogether(members.slice(0, count), rounds)) })
    }
    for (const member of members) await member[Symbol.asyncDispose]()
  }
  return rows
}

async function askTogether(members: readonly Child[], rounds: number) {
  const calls: number[] = []
  const overheads: number[] = []
  for (let round = 0; round < rounds; round++) {
    const key = `cold:${members.length}:${round}`
    const asked = members.map((member) => member.ask<FleetMemberSeen>('ask', key))
    const seen = await Promise.all(asked)
    calls.push(seen.reduce((sum, { originCalls }) => sum + originCalls, 0))
    overheads.push(Math.max(...seen.map(({ slowestMs }) => slowestMs)) - FLEET_ORIGIN_MS)
  }
  return { originCalls: medianOf(calls), overheadMs: medianOf(overheads) }
}

export async function runWaiters(
  { waiters, rounds }: Sizes,
  peers: readonly string[],
): Promise<WaitersRow[]> {
  const rows: WaitersRow[] = []
  for (const peer of peers) {
    await using redis = await startRedis()
    await using member = await startChild('growth/waiters-member.js', [peer, urlOf(redis.port)])
    for (const count of waiters) {
      const seen: WaitersSeen[] = []
      for (let round = 0; round <= rounds; round++) {
        seen.push(await member.ask<WaitersSeen>('wait', count))
      }
      rows.push({ peer, waiters: count, ...medians(seen.slice(1)) })
    }
  }
  return rows
}

const medians = (seen: readonly WaitersSeen[]): WaitersSeen => ({
  originCalls: medianOf(seen.map(({ originCalls }) => originCalls)),
  settledMs: medianOf(seen.map(({ settledMs }) => settledMs)),
  blockedMs: medianOf(seen.map(({ blockedMs }) => blockedMs)),
})
