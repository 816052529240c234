// Redis evicts the record of a group, and keeps its variants. A purge of the key still holds,
// whether it came before the eviction or after it. Real servers with a real maxmemory, one for each
// policy.

import type { StampedeStore } from '@stampede/core'
import { Redis } from 'ioredis'
import { describe, expect, it } from 'vitest'
import { LIFETIMES, openBareStore, record } from '../harness/bare-store.ts'
import { startRedis } from '../harness/redis-server.ts'

const PAGES = 300
const LANGUAGES = ['de', 'en', 'fr']
const FRAME = Buffer.alloc(500, 'x')

const policies = [
  ...['allkeys-lru', 'allkeys-lfu', 'allkeys-random'],
  ...['volatile-lru', 'volatile-lfu', 'volatile-ttl', 'volatile-random'],
]

const pages = Array.from({ length: PAGES }, (_, n) => `page ${n}`)
const variantsOf = (page: string) => LANGUAGES.map((language) => `${page}\0${language}`)

async function fill(store: StampedeStore, key: string): Promise<void> {
  const reply = await store.lookup(key, { token: 'filler', leaseMs: 5_000 })
  if (!('grant' in reply) || reply.grant === undefined) throw new Error(reply.status)
  expect(await store.commit(reply.grant, FRAME, LIFETIMES)).toBe('committed')
}

async function usedBytes(admin: Redis): Promise<number> {
  const [, used] = /used_memory:(\d+)/.exec(await admin.info('memory')) ?? []
  return Number(used)
}

/** Adds other data until Redis has evicted some of the records. */
async function evictSome(admin: Redis, policy: string): Promise<void> {
  await admin.config('SET', 'maxmemory-policy', policy)
  await admin.config('SET', 'maxmemory', String(await usedBytes(admin)))
  const gone = async () => Number(/evicted_keys:(\d+)/.exec(await admin.info('stats'))?.[1])
  for (let n = 0; (await gone()) < PAGES * 1.5; n++) {
    // Policies that evict only keys with a TTL need some data without one.
    await admin.set(`other ${n}`, FRAME.toString().repeat(4)).catch(() => {})
    if (n > 20_000) throw new Error(`${policy} evicts nothing`)
  }
  await admin.config('SET', 'maxmemory', '0')
}

describe('a purge of a key whose group record Redis evicts', () => {
  it.each(policies)('still holds before and after the eviction, by %s', async (policy) => {
    await using server = await startRedis({ args: ['--maxmemory-samples', '10'] })
    const admin = new Redis(server.url)
    const store = openBareStore(server.url)
    try {
      for (const page of pages) await Promise.all(variantsOf(page).map((key) => fill(store, key)))
      const [before, after] = [pages.slice(0, PAGES / 2), pages.slice(PAGES / 2)]
      for (const page of before) await store.purge(page, { soft: false })
      await evictSome(admin, policy)
      for (const page of after) await store.purge(page, { soft: false })
      let orphans = 0
      const old: string[] = []
      for (const page of pages) {
        const hasGroup = await admin.exists(record(page))
        for (const key of variantsOf(page)) {
          if (hasGroup === 0) orphans += await admin.exists(record(key))
          const { status } = await store.lookup(key, { token: 'reader', leaseMs: 0 })
          if (status !== 'busy') old.push(`${JSON.stringify(key)} ${status}`)
        }
      }
      expect(old).toEqual([])
      // Otherwise this test shows nothing.
      expect(orphans).toBeGreaterThan(10)
    } finally {
      await store.close()
      admin.disconnect()
    }
  })
})
