// Every operation on Redis ends within its time budget, at any moment at which Redis freezes.
// A lookup with the first late reply ends one budget later.

import { createStampede, type StampedeStore } from '@stampede/core'
import {
  type Grant,
  type IdempotencyStore,
  type LockStore,
  systemClock,
} from '@stampede/core/store'
import { redisStore } from '@stampede/redis'
import { Redis } from 'ioredis'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { type RedisServer, startRedis } from '../harness/redis-server.ts'

type BeginRequest = Parameters<IdempotencyStore['begin']>[1]

const BUDGET_MS = 500
/** Redis stays frozen for longer than this. */
const SOON_MS = 20_000
const LEASE_MS = 10_000

let server: RedisServer
let closers: Array<() => unknown> = []
let tests = 0

beforeAll(async () => {
  server = await startRedis()
})
afterEach(async () => {
  await server.resume()
  for (const close of closers.reverse()) await close()
  closers = []
})
afterAll(() => server.stop())

/**
 * A store of its own for each test. The open breaker of another store would end the operation at
 * once.
 */
function open(): StampedeStore {
  tests += 1
  const client = new Redis(server.url, { lazyConnect: true })
  const store = redisStore(client, { prefix: `b${tests}`, commandTimeoutMs: BUDGET_MS })
  closers.push(() => client.disconnect())
  return store
}

const hooks = {
  clock: systemClock,
  onWake() {},
  onPurge() {},
  onMark() {},
  onGap() {},
  onBack() {},
  onForget() {},
  onLost() {},
  onError() {},
  onGrant() {},
  onSettled() {},
}

async function elapsed(work: Promise<unknown>): Promise<number> {
  const startedAt = performance.now()
  await work
  return performance.now() - startedAt
}

/** Runs the operation once, freezes Redis, and runs it again. */
async function endsInTime(run: () => Promise<unknown>): Promise<void> {
  await run()
  await server.pause()
  const refused = expect(run()).rejects.toMatchObject({ code: 'ERR_STAMPEDE_STORE_UNAVAILABLE' })
  expect(await elapsed(refused)).toBeLessThan(SOON_MS)
}

const LIFETIMES = {
  freshMs: 1_000,
  staleWhileRevalidateMs: 0,
  staleIfErrorMs: 0,
  keepMs: 0,
  physicalMs: 10_000,
}

describe('a cache operation', () => {
  const frame = Buffer.from('frame')
  const operations: Array<[string, (store: StampedeStore, grant: Grant) => Promise<unknown>]> = [
    ['a commit', (store, grant) => store.commit(grant, frame, LIFETIMES)],
    ['a pass', (store, grant) => store.pass(grant, 1_000)],
    ['a failure', (store, grant) => store.fail(grant, { status: 500, message: '' }, 1_000)],
    ['a renewal', (store, grant) => store.renew([grant, grant], LEASE_MS)],
    ['a purge of a key', (store) => store.purge('k', { soft: false })],
    ['a purge by tag', (store) => store.mark('t=x', { soft: false })],
  ]

  it.each(operations)('%s ends within its budget when Redis is frozen', async (_, operation) => {
    const store = open()
    store.attach(hooks)
    closers.push(() => store.close())
    const reply = await store.lookup('k', { token: 'token', leaseMs: LEASE_MS })
    if (reply.status !== 'leased') throw new Error(reply.status)
    await endsInTime(() => operation(store, reply.grant))
  })

  it('ends within its budget if it is a lookup and Redis is frozen', async () => {
    const store = open()
    store.attach(hooks)
    closers.push(() => store.close())
    await endsInTime(() => store.lookup('other', { token: 't', leaseMs: LEASE_MS }))
  })

  it('ends within its budget if it is the first lookup and Redis was never connected', async () => {
    await server.pause()
    const store = open()
    store.attach(hooks)
    closers.push(() => store.close())
    const first = store.lookup('k', { token: 't', leaseMs: LEASE_MS })
    expect(await elapsed(first.catch(() => {}))).toBeLessThan(SOON_MS)
  })
})

describe('a lock operation', () => {
  const request = { token: 't', leaseMs: LEASE_MS, queue: true }
  const operations: Array<[string, (store: LockStore, grant: Grant) => Promise<unknown>]> = [
    ['taking one', (store) => store.acquire('other', request)],
    ['a renewal', (store, grant) => store.renew([grant], LEASE_MS)],
    ['a release', (store, grant) => store.release(grant)],
    ['leaving the queue', (store) => store.leave('l')],
  ]

  it.each(operations)('%s ends within its budget when Redis is frozen', async (_, operation) => {
    const { locks } = open()
    locks.attach(hooks)
    closers.push(() => locks.close())
    const reply = await locks.acquire('l', { ...request, token: 'token' })
    if (reply.status !== 'granted') throw new Error(reply.status)
    await endsInTime(() => operation(locks, reply.grant))
  })
})

describe('an operation on idempotency keys', () => {
  const prints = { exact: 'e', canonical: 'c' }
  const request: BeginRequest = {
    token: 't',
    fingerprints: prints,
    leaseMs: LEASE_MS,
    retentionMs: 60_000,
    maxAttempts: 3,
    keepUncertainMs: 60_000,
    wait: true,
  }
  const released = { as: 'released', keepMs: 60_000 } as const
  const operations: Array<[string, (store: IdempotencyStore, grant: Grant) => Promise<unknown>]> = [
    ['a beginning', async (store) => store.begin('other', request)],
    ['a renewal', (store, grant) => store.renew([grant], LEASE_MS)],
    ['a step', (store, grant) => store.keepStep(grant, 'step', Buffer.from('1'))],
    ['an end', async (store, grant) => store.finish(grant, released, prints)],
    ['an inspection', (store) => store.inspect('i')],
    ['a list', (store) => store.list('', 100)],
    ['an operator’s word', (store) => store.settle('i', released, { force: true })],
  ]

  it.each(operations)('%s ends within its budget when Redis is frozen', async (_, operation) => {
    const { idempotency } = open()
    idempotency.attach(hooks)
    closers.push(() => idempotency.close())
    const reply = await idempotency.begin('i', { ...request, token: 'token' })
    if (reply.status !== 'begun') throw new Error(reply.status)
    await endsInTime(() => operation(idempotency, reply.grant))
  })
})

describe('close()', () => {
  it('ends without waiting for a fill in flight when Redis is frozen', async () => {
    const stampede = createStampede({ store: open() })
    const filling = stampede.getOrSet('k', () => new Promise(() => {}), {
      ttlMs: 1_000,
      originTimeoutMs: 60_000,
    })
    filling.catch(() => {})
    await expect.poll(() => stampede.stats().active.leases).toBe(1)
    await server.pause()
    expect(await elapsed(stampede.close())).toBeLessThan(SOON_MS)
  })

  it('ends at once when nothing is under way', async () => {
    const stampede = createStampede({ store: open() })
    await stampede.getOrSet('k', () => 1, { ttlMs: 1_000 })
    await expect.poll(() => stampede.stats().active.flights).toBe(0)
    await server.pause()
    // The time that close() gives to fills.
    const timer = new Promise((resolve) => setTimeout(resolve, 2_000, 'late'))
    expect(await Promise.race([stampede.close(), timer])).toBeUndefined()
  })
})
