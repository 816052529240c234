// A master with a replica and three Sentinels: what a fail-over costs, keeps and loses.

import { createStampede, type Stampede } from '@stampede/core'
import { createLocks, type Lease, type Locks } from '@stampede/locks'
import { redisStore } from '@stampede/redis'
import { eventually } from '@stampede/testkit'
import { describe, expect, inject, it } from 'vitest'
import { PATIENT } from '../harness/patient.ts'
import { type SentinelBench, startSentinels } from '../harness/redis-sentinel.ts'
import { askRedis } from '../harness/redis-wire.ts'

/** The documented bound: how long a copy may be used after a purge. */
const BOUND_MS = 20_000
const BUDGET_MS = 1_000
/** Time after the Sentinels have named a new master. */
const BACK_WITHIN_MS = 20_000

const codeOf = (error: unknown) => (error as { code?: string }).code ?? String(error)
const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))

const becomes = (read: () => Promise<string>, wanted: string, withinMs: number) =>
  eventually(async () => expect(await read()).toBe(wanted), withinMs)

type Client = '5' | '6' | 'node-redis 5'

class Process {
  readonly stampede: Stampede
  readonly locks: Locks

  constructor(bench: SentinelBench, client: Client = '6', prefix = 'shop', budgetMs = BUDGET_MS) {
    const { name, sentinels: sentinelRootNodes } = bench
    const redis =
      client === 'node-redis 5'
        ? { name, sentinelRootNodes }
        : bench.client(client, { lazyConnect: true })
    const store = redisStore(redis, { prefix, commandTimeoutMs: budgetMs })
    this.stampede = createStampede({ store })
    this.locks = createLocks({ store })
  }

  read(key: string, value: string): Promise<string> {
    return this.stampede.getOrSet(key, () => value, { ttlMs: 60_000, tags: [`tag of ${key}`] })
  }

  /** The lease, or `null` if the lock is taken, or the code of the error. */
  async lock(key: string): Promise<Lease | null | string> {
    return this.locks.tryAcquire(key, { leaseMs: 10_000 }).catch(codeOf)
  }

  async close(): Promise<void> {
    await this.locks.close()
    await this.stampede.close()
  }
}

/** Records how a process sees Redis from now on, until it works again. */
async function backAfter(process: Process): Promise<{ tookMs: number; refused: Set<unknown> }> {
  const begunAt = performance.now()
  const refused = new Set<unknown>()
  for (let n = 0; ; n++) {
    const lease = await process.lock(`back ${n}`)
    if (lease !== null && typeof lease !== 'string') break
    refused.add(lease)
    await sleep(20)
  }
  return { tookMs: performance.now() - begunAt, refused }
}

it('the store connects only to a server in the role of master', () => {
  const given: object[] = []
  const client = {
    isCluster: false,
    duplicate(options: object) {
      given.push(options)
      return { status: 'connecting', on() {}, disconnect() {} }
    },
  }
  const stampede = createStampede({ store: redisStore(client) })
  expect(given).toEqual(Array(2).fill(expect.objectContaining({ role: 'master', readOnly: false })))
  return stampede.close()
})

const SERVERS = inject('serverBinaries')
const COMBINATIONS = SERVERS.flatMap(({ name, source }) => [
  { name, source, current: '6' as const },
  { name, source, current: 'node-redis 5' as const },
])

for (const { name, source, current } of COMBINATIONS) {
  describe.sequential(`${name} Sentinel with ${current}`, () => {
    it.concurrent('continues after a fail-over with all data, if the replica had it', async () => {
      await using bench = await startSentinels({ source })
      const processes = [new Process(bench, current), new Process(bench, '5')] as const
      const [one, two] = processes
      await one.read('page', 'made before')
      const held = await one.lock('job')
      await bench.inSync()
      const failingOver = bench.failOver()
      const outage = { reads: 0, slowestMs: 0, wrong: [] as string[] }
      let isOver = false
      const reading = readThrough(processes, outage, () => isOver)
      const back = Promise.all(processes.map(backAfter))
      const { tookMs } = await failingOver
      const seen = await back
      isOver = true
      await reading
      for (const each of seen) {
        expect(each.tookMs).toBeLessThan(tookMs + BACK_WITHIN_MS)
        // `null`: the reply to an attempt was lost, and the attempt is not undone yet.
        expect(each.refused).toContain('ERR_LOCK_UNAVAILABLE')
        expect([null, 'ERR_LOCK_UNAVAILABLE']).toEqual(expect.arrayContaining([...each.refused]))
      }
      expect(outage.wrong).toEqual([])
      expect(outage.reads).toBeGreaterThan(10)
      expect(outage.slowestMs).toBeLessThan(BACK_WITHIN_MS)
      // The data is there: the entry, and the lock with its holder.
      const later = new Process(bench, current, 'shop', PATIENT.commandTimeoutMs)
      await backAfter(later)
      expect(await later.read('page', 'made anew')).toBe('made before')
      expect(await later.lock('job')).toBeNull()
      if (held === null || typeof held === 'string') throw new Error('the lock was not given')
      await held.release()
      // A purge reaches the other process again, and so does the end of a wait. ioredis reconnects
      // when the last Sentinel reports the fail-over, even if it found the new master before.
      await eventually(() => two.stampede.purge({ key: 'page' }), BACK_WITHIN_MS)
      await becomes(() => one.read('page', 'after the purge'), 'after the purge', BOUND_MS)
      for (const each of [...processes, later]) await each.close()
    })

    it.concurrent('loses what the replica had missed, except purges that a running process has received', async () => {
      await using bench = await startSentinels({ source })
      const [one, two] = [new Process(bench, current), new Process(bench, '5')]
      const last = new Process(bench, current, 'other')
      for (const key of ['by tag', 'by key']) {
        await one.read(key, 'old')
        await two.read(key, 'old')
        await last.read(key, 'old')
      }
      await bench.inSync()
      await bench.lag()
      for (const each of [one, last]) {
        await each.stampede.purge({ tag: 'tag of by tag' })
        await each.stampede.purge({ key: 'by key' })
      }
      // Processes one and two know the purges of this prefix. No live process knows those of the
      // other.
      await becomes(() => two.read('by tag', 'new'), 'new', BOUND_MS)
      await last.close()
      const lease = await one.lock('job')
      if (lease === null || typeof lease === 'string') throw new Error('the lock was not given')
      const begun = await recordOf(one, 'order')
      expect(begun.state).toBe('ran')
      await bench.failOver()
      await Promise.all([one, two].map(backAfter))

      // Processes that saw a purge never serve its old entry. New processes learn of it in time.
      const stranger = new Process(bench, current)
      for (const each of [one, two]) {
        expect(await each.read('by tag', 'newer')).not.toBe('old')
        expect(await each.read('by key', 'newer')).not.toBe('old')
      }
      for (const key of ['by tag', 'by key']) {
        await eventually(
          async () => expect(await stranger.read(key, 'newer')).not.toBe('old'),
          BOUND_MS,
        )
      }

      // Lost: purges that only the old master and dead processes knew, locks, and idempotency
      // records.
      const heir = new Process(bench, current, 'other')
      await backAfter(heir)
      expect(await heir.read('by tag', 'new')).toBe('old')
      expect(await heir.read('by key', 'new')).toBe('old')
      const second = await stranger.lock('job')
      if (second === null || typeof second === 'string') throw new Error('the lock was not lost')
      expect(second.fence).toBeGreaterThan(lease.fence)
      expect((await recordOf(stranger, 'order')).state).toBe('ran')
      // The former lock holder learns of the loss at its renewal, or at the end of its lease.
      expect(await lease.release().then(() => 'released', codeOf)).not.toBe('ERR_LOCK_UNAVAILABLE')
      for (const each of [one, two, stranger, heir]) await each.close()
    })

    it.concurrent('leaves a former master at once, although that server still runs', async () => {
      await using bench = await startSentinels({ source })
      const [one, two] = [new Process(bench, current), new Process(bench, '5')] as const
      for (const each of [one, two]) await each.read('page', 'made before')
      await bench.inSync()
      await bench.switchOver()
      let n = 0
      for (const each of [one, two]) {
        const isThere = async () => {
          n += 1
          await each.lock(`${n}`)
          return askRedis(bench.replica, `EXISTS shop:4:{=l:${n}}`)
        }
        await becomes(isThere, '1', BACK_WITHIN_MS)
      }
      // The old one still takes itself for a master, for some seconds more.
      expect(await askRedis(bench.master, 'INFO replication')).toContain('role:master')
      await two.stampede.purge({ key: 'page' })
      await becomes(() => one.read('page', 'new'), 'new', BOUND_MS)
      for (const each of [one, two]) await each.close()
    })
  })
}

/** Every read gets a response, in any state of Redis. */
async function readThrough(
  processes: readonly Process[],
  outage: { reads: number; slowestMs: number; wrong: string[] },
  isOver: () => boolean,
): Promise<void> {
  const read = async (process: Process) => {
    for (let n = 0; !isOver(); n++) {
      const at = performance.now()
      const value = await process.read(`new ${n}`, `new ${n}`).catch(codeOf)
      if (value !== `new ${n}`) outage.wrong.push(value)
      outage.reads += 1
      outage.slowestMs = Math.max(outage.slowestMs, performance.now() - at)
      await sleep(20)
    }
  }
  await Promise.all(processes.map(read))
}

/** Whether this run of an idempotency key did the work, or got a replay. */
async function recordOf(process: Process, key: string): Promise<{ state: 'ran' | 'replayed' }> {
  let state: 'ran' | 'replayed' = 'replayed'
  await process.stampede.idempotent(key, async () => {
    state = 'ran'
    return 1
  })
  return { state }
}
