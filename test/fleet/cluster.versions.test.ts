// A real cluster of three masters: a reshard under load, slots in migration, nodes that freeze and
// leave.

import { createStampede, type Stampede } from '@stampede/core'
import { createLocks, type Locks } from '@stampede/locks'
import { redisStore } from '@stampede/redis'
import { createCluster } from 'redis'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { dataKey } from '../../packages/core/src/ports/key.ts'
import { slotOf } from '../../packages/redis/src/connection/cluster.ts'
import { names } from '../../packages/redis/src/protocol/keys.ts'
import {
  type ClusterMember,
  type RedisCluster,
  startRedisCluster,
  type Version,
} from '../harness/redis-cluster.ts'
import { ofThisRun } from '../harness/versions.ts'
import { waitUntil } from '../harness/wait-until.ts'

/** The documented bound: how long a copy may be used after a purge, even if messages are lost. */
const BOUND_MS = 5_000
/** The time in which a cluster has settled, also on a busy machine. */
const SETTLED_MS = 30_000
const BUDGET_MS = 1_000
const UNAVAILABLE = 'ERR_STAMPEDE_STORE_UNAVAILABLE'
const LOCKS_UNAVAILABLE = 'ERR_LOCK_UNAVAILABLE'

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))
const codeOf = (error: unknown) => (error as { code?: string }).code ?? String(error)

type Client = Version | 'node-redis 5'

interface Process {
  readonly stampede: Stampede
  readonly locks: Locks
}

it('slotOf() computes the Cluster slot of a key as Redis does', () => {
  // From the specification, and by CLUSTER KEYSLOT.
  expect(slotOf('123456789')).toBe(0x31c3)
  expect(slotOf('{user1000}.following')).toBe(slotOf('user1000'))
  expect(slotOf('foo{}{bar}')).toBe(8363)
  expect(slotOf('foo{{bar}}zap')).toBe(slotOf('{bar'))
  expect(slotOf('t:4:{=ä\n"\0}')).toBe(slotOf('=ä\n"\0'))
})

for (const { name, source } of inject('serverBinaries')) {
  describe.sequential(`${name} Cluster`, () => {
    let cluster: RedisCluster
    /** One client for all stores, because node-redis needs 80 ms to create one. */
    let nodeRedis: ReturnType<typeof createCluster>
    let prefixes = 0
    const newPrefix = () => {
      prefixes += 1
      return `t${prefixes}`
    }
    beforeAll(async () => {
      cluster = await startRedisCluster({ masters: 3, guests: 1, source })
      const rootNodes = cluster.nodes.map(({ url }) => ({ url }))
      nodeRedis = createCluster({ rootNodes })
    })
    afterAll(() => cluster?.stop())

    const [current] = ofThisRun<Client>(['6'], ['node-redis 5']) as [Client]
    describe.sequential(`a process on the cluster with ${current}`, () => {
      const opened: Process[] = []
      const openOne = (prefix: string, version: Client = current): Process => {
        const client =
          version === 'node-redis 5' ? nodeRedis : cluster.client(version, { lazyConnect: true })
        const store = redisStore(client, { prefix, commandTimeoutMs: BUDGET_MS })
        const process = { stampede: createStampede({ store }), locks: createLocks({ store }) }
        opened.push(process)
        return process
      }
      const openFour = (prefix: string) =>
        ([current, '5', current, '5'] as const).map((version) => openOne(prefix, version))
      const recordSlot = (prefix: string, key: string) => slotOf(names(prefix).record(dataKey(key)))
      const lockSlot = (prefix: string, key: string) => slotOf(names(prefix).record(`l:${key}`))
      const logSlot = (prefix: string) => slotOf(names(prefix).purges[0])
      const another = (than: ClusterMember) =>
        cluster.nodes.find((node) => node !== than) as ClusterMember
      afterAll(async () => {
        for (const { stampede, locks } of opened) {
          await locks.close()
          await stampede.close()
        }
      })

      it('serves correct values while slots move under load, and receives all purges', {
        timeout: 240_000,
      }, async () => {
        const prefix = newPrefix()
        const load = new Load(openFour(prefix))
        const slots = new Set([
          ...KEYS.map((key) => recordSlot(prefix, key)),
          ...LOCKS.map((key) => lockSlot(prefix, key)),
          logSlot(prefix),
        ])
        const running = load.run()
        for (let round = 0; round < 4; round++) {
          for (const slot of slots) {
            const from = cluster.ownerOf(slot)
            await cluster.reshard([slot], from, another(from))
            await sleep(5)
          }
        }
        await waitUntil('there was enough load', () => {
          const { reads, purges, sections } = load.seen
          return reads > 500 && purges > 20 && sections > 20
        })
        load.stop()
        await running
        await load.settle()
        expect(load.wrong).toEqual([])
        // Refused operations were refused with these errors.
        expect([...load.refusals.keys()].filter((code) => !DECLARED.includes(code))).toEqual([])
      })

      it('serves lookups and locks while a slot is half moved, and rejects purges until the move ends', async () => {
        const prefix = newPrefix()
        const [one, two] = openFour(prefix) as [Process, Process]
        // Both are connected and have read the purge log, which is about to be half moved.
        for (const { stampede } of [one, two]) {
          const purge = () => stampede.purge({ key: 'ready' }).then(() => 'made', codeOf)
          await expect.poll(purge, { timeout: SETTLED_MS }).toBe('made')
        }
        await one.stampede.getOrSet('kept', () => 'kept', { ttlMs: 60_000, tags: ['t'] })
        const slot = logSlot(prefix)
        const keySlot = recordSlot(prefix, 'kept')
        const finishing: Array<() => Promise<void>> = []
        for (const each of new Set([slot, keySlot, lockSlot(prefix, 'new')])) {
          const from = cluster.ownerOf(each)
          finishing.push(await cluster.holdMigration(each, from, another(from)))
        }
        // The key is on its old node.
        const read = () => two.stampede.getOrSet('kept', () => 'again', { ttlMs: 60_000 })
        expect(await read()).toBe('kept')
        // A key that does not exist yet is created on the new node, which has never seen the
        // script.
        const lease = await one.locks.acquire('new', { leaseMs: 10_000, waitMs: 0 })
        await expect(two.locks.tryAcquire('new')).resolves.toBeNull()
        // The log exists and its marks do not. So neither node can run a script on all of them.
        const purged = one.stampede.purge({ tag: 't' })
        await expect(purged).rejects.toMatchObject({ code: UNAVAILABLE })
        for (const finish of finishing) await finish()
        await lease.release()
        await expect
          .poll(() => one.stampede.purge({ tag: 't' }).then(() => 'made', codeOf))
          .toBe('made')
        await expect.poll(read, { timeout: SETTLED_MS }).toBe('again')
      })

      it('takes no lock on a frozen node, and takes locks on the other nodes', async () => {
        const prefix = newPrefix()
        const { locks } = openOne(prefix)
        const nodeOf = (key: string) => cluster.ownerOf(lockSlot(prefix, key))
        const frozen = cluster.ownerOf(logSlot(prefix))
        const keys = Array.from({ length: 60 }, (_, i) => `k${i}`)
        const there = keys.filter((key) => nodeOf(key) === frozen)
        const elsewhere = keys.filter((key) => nodeOf(key) !== frozen)
        const lock = (key = '') => locks.acquire(key, { leaseMs: 10_000, waitMs: 0 })
        // While the connections open, a command may time out.
        for (const key of elsewhere.slice(0, 6))
          await expect.poll(() => lock(key).then(() => 'taken', codeOf)).toBe('taken')
        await frozen.pause()
        try {
          const tries = there.slice(0, 6).map((key) => lock(key).catch(codeOf))
          expect(new Set(await Promise.all(tries))).toEqual(new Set([LOCKS_UNAVAILABLE]))
          // Without a command, so without the budget.
          await expect(lock(there[6])).rejects.toThrow('earlier commands failed')
          for (const key of elsewhere.slice(6, 12)) expect(await lock(key)).toMatchObject({ key })
        } finally {
          await frozen.resume()
        }
        await expect.poll(() => lock(there[7]).then(() => 'taken', codeOf)).toBe('taken')
      })

      it('subscribes at another node when the node of its subscription leaves the cluster', async () => {
        const prefix = newPrefix()
        const guest = cluster.nodes[3] as ClusterMember
        const heardAt = async () => {
          const { wakePrefix } = names(prefix)
          return (await guest.admin.pubsub('CHANNELS', `${wakePrefix}*`)) as unknown[]
        }
        const processes: Process[] = []
        await expect
          .poll(
            async () => {
              if (processes.length < 40) processes.push(openOne(prefix))
              await processes.at(-1)?.stampede.getOrSet('ready', () => 1, { ttlMs: 60_000 })
              return (await heardAt()).length
            },
            { interval: 1 },
          )
          .toBeGreaterThan(0)
        const keys = Array.from({ length: 40_000 }, (_, i) => `page:${i}`)
        const moved = keys.find((key) => cluster.ownerOf(recordSlot(prefix, key)) === guest) ?? ''
        const read = (value: string) =>
          Promise.all(
            processes.map(({ stampede }) =>
              stampede.getOrSet(moved, () => value, { ttlMs: 60_000, tags: ['t'] }),
            ),
          )
        expect(new Set(await read('old'))).toEqual(new Set(['old']))
        const slots = Array.from({ length: 8 }, (_, slot) => slot)
        await cluster.reshard(slots, guest, cluster.nodes[0] as ClusterMember)
        await cluster.forget(guest)
        // While the cluster learns its new members, a command may time out. The caller tries it
        // again.
        const purge = () => processes[0]?.stampede.purge({ key: moved }).then(() => 'made', codeOf)
        await expect.poll(purge, { timeout: SETTLED_MS }).toBe('made')
        await expect
          .poll(async () => [...new Set(await read('new'))], { timeout: SETTLED_MS })
          .toEqual(['new'])
        await expect.poll(heardAt, { timeout: SETTLED_MS }).toEqual([])
      })
    })
  })
}

const KEYS = Array.from({ length: 24 }, (_, i) => `page:${i}`)
const LOCKS = ['job:1', 'job:2', 'job:3']
const DECLARED = [UNAVAILABLE, LOCKS_UNAVAILABLE, 'ERR_LOCK_LOST', 'ERR_LOCK_WAIT_TIMEOUT']

/** Runs callers in four processes that read, fill, purge and lock, and returns what was wrong. */
class Load {
  readonly wrong: string[] = []
  readonly refusals = new Map<string, number>()
  readonly seen = { reads: 0, purges: 0, sections: 0, slowestReadMs: 0, latestOldMs: 0 }
  readonly #processes: readonly Process[]
  /** The current value of the origin. */
  readonly #current = new Map(KEYS.map((key) => [key, 1]))
  /**
   * For each key, the oldest version that may be served from each moment on, after an acknowledged
   * purge.
   */
  readonly #since = new Map<string, Array<{ version: number; at: number; by: Process }>>()
  readonly #inside = new Set<string>()
  readonly #fences = new Map<string, bigint>()
  #stopped = false

  constructor(processes: readonly Process[]) {
    this.#processes = processes
  }

  stop(): void {
    this.#stopped = true
  }

  async run(): Promise<void> {
    const tasks = this.#processes.flatMap((each, i) => [
      this.#again(3, () => this.#read(each)),
      this.#again(3, () => this.#read(each)),
      this.#again(40, () => this.#purge(each, i % 2 === 0)),
      this.#again(10, () => this.#section(each)),
    ])
    await Promise.all(tasks)
  }

  /** All processes serve the newest version within the bound. */
  async settle(): Promise<void> {
    for (const key of KEYS) {
      const wanted = `${key} ${this.#current.get(key)}`
      const all = () => Promise.all(this.#processes.map(({ stampede }) => this.#get(stampede, key)))
      await expect
        .poll(async () => [...new Set(await all())], { timeout: SETTLED_MS, interval: 20 })
        .toEqual([wanted])
    }
  }

  async #again(pauseMs: number, task: () => Promise<void>): Promise<void> {
    while (!this.#stopped) {
      await task()
      await sleep(pauseMs)
    }
  }

  #get(stampede: Stampede, key: string): Promise<string> {
    const origin = () => `${key} ${this.#current.get(key)}`
    return stampede.getOrSet(key, origin, { ttlMs: 60_000, tags: [`tag of ${key}`] })
  }

  async #read(process: Process): Promise<void> {
    const key = pick(KEYS)
    const at = performance.now()
    try {
      const [, version] = /^(?:page:\d+) (\d+)$/.exec(await this.#get(process.stampede, key)) ?? []
      this.seen.reads += 1
      this.seen.slowestReadMs = Math.max(this.seen.slowestReadMs, performance.now() - at)
      for (const purge of this.#since.get(key) ?? []) {
        if (Number(version) >= purge.version) continue
        const lateMs = at - purge.at
        this.seen.latestOldMs = Math.max(this.seen.latestOldMs, lateMs)
        const allowedMs = purge.by === process ? 0 : BOUND_MS
        if (lateMs > allowedMs) this.wrong.push(`${key} ${version} ${lateMs} ms after its purge`)
      }
    } catch (error) {
      this.wrong.push(`a read failed: ${error}`)
    }
  }

  async #purge(by: Process, byTag: boolean): Promise<void> {
    const key = pick(KEYS)
    const version = (this.#current.get(key) ?? 0) + 1
    this.#current.set(key, version)
    const purge = () => by.stampede.purge(byTag ? { tag: `tag of ${key}` } : { key })
    // A refused purge was not made, or its result is unknown. Its caller tries again.
    while (!(await this.#told(purge))) await sleep(20)
    this.seen.purges += 1
    const since = this.#since.get(key) ?? []
    since.push({ version, at: performance.now(), by })
    this.#since.set(key, since)
  }

  async #section({ locks }: Process): Promise<void> {
    const key = pick(LOCKS)
    await this.#told(() =>
      locks.run(key, { leaseMs: 3_000, waitMs: 1_000 }, async ({ fence }) => {
        if (this.#inside.has(key)) this.wrong.push(`two are inside ${key}`)
        if (fence <= (this.#fences.get(key) ?? 0n)) this.wrong.push(`a fence of ${key} fell`)
        this.#inside.add(key)
        this.#fences.set(key, fence)
        await sleep(2)
        this.#inside.delete(key)
        this.seen.sections += 1
      }),
    )
  }

  async #told(task: () => Promise<unknown>): Promise<boolean> {
    try {
      await task()
      return true
    } catch (error) {
      const code = codeOf(error)
      this.refusals.set(code, (this.refusals.get(code) ?? 0) + 1)
      return false
    }
  }
}

function pick<T>(from: readonly T[]): T {
  return from[Math.floor(Math.random() * from.length)] as T
}
