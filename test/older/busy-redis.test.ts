// A Redis that is busy for longer than a lookup's budget, and one that is frozen: the first late
// reply is waited for during one more budget, and no other.

import { createStampede, type StampedeStore } from '@stampede/core'
import { redisStore } from '@stampede/redis'
import { Redis } from 'ioredis'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openBareStore, write } from '../harness/bare-store.ts'
import { redisOfFile } from '../harness/redis-of-file.ts'
import { waitUntil } from '../harness/wait-until.ts'

const BUDGET_MS = 500
/** Longer than a budget, and well under two. */
const BUSY_MS = BUDGET_MS + 120
/** Allowance for a busy machine, less than one budget. */
const MARGIN_MS = 300

const UNAVAILABLE = 'ERR_STAMPEDE_STORE_UNAVAILABLE'

const { server, admin } = await redisOfFile()
let closing: Array<() => Promise<void>> = []

beforeEach(() => admin.flushall())
afterEach(async () => {
  await server.resume()
  for (const close of closing) await close()
  closing = []
})

async function open(): Promise<StampedeStore> {
  const store = openBareStore(server.url, {}, BUDGET_MS)
  closing.push(() => store.close())
  await waitUntil('it replies quickly', async () => {
    const { came, tookMs } = await timed(store, 'first')
    return came !== UNAVAILABLE && tookMs < BUDGET_MS / 4
  })
  return store
}

/** Redis runs one script for so long, and nothing else. */
async function busy(forMs: number): Promise<void> {
  const script = `
    local function now() local t = redis.call('TIME') return t[1] * 1000 + t[2] / 1000 end
    local till = now() + ARGV[1]
    while now() < till do end`
  void admin.eval(script, 0, forMs)
  // On its way before what the caller sends next on another connection.
  await new Promise((resolve) => setTimeout(resolve, 10))
}

async function timed(store: StampedeStore, key: string) {
  const startedAt = performance.now()
  const came = await store.lookup(key, { token: `of ${key}`, leaseMs: 20_000 }).then(
    ({ status }) => status as string,
    (error) => error.code as string,
  )
  return { came, tookMs: performance.now() - startedAt }
}

describe('a Redis that is busy for longer than the time budget', () => {
  it('still grants a lease to a lookup that uses the script', async () => {
    const store = await open()
    await busy(BUSY_MS)
    const { came, tookMs } = await timed(store, 'k')
    expect(came).toBe('leased')
    expect(tookMs).toBeGreaterThan(BUDGET_MS)
  })

  it('still returns the entry to a lookup that uses a plain read', async () => {
    const store = await open()
    await write(store, 'hot', 'hot')
    for (let i = 0; i < 40; i++) await timed(store, 'hot')
    await busy(BUSY_MS)
    const { came, tookMs } = await timed(store, 'hot')
    expect(came).toBe('fresh')
    expect(tookMs).toBeGreaterThan(BUDGET_MS)
  })

  it('gets an extra budget again after it has replied quickly', async () => {
    const store = await open()
    for (const key of ['one', 'two']) {
      await busy(BUSY_MS)
      expect((await timed(store, key)).came).toBe('leased')
      expect((await timed(store, `after ${key}`)).tookMs).toBeLessThan(BUDGET_MS / 2)
    }
  })

  it('causes one origin call in a fleet of 20 processes for a cold key', async () => {
    const processes = Array.from({ length: 20 }, () => {
      const client = new Redis(server.url, { lazyConnect: true })
      const stampede = createStampede({
        store: redisStore(client, { prefix: 'fleet', commandTimeoutMs: BUDGET_MS }),
      })
      closing.push(() => stampede.close())
      return stampede
    })
    let origins = 0
    const make = () => {
      origins += 1
      return 'made'
    }
    await waitUntil('all processes share', async () => {
      origins = 0
      const key = `warm ${performance.now()}`
      await Promise.all(processes.map((each) => each.getOrSet(key, make, { ttlMs: 60_000 })))
      return origins === 1
    })
    origins = 0
    await busy(BUSY_MS)
    const asked = processes.map((each) => each.getOrSet('cold', make, { ttlMs: 60_000 }))
    expect(new Set(await Promise.all(asked))).toEqual(new Set(['made']))
    expect(origins).toBe(1)
  })
})

describe('a Redis that is frozen', () => {
  it('delays pending lookups by one more budget, and later lookups by none', async () => {
    const store = await open()
    await server.pause()
    const first = Promise.all(['a', 'b'].map((key) => timed(store, key)))
    await new Promise((resolve) => setTimeout(resolve, BUDGET_MS + 50))
    const later = await timed(store, 'later')
    expect(later.came).toBe(UNAVAILABLE)
    expect(later.tookMs).toBeLessThan(BUDGET_MS + MARGIN_MS)
    for (const { came, tookMs } of await first) {
      expect(came).toBe(UNAVAILABLE)
      expect(tookMs).toBeLessThan(2 * BUDGET_MS + MARGIN_MS)
    }
    // Three failures in a row: the breaker is open.
    expect((await timed(store, 'open')).tookMs).toBeLessThan(BUDGET_MS)
  })

  it('keeps no lease for a lookup that it runs after the caller gave up', async () => {
    const store = await open()
    const other = await open()
    await server.pause()
    expect((await timed(store, 'k')).came).toBe(UNAVAILABLE)
    await server.resume()
    await waitUntil('the key is free', async () => {
      const reply = await other.lookup('k', { token: 'other', leaseMs: 1_000 }).catch(() => {})
      return reply?.status === 'leased'
    })
  })

  it('frees at once the leases of lookups that it runs after the callers gave up', async () => {
    const store = await open()
    const other = await open()
    await server.pause()
    const early = ['a', 'b', 'c'].map((key) => timed(store, key))
    // Their end is that of the first ones. The server may run them for another budget.
    await new Promise((resolve) => setTimeout(resolve, BUDGET_MS - 100))
    const keys = ['d', 'e', 'f']
    const ended = await Promise.all([...early, ...keys.map((key) => timed(store, key))])
    expect(ended.map(({ came }) => came)).toEqual(ended.map(() => UNAVAILABLE))
    await new Promise((resolve) => setTimeout(resolve, 100))
    await server.resume()
    const thawedAt = performance.now()
    const isFree = async (key: string) => {
      const reply = await other.lookup(key, { token: 'other', leaseMs: 20_000 }).catch(() => {})
      return reply?.status === 'leased'
    }
    for (const key of keys) await waitUntil(`${key} is free`, () => isFree(key))
    expect(performance.now() - thawedAt).toBeLessThan(400)
  })
})
