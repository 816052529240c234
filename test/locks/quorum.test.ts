// Quorum locks on five real servers: decided when a majority is there or cannot be, never left pending, and
// no trace of a loser on any node.

import { createQuorumLocks, type QuorumOptions } from '@stampede/locks'
import { redisStore } from '@stampede/redis'
import { Redis } from 'ioredis'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { names } from '../../packages/redis/src/protocol/keys.ts'
import { type RedisServer, startRedis } from '../harness/redis-server.ts'
import { startProxy } from '../harness/tcp-proxy.ts'
import { waitUntil } from '../harness/wait-until.ts'

/** For a node, once it is connected: a hundredth of a lease of 10 s would be more. */
const NODE_TIMEOUT_MS = 50
/** One round of questions, one of releases, and what a loaded machine is late by. */
const BOUND_MS = 2 * NODE_TIMEOUT_MS + 650

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

const servers: RedisServer[] = []
const admins: Redis[] = []
beforeAll(async () => {
  for (let i = 0; i < 5; i++) servers.push(await startRedis())
  for (const { url } of servers) admins.push(new Redis(url))
})
afterAll(async () => {
  for (const admin of admins) admin.disconnect()
  await Promise.all(servers.map((server) => server.stop()))
})

let tests = 0
let opened: Array<() => Promise<void>> = []
beforeEach(() => {
  tests += 1
})
afterEach(async () => {
  await Promise.all(servers.map((server) => server.resume()))
  for (const close of opened) await close()
  opened = []
})

/** Locks of a process of its own on the first `nodes` servers, or on what stands before them. */
function open(options: QuorumOptions & { nodes?: number; urls?: readonly string[] } = {}) {
  const { nodes = 5, urls = [], ...rest } = options
  const prefix = `t${tests}`
  const clients = servers
    .slice(0, nodes)
    .map(({ url }, i) => new Redis(urls[i] ?? url, { lazyConnect: true }))
  const locks = createQuorumLocks(
    clients.map((client) => redisStore(client, { prefix })),
    rest,
  )
  opened.push(async () => {
    await locks.close()
    for (const client of clients) client.disconnect()
  })
  return locks
}

/** Connected to every node, so that what follows measures locks. */
async function openWarm(
  options: QuorumOptions & { nodes?: number; urls?: readonly string[] } = {},
) {
  const locks = open(options)
  const { nodes = 5 } = options
  for (let i = 0; i < 3; i++) await (await locks.acquire('warm')).release()
  await waitUntil('every node is asked', async () => {
    const lease = await locks.acquire('warm')
    const holders = await holdersOf('warm')
    await lease.release()
    return holders.slice(0, nodes).every((token) => token !== null)
  })
  return locks
}

const recordOf = (key: string) => names(`t${tests}`).record(`l:${key}`)
/** By node: the token of whoever has the lock there. */
const holdersOf = (key: string) =>
  Promise.all(admins.map((admin) => admin.hget(recordOf(key), 'token')))
const isFreeOnAll = (key: string, withinMs: number) =>
  waitUntil(
    `${key} is free on all nodes`,
    async () => (await holdersOf(key)).every((token) => token === null),
    withinMs,
  )
const isHeldOnAll = (key: string) =>
  waitUntil(`${key} is held on all nodes`, async () => !(await holdersOf(key)).includes(null))
/** Held there by somebody else, for good. */
const occupy = (key: string, ...nodes: number[]) =>
  Promise.all(
    nodes.map((node) =>
      admins[node]?.hset(recordOf(key), { token: `other ${node}`, until: 9e12, fence: 1 }),
    ),
  )
const vacate = (key: string) => Promise.all(admins.map((admin) => admin.del(recordOf(key))))
const hang = (...nodes: number[]) => Promise.all(nodes.map((node) => servers[node]?.pause()))
const thaw = (...nodes: number[]) => Promise.all(nodes.map((node) => servers[node]?.resume()))

/** What it settles with, and when; rejects when it is still pending after the bound. */
async function settledWithin(boundMs: number, promise: Promise<unknown>) {
  const startedAt = performance.now()
  const timer = sleep(boundMs).then(() => {
    throw new Error(`still pending after ${boundMs} ms`)
  })
  timer.catch(() => {})
  const outcome = promise.then(
    (value) => ({ value, code: undefined }),
    (error: { code?: string }) => ({ value: undefined, code: error.code }),
  )
  const settled = await Promise.race([outcome, timer])
  return { ...settled, tookMs: performance.now() - startedAt }
}

describe('five nodes', () => {
  it('grant a lock for what is left of the lease, and free it on every node', async () => {
    const locks = await openWarm()
    const lease = await locks.acquire('job', { leaseMs: 5_000 })
    expect(lease.key).toBe('job')
    expect(lease.remainingMs()).toBeLessThanOrEqual(5_000 - 52)
    expect(lease.remainingMs()).toBeGreaterThan(4_000)
    await isHeldOnAll('job')
    expect(await locks.tryAcquire('job')).toBeNull()
    expect(await lease.release()).toBe('released')
    await isFreeOnAll('job', BOUND_MS)
    expect(() => lease.assertHeld()).toThrow(expect.objectContaining({ code: 'ERR_LOCK_LOST' }))
  })

  it('of which 2 are hung grant within 1 s', async () => {
    const locks = await openWarm()
    await hang(3, 4)
    const { value, tookMs } = await settledWithin(1_000, locks.acquire('job'))
    expect(value).toBeDefined()
    expect(tookMs).toBeLessThan(1_000)
  })

  it('of which 2 are hung grant within 1 s also to a process that starts now', async () => {
    await hang(3, 4)
    const { value } = await settledWithin(1_000, open().acquire('job'))
    expect(value).toBeDefined()
  })

  it('of which 3 are hung refuse within the bound, and leave no trace on the others', async () => {
    const locks = await openWarm()
    await hang(2, 3, 4)
    const tried = await settledWithin(BOUND_MS, locks.tryAcquire('job'))
    expect(tried.code).toBe('ERR_LOCK_UNAVAILABLE')
    const waited = await settledWithin(500 + BOUND_MS, locks.acquire('job', { waitMs: 500 }))
    expect(waited.code).toBe('ERR_LOCK_UNAVAILABLE')
    for (const node of [0, 1]) {
      await expect.poll(() => admins[node]?.hget(recordOf('job'), 'token')).toBeNull()
    }
    await thaw(2, 3, 4)
    await isFreeOnAll('job', 8_000)
    expect(await (await locks.acquire('job')).release()).toBe('released')
  })

  it('of which 2 are hung and 1 is taken are busy, within the bound', async () => {
    const locks = await openWarm()
    await occupy('job', 2)
    await hang(3, 4)
    const tried = await settledWithin(BOUND_MS, locks.tryAcquire('job'))
    expect(tried).toMatchObject({ value: null, code: undefined })
    const waited = await settledWithin(300 + BOUND_MS, locks.acquire('job', { waitMs: 300 }))
    expect(waited.code).toBe('ERR_LOCK_WAIT_TIMEOUT')
    const impatient = await settledWithin(BOUND_MS, locks.acquire('job', { waitMs: 0 }))
    expect(impatient.code).toBe('ERR_LOCK_BUSY')
  })

  it('that are slower than the lease is long grant nothing, and hold nothing afterwards', async () => {
    const proxies = await Promise.all(servers.map(({ port }) => startProxy(port)))
    opened.push(async () => {
      await Promise.all(proxies.map((proxy) => proxy.stop()))
    })
    const urls = proxies.map(({ url }) => url)
    const locks = await openWarm({ urls, nodeTimeoutMs: 200 })
    for (const proxy of proxies) proxy.delay(60)
    const tried = await settledWithin(2_000, locks.tryAcquire('job', { leaseMs: 100 }))
    expect(tried.code).toBe('ERR_LOCK_UNAVAILABLE')
    await isFreeOnAll('job', 2_000)
  })
})

describe('four nodes', () => {
  it('taken 2 by one and 2 by another refuse a third within the bound', async () => {
    const locks = await openWarm({ nodes: 4 })
    await occupy('job', 0, 1, 2, 3)
    const tried = await settledWithin(BOUND_MS, locks.tryAcquire('job'))
    expect(tried).toMatchObject({ value: null })
  })

  it('of which 2 are taken by another are a definite refusal, and the other 2 are free again', async () => {
    const locks = await openWarm({ nodes: 4 })
    await occupy('job', 0, 1)
    const tried = await settledWithin(BOUND_MS, locks.tryAcquire('job'))
    expect(tried).toMatchObject({ value: null, code: undefined })
    const waited = await settledWithin(300 + BOUND_MS, locks.acquire('job', { waitMs: 300 }))
    expect(waited.code).toBe('ERR_LOCK_WAIT_TIMEOUT')
    await waitUntil('the loser left nothing', async () => {
      const holders = await holdersOf('job')
      return holders[2] === null && holders[3] === null
    })
    await vacate('job')
    await (await locks.acquire('job')).release()
  })
})

describe('a late answer', () => {
  const slowNode = async (options: QuorumOptions = {}) => {
    const proxy = await startProxy(servers[4]?.port ?? 0)
    opened.push(() => proxy.stop())
    const urls = [...servers.slice(0, 4).map(({ url }) => url), proxy.url]
    return { proxy, locks: await openWarm({ ...options, urls }) }
  }

  it('after a refusal frees the node again', async () => {
    const { proxy, locks } = await slowNode()
    await occupy('job', 0, 1, 2)
    proxy.delay(90)
    const asked = locks.tryAcquire('job')
    await waitUntil('the slow node has granted it', async () => {
      return (await admins[4]?.hget(recordOf('job'), 'token')) !== null
    })
    expect(await asked).toBeNull()
    await waitUntil('the slow node is free', async () => {
      return (await admins[4]?.hget(recordOf('job'), 'token')) === null
    })
  })

  it('after the lease was released frees the node again', async () => {
    const { proxy, locks } = await slowNode()
    proxy.delay(90)
    const lease = await locks.acquire('job')
    expect(await lease.release()).toBe('released')
    await sleep(500)
    expect((await holdersOf('job')).filter((token) => token !== null)).toEqual([])
  })

  it('of a node that was hung counts for the holder once it was extended there, and stays', {
    timeout: 40_000,
  }, async () => {
    const locks = await openWarm({ leaseMs: 30_000 })
    await hang(4)
    const lease = await locks.acquire('job')
    // What was asked of the hung node has failed by now, and is being taken back behind the scenes.
    await sleep(1_200)
    await thaw(4)
    await waitUntil('the node is held too', async () => {
      expect(await lease.extend()).toBe(true)
      return (await admins[4]?.hget(recordOf('job'), 'token')) !== null
    })
    const gone = waitUntil(
      'the node was lost',
      async () => (await admins[4]?.hget(recordOf('job'), 'token')) === null,
      7_000,
    )
    await expect(gone).rejects.toThrow('Not within')
    expect(await lease.release()).toBe('released')
  })
})

describe('a lease', () => {
  it('is repaired by extend on a node that was restarted empty', async () => {
    const locks = await openWarm()
    const lease = await locks.acquire('job')
    await isHeldOnAll('job')
    await servers[0]?.restart()
    expect(await admins[0]?.hget(recordOf('job'), 'token')).toBeNull()
    await waitUntil('the node is repaired', async () => {
      expect(await lease.extend()).toBe(true)
      return (await admins[0]?.hget(recordOf('job'), 'token')) !== null
    })
    const holders = await holdersOf('job')
    // By a name of its own on that node.
    expect(holders).not.toContain(null)
    expect(await lease.release()).toBe('released')
    await isFreeOnAll('job', BOUND_MS)
  })

  it('does not erode when every node loses it in turn', { timeout: 60_000 }, async () => {
    const locks = await openWarm()
    const other = await openWarm()
    const lease = await locks.acquire('job')
    for (let round = 0; round < 20; round++) {
      const node = round % 5
      await admins[node]?.del(recordOf('job'))
      expect(await lease.extend()).toBe(true)
      expect(await other.tryAcquire('job')).toBeNull()
    }
    lease.assertHeld()
    await isHeldOnAll('job')
    expect(await lease.release()).toBe('released')
  })

  it('is renewed by itself', async () => {
    const locks = await openWarm({ leaseMs: 1_500 })
    const other = await openWarm()
    const lease = await locks.acquire('job')
    await sleep(2_500)
    expect(lease.signal.aborted).toBe(false)
    expect(await other.tryAcquire('job')).toBeNull()
    expect(await lease.release()).toBe('released')
  })

  it('outlives a moment in which no majority answers: the renewal is tried again', async () => {
    const locks = await openWarm({ leaseMs: 3_000 })
    const lease = await locks.acquire('job')
    // The renewal is due at 1 s; there are two seconds left after that.
    await sleep(800)
    await hang(2, 3, 4)
    await sleep(500)
    await thaw(2, 3, 4)
    await sleep(2_200)
    expect(lease.signal.aborted).toBe(false)
    expect(await lease.release()).toBe('released')
  })

  it('ends by the clock of its holder when the majority is gone', async () => {
    const locks = await openWarm({ leaseMs: 1_500 })
    const askedAt = performance.now()
    const lease = await locks.acquire('job')
    const aborted = new Promise((resolve) => lease.signal.addEventListener('abort', resolve))
    await hang(2, 3, 4)
    await aborted
    expect(performance.now() - askedAt).toBeLessThanOrEqual(1_500)
    expect(() => lease.assertHeld()).toThrow(expect.objectContaining({ code: 'ERR_LOCK_LOST' }))
    const { value } = await settledWithin(BOUND_MS, lease.release())
    expect(value).toBe('lost')
  })

  it('that was released is not taken again by an extend', async () => {
    const locks = await openWarm()
    const lease = await locks.acquire('job')
    await isHeldOnAll('job')
    await lease.release()
    expect(await lease.extend()).toBe(false)
    await sleep(100)
    expect((await holdersOf('job')).filter((token) => token !== null)).toEqual([])
  })

  it('that is released while it is being extended leaves nothing', async () => {
    const locks = await openWarm()
    for (let round = 0; round < 10; round++) {
      const lease = await locks.acquire('job')
      await isHeldOnAll('job')
      // A node that lost it is taken again by the extension.
      await admins[0]?.del(recordOf('job'))
      const extending = lease.extend()
      await lease.release()
      await extending
      await sleep(50)
      expect((await holdersOf('job')).filter((token) => token !== null)).toEqual([])
    }
  })

  it('is given back by run, which preserves what the function throws', async () => {
    const locks = await openWarm()
    expect(await locks.run('job', (lease) => lease.key)).toBe('job')
    const failing = locks.run('job', () => {
      throw new Error('the job failed')
    })
    await expect(failing).rejects.toThrow('the job failed')
    await isFreeOnAll('job', BOUND_MS)
  })
})

describe('contenders', () => {
  it('ten at once come to terms: each has it, one at a time, the first within 1 s', {
    timeout: 60_000,
  }, async () => {
    const contenders = await Promise.all(Array.from({ length: 10 }, () => openWarm()))
    const startedAt = performance.now()
    const hadAfterMs: number[] = []
    let inside = 0
    const contend = async (locks: (typeof contenders)[number]) => {
      const lease = await locks.acquire('job', { leaseMs: 10_000, waitMs: 40_000 })
      inside += 1
      expect(inside).toBe(1)
      hadAfterMs.push(performance.now() - startedAt)
      await sleep(1)
      lease.assertHeld()
      inside -= 1
      expect(await lease.release()).toBe('released')
    }
    await Promise.all(contenders.map(contend))
    expect(hadAfterMs).toHaveLength(10)
    expect(hadAfterMs[0]).toBeLessThan(1_000 + 500)
    await isFreeOnAll('job', BOUND_MS)
  })

  it('that are aborted or closed stop at once, and leave nothing', async () => {
    const locks = await openWarm()
    await occupy('job', 0, 1, 2)
    const abort = new AbortController()
    const waiting = locks.acquire('job', { signal: abort.signal })
    const outcome = settledWithin(5_000, waiting)
    await sleep(100)
    abort.abort()
    const { code, tookMs } = await outcome
    expect(code).toBe('ERR_LOCK_ABORTED')
    expect(tookMs).toBeLessThan(100 + BOUND_MS)
    const closed = settledWithin(5_000, locks.acquire('job'))
    await sleep(50)
    await locks.close()
    expect((await closed).code).toBe('ERR_LOCK_ABORTED')
    await waitUntil('the others are free', async () => {
      const holders = await holdersOf('job')
      return holders[3] === null && holders[4] === null
    })
  })

  it('whose attempt is under way when they are aborted have no lock', async () => {
    const proxies = await Promise.all(servers.map(({ port }) => startProxy(port)))
    opened.push(async () => {
      await Promise.all(proxies.map((proxy) => proxy.stop()))
    })
    const locks = await openWarm({ urls: proxies.map(({ url }) => url) })
    for (const proxy of proxies) proxy.delay(15)
    const abort = new AbortController()
    const asked = locks.acquire('job', { signal: abort.signal })
    abort.abort()
    expect((await settledWithin(BOUND_MS, asked)).code).toBe('ERR_LOCK_ABORTED')
    await isFreeOnAll('job', BOUND_MS)
  })

  it('that close while they hold give it back', async () => {
    const locks = await openWarm()
    const lease = await locks.acquire('job', { leaseMs: 60_000 })
    await locks.close()
    expect(lease.signal.aborted).toBe(true)
    await isFreeOnAll('job', 2_000)
  })
})
