// A Redis that is frozen: lookups wait for one budget, and keep no lease when it continues.

import { createStampede, type StampedeStore } from '@stampede/core'
import { redisStore } from '@stampede/redis'
import { Redis } from 'ioredis'
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { openBareStore } from '../harness/bare-store.ts'
import { redisOfFile } from '../harness/redis-of-file.ts'
import { waitUntil } from '../harness/wait-until.ts'

const BUDGET_MS = 500
/** Redis stays frozen, or a lease held, for longer than this. */
const SOON_MS = 20_000

const UNAVAILABLE = 'ERR_STAMPEDE_STORE_UNAVAILABLE'

const { server, admin } = await redisOfFile()

beforeEach(() => admin.flushall())
afterEach(() => server.resume())

async function open(): Promise<StampedeStore> {
  const store = openBareStore(server.url, {}, BUDGET_MS)
  onTestFinished(() => store.close())
  await waitUntil('it replies quickly', async () => {
    const { came, tookMs } = await timed(store, 'first')
    return came !== UNAVAILABLE && tookMs < BUDGET_MS / 4
  })
  return store
}

/** A process whose engine releases the leases of lookups without a reply. */
async function openStampede() {
  const client = new Redis(server.url, { lazyConnect: true })
  const store = redisStore(client, { prefix: 't', commandTimeoutMs: BUDGET_MS })
  const stampede = createStampede({ store })
  onTestFinished(() => stampede.close())
  const get = (key: string) =>
    stampede.getOrSet(key, async () => 'own', { ttlMs: 1_000, leaseMs: 60_000 })
  await get('first')
  return get
}

async function timed(store: StampedeStore, key: string) {
  const startedAt = performance.now()
  const came = await store.lookup(key, { token: `of ${key}`, leaseMs: 20_000 }).then(
    ({ status }) => status as string,
    (error) => error.code as string,
  )
  return { came, tookMs: performance.now() - startedAt }
}

describe('a Redis that is frozen', () => {
  it('delays lookups by one budget, and later lookups by none', async () => {
    const store = await open()
    await server.pause()
    const first = Promise.all(['a', 'b'].map((key) => timed(store, key)))
    await new Promise((resolve) => setTimeout(resolve, BUDGET_MS - 50))
    const later = await timed(store, 'later')
    expect(later.came).toBe(UNAVAILABLE)
    expect(later.tookMs).toBeLessThan(SOON_MS)
    for (const { came, tookMs } of await first) {
      expect(came).toBe(UNAVAILABLE)
      expect(tookMs).toBeLessThan(SOON_MS)
    }
    // Three failures in a row: the breaker is open.
    const refused = store.lookup('open', { token: 'open', leaseMs: 0 })
    await expect(refused).rejects.toThrow('earlier commands failed')
  })

  it('keeps no lease for a lookup that it runs after the caller gave up', async () => {
    const get = await openStampede()
    const other = await open()
    await server.pause()
    expect(await get('k')).toBe('own')
    await server.resume()
    await waitUntil('the key is free', async () => {
      const reply = await other.lookup('d:=k', { token: 'other', leaseMs: 1_000 }).catch(() => {})
      return reply?.status === 'leased'
    })
  })

  it('frees at once the leases of lookups that it runs after the callers gave up', async () => {
    const get = await openStampede()
    const other = await open()
    await server.pause()
    const keys = ['d', 'e', 'f']
    expect(await Promise.all(keys.map(get))).toEqual(keys.map(() => 'own'))
    await new Promise((resolve) => setTimeout(resolve, 100))
    await server.resume()
    const thawedAt = performance.now()
    const isFree = async (key: string) => {
      const reply = await other
        .lookup(`d:=${key}`, { token: 'other', leaseMs: 20_000 })
        .catch(() => {})
      return reply?.status === 'leased'
    }
    for (const key of keys) await waitUntil(`${key} is free`, () => isFree(key))
    expect(performance.now() - thawedAt).toBeLessThan(SOON_MS)
  })
})
