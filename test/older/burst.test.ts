// Thousands of commands at once in one process. They wait in the process, and not in Redis: so no
// command is late, and a frozen Redis still costs each caller one time budget.

import { createLocks } from '@stampede/locks'
import { Redis } from 'ioredis'
import { describe, expect, it, onTestFinished } from 'vitest'
import { burstOfFile, CLIENTS, getAll } from '../harness/burst.ts'
import { startProxy } from '../harness/tcp-proxy.ts'

const { server, open, warmUp } = await burstOfFile()

async function timed(work: Promise<unknown>): Promise<number> {
  const startedAt = performance.now()
  await work.catch(() => {})
  return performance.now() - startedAt
}

describe.each(CLIENTS)('thousands of commands at once by %s', (_, connect) => {
  it('store the values of 20 000 cold keys, and lose no connection', async () => {
    const opened = open(connect(server.url))
    const { stampede } = opened
    // The calls below block the event loop, so the first commit must have ended.
    const committed = new Promise<void>((resolve) => stampede.on('fill.committed', () => resolve()))
    await stampede.getOrSet('k0', async () => 0, { ttlMs: 60_000 })
    await committed
    await warmUp(opened, 20_000)
  })

  it('acquire and release 4 000 locks, and run 4 000 jobs with idempotency keys', async () => {
    const { stampede, store, failures } = open(connect(server.url))
    const locks = createLocks({ store })
    onTestFinished(() => locks.close())
    const each = Array.from({ length: 4_000 }, (_, i) => `k${i}`)
    const held = await Promise.all(each.map((key) => locks.tryAcquire(key, { leaseMs: 60_000 })))
    expect(held.filter((lease) => lease === undefined)).toEqual([])
    const released = await Promise.all(held.map((lease) => lease?.release()))
    expect(new Set(released)).toEqual(new Set(['released']))
    const run = (key: string) => stampede.idempotent(key, async () => key, { scope: 'jobs' })
    expect(await Promise.all(each.map(run))).toHaveLength(4_000)
    expect(failures).toEqual([])
  })

  it('cost each caller a time budget, not more, if Redis is frozen', async () => {
    const budgetMs = 1_000
    const { stampede } = open(connect(server.url), budgetMs)
    await stampede.getOrSet('first', async () => 1, { ttlMs: 60_000 })
    await server.pause()
    const took = await Promise.all(getAll(stampede, 500).map(timed))
    // Redis stays frozen, and 500 budgets one after another would take minutes.
    expect(Math.max(...took)).toBeLessThan(20 * budgetMs)
  })
})

describe('a caller whose command waits in the process', () => {
  it('waits for waitMs, and then runs the function itself', async () => {
    const proxy = await startProxy(server.port)
    onTestFinished(() => proxy.stop())
    // The waits of all callers end together, so their functions run together.
    const { stampede } = open(new Redis(proxy.url, { lazyConnect: true }), 60_000, 300)
    await stampede.getOrSet('first', async () => 1, { ttlMs: 60_000 })
    proxy.delay(25_000)
    let timeouts = 0
    stampede.on('wait.timed-out', () => {
      timeouts += 1
    })
    const all = getAll(stampede, 300, 100)
    // The first ones were sent, so they have a time budget instead.
    const queued = all.slice(200)
    // Before any reply could come.
    expect(await timed(Promise.all(queued))).toBeLessThan(20_000)
    expect(timeouts).toBeGreaterThanOrEqual(100)
    proxy.drop()
    proxy.delay(0)
    await Promise.all(all)
  })

  it('does not wait behind lookups if it releases, purges or commits', async () => {
    const proxy = await startProxy(server.port)
    onTestFinished(() => proxy.stop())
    const { stampede, store } = open(new Redis(proxy.url, { lazyConnect: true }), 10_000)
    const locks = createLocks({ store })
    onTestFinished(() => locks.close())
    const lease = await locks.acquire('l', { leaseMs: 60_000 })
    await stampede.getOrSet('first', async () => 1, { ttlMs: 60_000 })
    proxy.delay(300)
    let isDone = false
    const all = Promise.all(getAll(stampede, 1_000)).then(() => {
      isDone = true
    })
    await Promise.all([lease.release(), stampede.purge({ key: 'first' })])
    expect(isDone).toBe(false)
    proxy.delay(0)
    await all
  })
})
