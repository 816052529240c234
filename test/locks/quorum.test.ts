// Quorum locks on five real servers. A call ends when a majority has granted or cannot grant any
// more. A failed attempt leaves no trace on any node.

import { createQuorumLocks } from '@stampede/locks'
import { redisStore } from '@stampede/redis'
import { Redis } from 'ioredis'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { names } from '../../packages/redis/src/protocol/keys.ts'
import { PATIENT } from '../harness/patient.ts'
import { type RedisServer, startRedis } from '../harness/redis-server.ts'
import { startProxy } from '../harness/tcp-proxy.ts'
import { waitUntil } from '../harness/wait-until.ts'

type QuorumOptions = NonNullable<Parameters<typeof createQuorumLocks>[1]>

/** 40 times the default, so that a busy machine does not make a healthy node seem to hang. */
const NODE_TIMEOUT_MS = 2_000
/** A wait that should not last: a lease or a time limit of this length. */
const LONG_MS = 60_000
/** Far less than such a wait, and far more than two rounds on a busy machine. */
const BOUND_MS = 20_000

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

interface Opening extends QuorumOptions {
  readonly nodes?: number
  readonly urls?: readonly string[]
  /** Lease of each lock without one of its own. The default outlasts a pause of the machine. */
  readonly leaseMs?: number
}

/** Locks of a process of its own on the first `nodes` servers, or on the proxies before them. */
function open(options: Opening = {}) {
  const { nodes = 5, urls = [], leaseMs = LONG_MS, ...rest } = options
  const prefix = `t${tests}`
  const clients = servers
    .slice(0, nodes)
    .map(({ url }, i) => new Redis(urls[i] ?? url, { lazyConnect: true }))
  const locks = createQuorumLocks(
    clients.map((client) => redisStore(client, { ...PATIENT, prefix })),
    { nodeTimeoutMs: NODE_TIMEOUT_MS, ...rest },
  )
  opened.push(async () => {
    await locks.close()
    for (const client of clients) client.disconnect()
  })
  const { acquire, tryAcquire } = locks
  return Object.assign(locks, {
    acquire: (...[key, given]: Parameters<typeof acquire>) =>
      acquire.call(locks, key, { leaseMs, ...given }),
    tryAcquire: (...[key, given]: Parameters<typeof tryAcquire>) =>
      tryAcquire.call(locks, key, { leaseMs, ...given }),
  })
}

/** Connects to every node, so that the rest of the test measures locks. */
async function openWarm(options: Opening = {}) {
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
/** The token of the holder on each node. */
const holdersOf = (key: string) =>
  Promise.all(admins.map((admin) => admin.hget(recordOf(key), 'token')))
const isFreeOnAll = (key: string) =>
  waitUntil(
    `${key} is free on all nodes`,
    async () => (await holdersOf(key)).every((token) => token === null),
    BOUND_MS,
  )
const isHeldOnAll = (key: string) =>
  waitUntil(`${key} is held on all nodes`, async () => !(await holdersOf(key)).includes(null))
/** Takes the lock on a node for another owner, for good. */
const occupy = (key: string, ...nodes: number[]) =>
  Promise.all(
    nodes.map((node) =>
      admins[node]?.hset(recordOf(key), { token: `other ${node}`, until: 9e12, fence: 1 }),
    ),
  )
const vacate = (key: string) => Promise.all(admins.map((admin) => admin.del(recordOf(key))))
const hang = (...nodes: number[]) => Promise.all(nodes.map((node) => servers[node]?.pause()))
const thaw = (...nodes: number[]) => Promise.all(nodes.map((node) => servers[node]?.resume()))

/** The outcome of a promise. Rejects if it is still pending after the bound. */
async function settledWithin(boundMs: number, promise: Promise<unknown>) {
  const timer = sleep(boundMs).then(() => {
    throw new Error(`still pending after ${boundMs} ms`)
  })
  timer.catch(() => {})
  const outcome = promise.then(
    (value) => ({ value, code: undefined }),
    (error: { code?: string }) => ({ value: undefined, code: error.code }),
  )
  return Promise.race([outcome, timer])
}

describe('a quorum of five nodes', () => {
  it('grants a lock for the rest of the lease, and frees the lock on every node', async () => {
    const locks = await openWarm()
    const lease = await locks.acquire('job')
    expect(lease.key).toBe('job')
    expect(lease.remainingMs()).toBeLessThanOrEqual(LONG_MS - 602)
    expect(lease.remainingMs()).toBeGreaterThan(LONG_MS - BOUND_MS)
    await isHeldOnAll('job')
    expect(await locks.tryAcquire('job')).toBeNull()
    expect(await lease.release()).toBe('released')
    await isFreeOnAll('job')
    expect(() => lease.assertHeld()).toThrow(expect.objectContaining({ code: 'ERR_LOCK_LOST' }))
  })

  it('grants without waiting for 2 nodes that hang', async () => {
    const locks = await openWarm({ nodeTimeoutMs: LONG_MS })
    await hang(3, 4)
    const { value } = await settledWithin(BOUND_MS, locks.acquire('job'))
    expect(value).toBeDefined()
  })

  it('grants without waiting for 2 nodes that hang, also to a new process', async () => {
    await hang(3, 4)
    const locks = open({ nodeTimeoutMs: LONG_MS })
    const { value } = await settledWithin(BOUND_MS, locks.acquire('job'))
    expect(value).toBeDefined()
  })

  it('refuses within the time limit when 3 nodes hang, and leaves nothing on the others', async () => {
    const locks = await openWarm()
    await hang(2, 3, 4)
    const tried = await settledWithin(BOUND_MS, locks.tryAcquire('job'))
    expect(tried.code).toBe('ERR_LOCK_UNAVAILABLE')
    const waited = await settledWithin(BOUND_MS, locks.acquire('job', { waitMs: 500 }))
    expect(waited.code).toBe('ERR_LOCK_UNAVAILABLE')
    for (const node of [0, 1]) {
      await expect.poll(() => admins[node]?.hget(recordOf('job'), 'token')).toBeNull()
    }
    await thaw(2, 3, 4)
    await isFreeOnAll('job')
    expect(await (await locks.acquire('job')).release()).toBe('released')
  })

  it.each([
    [10_000, 50],
    [2_000, 20],
    [100, 5],
  ])('for a lease of %i ms, gives a node %i ms to answer by default', async (leaseMs, ms) => {
    const locks = open({ nodeTimeoutMs: undefined })
    await hang(2, 3, 4)
    const tried = locks.tryAcquire('job', { leaseMs })
    await expect(tried).rejects.toThrow(`a node did not answer within ${ms} ms`)
  })

  it('is busy within the time limit when 2 nodes hang and 1 has another owner', async () => {
    const locks = await openWarm()
    await occupy('job', 2)
    await hang(3, 4)
    const tried = await settledWithin(BOUND_MS, locks.tryAcquire('job'))
    expect(tried).toMatchObject({ value: null, code: undefined })
    const waited = await settledWithin(BOUND_MS, locks.acquire('job', { waitMs: 300 }))
    expect(waited.code).toBe('ERR_LOCK_WAIT_TIMEOUT')
    const impatient = await settledWithin(BOUND_MS, locks.acquire('job', { waitMs: 0 }))
    expect(impatient.code).toBe('ERR_LOCK_BUSY')
  })

  it('grants nothing when the nodes are slower than the lease, and leaves nothing on them', async () => {
    const proxies = await Promise.all(servers.map(({ port }) => startProxy(port)))
    opened.push(async () => {
      await Promise.all(proxies.map((proxy) => proxy.stop()))
    })
    const urls = proxies.map(({ url }) => url)
    const locks = await openWarm({ urls, nodeTimeoutMs: 5_000 })
    for (const proxy of proxies) proxy.delay(60)
    const tried = await settledWithin(BOUND_MS, locks.tryAcquire('job', { leaseMs: 100 }))
    expect(tried.code).toBe('ERR_LOCK_UNAVAILABLE')
    await isFreeOnAll('job')
  })
})

describe('a quorum of four nodes', () => {
  it('refuses a third owner within the time limit when two owners hold 2 nodes each', async () => {
    const locks = await openWarm({ nodes: 4 })
    await occupy('job', 0, 1, 2, 3)
    const tried = await settledWithin(BOUND_MS, locks.tryAcquire('job'))
    expect(tried).toMatchObject({ value: null })
  })

  it('refuses when another owner holds 2 nodes, and frees the other 2', async () => {
    const locks = await openWarm({ nodes: 4 })
    await occupy('job', 0, 1)
    const tried = await settledWithin(BOUND_MS, locks.tryAcquire('job'))
    expect(tried).toMatchObject({ value: null, code: undefined })
    const waited = await settledWithin(BOUND_MS, locks.acquire('job', { waitMs: 300 }))
    expect(waited.code).toBe('ERR_LOCK_WAIT_TIMEOUT')
    await waitUntil('the loser left nothing', async () => {
      const holders = await holdersOf('job')
      return holders[2] === null && holders[3] === null
    })
    await vacate('job')
    await (await locks.acquire('job')).release()
  })
})

describe('a late grant of a node', () => {
  const LATE_MS = NODE_TIMEOUT_MS + 500
  const slowNode = async (options: QuorumOptions = {}) => {
    const proxy = await startProxy(servers[4]?.port ?? 0)
    opened.push(() => proxy.stop())
    const urls = [...servers.slice(0, 4).map(({ url }) => url), proxy.url]
    return { proxy, locks: await openWarm({ ...options, urls }) }
  }

  it('is undone after the lock was refused', async () => {
    const { proxy, locks } = await slowNode()
    await occupy('job', 0, 1, 2)
    proxy.delay(LATE_MS)
    const asked = locks.tryAcquire('job')
    await waitUntil('the slow node has granted it', async () => {
      return (await admins[4]?.hget(recordOf('job'), 'token')) !== null
    })
    expect(await asked).toBeNull()
    await waitUntil('the slow node is free', async () => {
      return (await admins[4]?.hget(recordOf('job'), 'token')) === null
    })
  })

  it('is undone after the lease was released', async () => {
    const { proxy, locks } = await slowNode()
    proxy.delay(LATE_MS)
    const lease = await locks.acquire('job')
    expect(await lease.release()).toBe('released')
    // The late command arrives meanwhile.
    await sleep(LATE_MS + 500)
    await isFreeOnAll('job')
  })

  it('counts for the holder once extend() has reached the node', async () => {
    const locks = await openWarm()
    await hang(4)
    const lease = await locks.acquire('job')
    // The command to the hung node has failed by now, and is being taken back in the background.
    await sleep(NODE_TIMEOUT_MS + 700)
    await thaw(4)
    await waitUntil('the node is held too', async () => {
      expect(await lease.extend()).toBe(true)
      return (await admins[4]?.hget(recordOf('job'), 'token')) !== null
    })
    const gone = waitUntil(
      'the node was lost',
      async () => (await admins[4]?.hget(recordOf('job'), 'token')) === null,
      // The last release of a late grant is sent 2 s after the first.
      3_000,
    )
    await expect(gone).rejects.toThrow('Not within')
    expect(await lease.release()).toBe('released')
  })
})

describe('a quorum lease', () => {
  it('is written by extend() to a node that restarted empty', async () => {
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
    // Under a token of its own on that node.
    expect(holders).not.toContain(null)
    expect(await lease.release()).toBe('released')
    await isFreeOnAll('job')
  })

  it('outlives the loss of its record on one node after another', async () => {
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

  it('is renewed automatically', async () => {
    const locks = await openWarm({ leaseMs: 6_000 })
    const other = await openWarm()
    const lease = await locks.acquire('job')
    await isHeldOnAll('job')
    const endOn = async (admin: Redis) =>
      Number.parseInt((await admin.hget(recordOf('job'), 'until')) ?? '', 10)
    const ends = () => Promise.all(admins.map(endOn))
    const before = await ends()
    await waitUntil('all nodes have a later end', async () =>
      (await ends()).every((end, node) => end > (before[node] ?? 0)),
    )
    expect(lease.signal.aborted).toBe(false)
    expect(await other.tryAcquire('job')).toBeNull()
    expect(await lease.release()).toBe('released')
  })

  it('outlives a short time without a majority, because the renewal is tried again', async () => {
    const locks = await openWarm({ leaseMs: 6_000, nodeTimeoutMs: 500 })
    const lease = await locks.acquire('job')
    // The renewal is due at 2 s, and fails at 2.5 s. More than three seconds are left after that.
    await sleep(1_700)
    await hang(2, 3, 4)
    await sleep(900)
    await thaw(2, 3, 4)
    await sleep(3_800)
    expect(lease.signal.aborted).toBe(false)
    expect(await lease.release()).toBe('released')
  })

  it('ends by the clock of its holder if the majority is unavailable', async () => {
    const leaseMs = 3_000
    const locks = await openWarm({ leaseMs })
    // Timers of one process fire in their order, however late.
    const lapses = sleep(leaseMs).then(() => 'the lease is over')
    const lease = await locks.acquire('job')
    const aborts = new Promise((resolve) =>
      lease.signal.addEventListener('abort', () => resolve('aborted')),
    )
    await hang(2, 3, 4)
    expect(await Promise.race([aborts, lapses])).toBe('aborted')
    expect(() => lease.assertHeld()).toThrow(expect.objectContaining({ code: 'ERR_LOCK_LOST' }))
    const { value } = await settledWithin(BOUND_MS, lease.release())
    expect(value).toBe('lost')
  })

  it('is not written again by extend() after its release', async () => {
    const locks = await openWarm()
    const lease = await locks.acquire('job')
    await isHeldOnAll('job')
    await lease.release()
    expect(await lease.extend()).toBe(false)
    await isFreeOnAll('job')
  })

  it('leaves nothing on the nodes if it is released during extend()', async () => {
    const locks = await openWarm()
    for (let round = 0; round < 10; round++) {
      const lease = await locks.acquire('job')
      await isHeldOnAll('job')
      // extend() takes a node again that lost the lease.
      await admins[0]?.del(recordOf('job'))
      const extending = lease.extend()
      await lease.release()
      await extending
      await isFreeOnAll('job')
    }
  })

  it('is lost at once if extend() finds another owner on a majority, and run() reports it', async () => {
    const locks = await openWarm()
    const ran = locks.run('job', async (lease) => {
      await isHeldOnAll('job')
      for (const admin of admins.slice(0, 3)) await admin.del(recordOf('job'))
      const other = open({ nodes: 3 })
      await other.acquire('job')
      expect(await lease.extend()).toBe(false)
      expect(lease.signal.aborted).toBe(true)
      return 7
    })
    await expect(ran).rejects.toMatchObject({ code: 'ERR_LOCK_LOST', result: 7 })
  })

  it('is released by run(), which passes on the error of its function', async () => {
    const locks = await openWarm()
    expect(await locks.run('job', (lease) => lease.key)).toBe('job')
    const failing = locks.run('job', () => {
      throw new Error('the job failed')
    })
    await expect(failing).rejects.toThrow('the job failed')
    await isFreeOnAll('job')
  })
})

describe('processes that compete for a quorum lock', () => {
  it('all get the lock, one at a time, the first of ten without waiting for a lease to end', async () => {
    const contenders = await Promise.all(Array.from({ length: 10 }, () => openWarm()))
    const startedAt = performance.now()
    const hadAfterMs: number[] = []
    let inside = 0
    const contend = async (locks: (typeof contenders)[number]) => {
      const lease = await locks.acquire('job', { waitMs: LONG_MS })
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
    expect(hadAfterMs[0]).toBeLessThan(BOUND_MS)
    await isFreeOnAll('job')
  })

  it('stop at once when they are aborted or closed, and leave nothing on the nodes', async () => {
    const locks = await openWarm()
    await occupy('job', 0, 1, 2)
    const abort = new AbortController()
    const waiting = locks.acquire('job', { signal: abort.signal, waitMs: LONG_MS })
    const outcome = settledWithin(BOUND_MS, waiting)
    await sleep(100)
    abort.abort()
    expect((await outcome).code).toBe('ERR_LOCK_ABORTED')
    const closed = settledWithin(BOUND_MS, locks.acquire('job', { waitMs: LONG_MS }))
    await sleep(50)
    await locks.close()
    expect((await closed).code).toBe('ERR_LOCK_ABORTED')
    await waitUntil('the others are free', async () => {
      const holders = await holdersOf('job')
      return holders[3] === null && holders[4] === null
    })
  })

  it('get no lock when they are aborted during an attempt', async () => {
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
    await isFreeOnAll('job')
  })

  it('release the lock if they close while they hold it', async () => {
    const locks = await openWarm()
    const lease = await locks.acquire('job')
    await locks.close()
    expect(lease.signal.aborted).toBe(true)
    await isFreeOnAll('job')
  })
})
