// Measures time, memory and origin calls with more keys, processes, callers and clients.
import { setTimeout as sleep } from 'node:timers/promises'
import { startChild } from '../lib/child.ts'
import { startRedis } from '../lib/redis.ts'
import { medianOf } from '../lib/statistics.ts'

type Loader = typeof import('../lib/loader.ts')
type Cold = typeof import('./cold-member.ts')
type Memory = typeof import('./memory-member.ts')

export interface Sizes {
  /** Number of keys, and bytes per value. */
  readonly keys: ReadonlyArray<readonly [keys: number, bytes: number]>
  /** How long each of the two rounds loads pages. */
  readonly pagesMs: number
  readonly processes: readonly number[]
  readonly waiters: readonly number[]
  readonly crowds: readonly number[]
  readonly rounds: number
}

const small = [100, 1_000, 10_000, 100_000, 1_000_000].map((keys) => [keys, 256] as const)

export const FULL: Sizes = {
  keys: [...small, [100_000, 2_300]],
  pagesMs: 4_000,
  processes: [1, 2, 4, 8, 16],
  waiters: [1, 10, 100, 1_000, 10_000],
  crowds: [100, 1_000, 10_000],
  rounds: 3,
}

export const QUICK: Sizes = {
  keys: small.slice(0, 2),
  pagesMs: 1_000,
  processes: [1, 4],
  waiters: [1, 1_000],
  crowds: [100, 1_000],
  rounds: 1,
}

const CALLERS = 25
const ORIGIN_MS = 100

/** The median of each figure. The first round warms up and does not count. */
async function medians<K extends string>(
  rounds: number,
  run: (round: number) => Promise<Record<K, number>>,
) {
  const seen: Record<K, number>[] = []
  for (let round = 0; round <= rounds; round++) seen.push(await run(round))
  const names = Object.keys(seen[0] ?? {}) as K[]
  const figures = names.map((name) => [name, medianOf(seen.slice(1).map((each) => each[name]))])
  return Object.fromEntries(figures) as Record<K, number>
}

async function runKeys({ keys }: Sizes) {
  const rows = []
  for (const [count, bytes] of keys) {
    const execArgv = ['--expose-gc', '--max-old-space-size=8192']
    await using member = await startChild<Memory>('compare/memory-member', [], { execArgv })
    rows.push(await member.call.keys(count, bytes))
  }
  return rows
}

/** Takes the difference of two rounds, so that memory which is needed only once does not count. */
async function runPages({ pagesMs }: Sizes) {
  const execArgv = ['--expose-gc']
  await using member = await startChild<Memory>('compare/memory-member', [], { execArgv })
  await using loader = await startChild<Loader>('lib/loader', [])
  const port = await member.call.port()
  const order = { port, request: 'new', connections: 20, durationMs: pagesMs } as const
  const { bodyBytes } = await loader.call.closedLoop(order)
  const before = await member.call.seen()
  await loader.call.closedLoop(order)
  const after = await member.call.seen()
  const entries = after.entries - before.entries
  const each = (name: 'memoryBytes' | 'countedBytes') => (after[name] - before[name]) / entries
  return {
    entries,
    bodyBytes,
    memoryBytes: each('memoryBytes'),
    countedBytes: each('countedBytes'),
  }
}

async function runFleets({ processes, rounds }: Sizes, peers: readonly string[]) {
  const rows = []
  for (const peer of peers) {
    await using redis = await startRedis()
    const starting = Array.from({ length: Math.max(...processes) }, () =>
      startChild<Cold>('compare/cold-member', [peer, redis.url]),
    )
    const members = await Promise.all(starting)
    for (const count of processes) {
      const asked = await medians(rounds, async (round) => {
        const together = members
          .slice(0, count)
          .map(({ call }) => call.askTogether(`cold:${count}:${round}`, CALLERS, ORIGIN_MS))
        const seen = await Promise.all(together)
        const originCalls = seen.reduce((sum, each) => sum + each.originCalls, 0)
        const slowestMs = Math.max(...seen.map((each) => each.slowestMs))
        return { originCalls, overheadMs: slowestMs - ORIGIN_MS }
      })
      rows.push({ peer, processes: count, ...asked })
    }
    for (const member of members) await member[Symbol.asyncDispose]()
  }
  return rows
}

async function runWaiters({ waiters, rounds }: Sizes, peers: readonly string[]) {
  const rows = []
  for (const peer of peers) {
    await using redis = await startRedis()
    await using member = await startChild<Cold>('compare/cold-member', [peer, redis.url])
    for (const count of waiters) {
      const ask = (round: number) => member.call.askAlone(`waiters:${count}:${round}`, count)
      rows.push({ peer, waiters: count, ...(await medians(rounds, ask)) })
    }
  }
  return rows
}

/** Clients that wait for one cold page of one process, each with its own connection. */
async function runCrowds({ crowds, rounds }: Sizes) {
  const rows = []
  await using loader = await startChild<Loader>('lib/loader', [])
  for (const peer of ['express', 'stampede']) {
    const args: [string] = [peer]
    type Server = typeof import('./crowd-server.ts')
    await using server = await startChild<Server>('compare/crowd-server', args)
    const port = await server.call.port()
    for (const clients of crowds) {
      await loader.call.gather(port, clients)
      const asked = await medians(rounds, async (round) => {
        await server.call.hold()
        const asking = loader.call.askAll(`${clients}-${round}`)
        while ((await server.call.arrived()) < clients) await sleep(10)
        const releasedAtMs = await server.call.release()
        const { lastAtMs, failed } = await asking
        if (failed > 0) throw new Error(`${failed} of ${clients} clients got no response`)
        return { ...(await server.call.seen()), respondedMs: lastAtMs - releasedAtMs }
      })
      rows.push({ peer, clients, ...asked })
    }
  }
  return rows
}

export const runGrowth = async (sizes: Sizes, peers: readonly string[]) => ({
  keys: await runKeys(sizes),
  pages: await runPages(sizes),
  fleets: await runFleets(sizes, peers),
  waiters: await runWaiters(sizes, peers),
  crowds: await runCrowds(sizes),
})

export type Growth = Awaited<ReturnType<typeof runGrowth>>
