// Lookups over a link that needs nearly the whole budget for one round trip. A lookup ends within
// its budget, however many round trips it needs. A lease whose reply is late is given back.

import { createStampede, type StampedeStore } from '@stampede/core'
import { type Clock, systemClock } from '@stampede/core/store'
import { redisStore } from '@stampede/redis'
import { Redis } from 'ioredis'
import {
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  describe,
  expect,
  it,
  onTestFinished,
} from 'vitest'
import { openBareStore, write } from '../harness/bare-store.ts'
import { PATIENT } from '../harness/patient.ts'
import { redisOfFile } from '../harness/redis-of-file.ts'
import { startProxy, type TcpProxy } from '../harness/tcp-proxy.ts'

type LookupReply = Awaited<ReturnType<StampedeStore['lookup']>>

const BUDGET_MS = 2_700
/** Longer than half of the budget: two round trips take more. */
const ROUND_TRIP_MS = 1_800
/** One-way delay with which a command comes in time, and its reply 300 ms too late. */
const LATE_MS = BUDGET_MS / 2 + 150
/** Less than a lease, and far more than a budget. */
const SOON_MS = 20_000

const { server, admin } = await redisOfFile()
let proxy: TcpProxy

beforeAll(async () => {
  proxy = await startProxy(server.port)
})
beforeEach(() => admin.flushall())
afterEach(() => proxy.delay(0))
afterAll(() => proxy.stop())

function open(url: string, clock: Clock = systemClock): StampedeStore {
  const store = openBareStore(url, { clock }, BUDGET_MS)
  onTestFinished(() => store.close())
  return store
}
const look = (store: StampedeStore, key: string, token = 'token', leaseMs = 20_000) =>
  store.lookup(key, { token, leaseMs })
const outcome = (reply: Promise<LookupReply>) =>
  reply.then(
    ({ status }) => status,
    (error) => error.code as string,
  )

describe('a lookup on a slow link', () => {
  async function timed(store: StampedeStore, key: string) {
    const startedAt = performance.now()
    const came = await outcome(look(store, key))
    return { came, tookMs: performance.now() - startedAt }
  }
  async function warm(store: StampedeStore): Promise<void> {
    await write(store, 'hot', 'hot')
    for (let i = 0; i < 40; i++) await look(store, 'hot')
  }

  it('ends within its budget if a plain read finds nothing, and the next one uses the script', async () => {
    let skippedMs = 0
    const now = () => systemClock.now() + skippedMs
    const store = open(proxy.url, { ...systemClock, now })
    await warm(store)
    // A link that has just opened gives each step a whole budget. The lookup confirms the purges.
    skippedMs = 6_000
    await look(store, 'hot')
    proxy.delay(ROUND_TRIP_MS / 2)
    const first = await timed(store, 'one')
    expect(first.came).toBe('ERR_STAMPEDE_STORE_UNAVAILABLE')
    const second = await timed(store, 'two')
    expect(second.came).toBe('leased')
  })

  it('ends within its budget when it must confirm the purges first', async () => {
    let skippedMs = 0
    const now = () => systemClock.now() + skippedMs
    const store = open(proxy.url, { ...systemClock, now })
    await warm(store)
    proxy.delay(ROUND_TRIP_MS / 2)
    // Longer than the purges stay confirmed without a message.
    skippedMs = 6_000
    const { came, tookMs } = await timed(store, 'two')
    expect(tookMs).toBeGreaterThan(ROUND_TRIP_MS)
    expect(came).toBe('ERR_STAMPEDE_STORE_UNAVAILABLE')
  })
})

describe('a lease whose reply is late', () => {
  /** A process on the slow link. Its engine releases the leases of lookups without a reply. */
  async function openSlow() {
    const client = new Redis(proxy.url, { lazyConnect: true })
    const store = redisStore(client, { prefix: 't', commandTimeoutMs: BUDGET_MS })
    const stampede = createStampede({ store })
    onTestFinished(() => stampede.close())
    const get = (key: string) =>
      stampede.getOrSet(key, async () => 'own', { ttlMs: 1_000, leaseMs: 60_000 })
    await get('other')
    return get
  }

  it('is released, so that no process waits for it', async () => {
    const [slow, quick] = [await openSlow(), open(server.url)]
    proxy.delay(LATE_MS)
    // The script runs in time, and its reply comes too late. So the run has no lease.
    expect(await slow('k')).toBe('own')
    proxy.delay(0)
    const startedAt = performance.now()
    await expect.poll(() => outcome(look(quick, 'd:=k', 'quick')), { interval: 20 }).toBe('leased')
    expect(performance.now() - startedAt).toBeLessThan(SOON_MS)
  })

  it('is kept when a new lookup of the same process has the same token', async () => {
    const [slow, quick] = [open(proxy.url), open(server.url)]
    await look(slow, 'other', 'other', 0)
    proxy.delay(LATE_MS)
    expect(await outcome(look(slow, 'k', 'slow'))).toBe('ERR_STAMPEDE_STORE_UNAVAILABLE')
    proxy.delay(0)
    expect(await outcome(look(slow, 'k', 'slow'))).toBe('leased')
    await new Promise((resolve) => setTimeout(resolve, 1_000))
    expect(await outcome(look(quick, 'k', 'quick'))).toBe('busy')
  })

  it('wakes a process that waits for the key when the lease is released', async () => {
    const slow = await openSlow()
    const client = new Redis(server.url, { lazyConnect: true })
    const stampede = createStampede({ store: redisStore(client, { ...PATIENT, prefix: 't' }) })
    onTestFinished(() => stampede.close())
    const get = (key: string) => stampede.getOrSet(key, async () => 'filled', { ttlMs: 1_000 })
    await get('ready')
    proxy.delay(LATE_MS)
    expect(await slow('k')).toBe('own')
    proxy.delay(0)
    const startedAt = performance.now()
    expect(await get('k')).toBe('filled')
    expect(performance.now() - startedAt).toBeLessThan(SOON_MS)
  })
})
