// Faults of a Redis that runs and does not do what a command says: what a caller sees, and what an
// operator does.

import { createStampede, type Stampede, type StampedeEvent } from '@stampede/core'
import { redisStore } from '@stampede/redis'
import { Redis } from 'ioredis'
import { afterEach, describe, expect, it } from 'vitest'
import { PATIENT } from '../harness/patient.ts'
import { type RedisServer, startRedis } from '../harness/redis-server.ts'

let open: Array<() => unknown> = []
afterEach(async () => {
  for (const close of open.reverse()) await close()
  open = []
})

interface Bench {
  readonly server: RedisServer
  readonly admin: Redis
  readonly stampede: Stampede
  readonly failed: Array<Extract<StampedeEvent, { type: 'store.failed' }>>
}

async function setUp(args: readonly string[] = [], options = {}): Promise<Bench> {
  const server = await startRedis({ args })
  open.push(() => server.stop())
  const admin = new Redis(server.url)
  admin.on('error', () => {})
  open.push(() => admin.disconnect())
  const stampede = createStampede({
    store: redisStore(admin, PATIENT),
    l1: { maxBytes: 0 },
    ...options,
  })
  open.push(() => stampede.close())
  const failed: Bench['failed'] = []
  stampede.on('store.failed', (event) => failed.push(event))
  await stampede.getOrSet('warm', () => 1, { ttlMs: 60_000 })
  await expect.poll(() => stampede.stats().fills.committed).toBe(1)
  return { server, admin, stampede, failed }
}

describe('a cache on a faulty Redis', () => {
  it('loads its scripts again when Redis loses them during a fill, without a failure', async () => {
    const { admin, stampede, failed } = await setUp()
    const value = await stampede.getOrSet(
      'k',
      async () => {
        await admin.script('FLUSH')
        return 'v'
      },
      { ttlMs: 60_000 },
    )
    await expect.poll(() => stampede.stats().fills.committed).toBe(2)
    await admin.script('FLUSH')
    expect([value, await stampede.getOrSet('k', () => 'other', { ttlMs: 60_000 })]).toEqual([
      'v',
      'v',
    ])
    expect(failed).toEqual([])
  })

  it('treats a replica as unavailable until the replica accepts writes again', async () => {
    const { admin, stampede, failed } = await setUp()
    await admin.replicaof('127.0.0.1', 1)
    expect(await stampede.getOrSet('k', () => 'mine', { ttlMs: 60_000 })).toBe('mine')
    expect(failed.map(({ operation }) => operation)).toContain('lookup')
    expect(String(failed[0]?.error)).toContain('READONLY')
    await admin.replicaof('NO', 'ONE')
    const stored = async () => {
      await stampede.getOrSet('later', () => 'v', { ttlMs: 60_000 })
      return stampede.stats().fills.committed
    }
    await expect.poll(stored).toBe(2)
  })

  it('reconnects once per connection if its server became a replica, for any number of lookups', async () => {
    const { admin, stampede } = await setUp()
    const warnings: Error[] = []
    const onWarning = (warning: Error) => warnings.push(warning)
    process.on('warning', onWarning)
    open.push(() => process.off('warning', onWarning))
    await admin.replicaof('127.0.0.1', 1)
    const keys = Array.from({ length: 30 }, (_, n) => `many ${n}`)
    const ask = (key: string) => stampede.getOrSet(key, () => 'mine', { ttlMs: 60_000 })
    const answers = await Promise.all(keys.map(ask))
    expect(new Set(answers)).toEqual(new Set(['mine']))
    expect(warnings).toEqual([])
  })

  it('sends a purge after Redis has cut its connections', async () => {
    const { admin, stampede } = await setUp()
    await admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
    await Promise.all([stampede.purge({ key: 'warm' }), stampede.purge({ tag: 'any' })])
    expect(await stampede.getOrSet('warm', () => 'new', { ttlMs: 60_000 })).toBe('new')
  })

  it('fills evicted entries again, and reports no failure', async () => {
    const memory = ['--maxmemory', '4mb', '--maxmemory-policy', 'allkeys-lru']
    const { admin, stampede, failed } = await setUp(memory)
    const body = 'x'.repeat(20_000)
    for (let round = 0; round < 2; round++) {
      for (let n = 0; n < 300; n++) {
        const value = await stampede.getOrSet(`k${n}`, () => `${n} ${body}`, { ttlMs: 60_000 })
        expect(value).toBe(`${n} ${body}`)
      }
    }
    expect(await admin.info('stats')).toMatch(/evicted_keys:[1-9]/)
    expect(failed).toEqual([])
  })

  it('gives each waiter its response when Redis drops every subscription', async () => {
    const { server, admin, stampede } = await setUp()
    const client = new Redis(server.url)
    open.push(() => client.disconnect())
    const other = createStampede({ store: redisStore(client, PATIENT) })
    open.push(() => other.close())
    let fill: (value: string) => void = () => {}
    const made = new Promise<string>((resolve) => {
      fill = resolve
    })
    const leading = stampede.getOrSet('k', () => made, { ttlMs: 60_000 })
    await expect.poll(() => stampede.stats().active.leases).toBe(1)
    const waiting = other.getOrSet('k', () => 'a second run', { ttlMs: 60_000 })
    await expect.poll(() => other.stats().waits.started).toBe(1)
    await admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub')
    fill('v')
    expect(await Promise.all([leading, waiting])).toEqual(['v', 'v'])
  })

  it('runs at most originConcurrency handlers at a time when Redis is killed under load', async () => {
    const { server, stampede } = await setUp([], { originConcurrency: 8 })
    await server.kill()
    let [now, most] = [0, 0]
    const run = async () => {
      now += 1
      most = Math.max(most, now)
      await new Promise((resolve) => setTimeout(resolve, 20))
      now -= 1
      return 'v'
    }
    const keys = Array.from({ length: 200 }, (_, n) => `k${n}`)
    const values = await Promise.all(
      keys.map((key) => stampede.getOrSet(key, run, { ttlMs: 60_000 })),
    )
    expect(new Set(values)).toEqual(new Set(['v']))
    expect(most).toBe(8)
    expect(stampede.stats().unleased).toEqual({ running: 0, queued: 0 })
  })
})
