// A process whose machine was suspended, on a real Redis: its monotonic clock stood still, and its
// wall clock is ahead. It knows that its copies and leases are over before any of its timers runs.

import { createStampede } from '@stampede/core'
import { type Clock, systemClock } from '@stampede/core/store'
import { createLocks } from '@stampede/locks'
import { redisStore } from '@stampede/redis'
import { Redis } from 'ioredis'
import { afterAll, afterEach, beforeAll, expect, it, onTestFinished } from 'vitest'
import { steadyClock } from '../../packages/core/src/ports/clock.ts'
import { PATIENT } from '../harness/patient.ts'
import { redisOfFile } from '../harness/redis-of-file.ts'
import { startProxy, type TcpProxy } from '../harness/tcp-proxy.ts'

const SLEPT_MS = 20_000
const { server } = await redisOfFile()
let bus: TcpProxy

beforeAll(async () => {
  bus = await startProxy(server.port, server.host, { affects: 'subscribers' })
})
afterEach(() => bus.flow())
afterAll(() => bus.stop())

/** The clock of a machine that can be suspended. Only the clock stops. */
function suspendable(): { clock: Clock; suspend(ms: number): void } {
  let sleptMs = 0
  const now = steadyClock(
    () => performance.now(),
    () => Date.now() + sleptMs,
  )
  return {
    clock: { ...systemClock, now, wallNow: () => Date.now() + sleptMs },
    suspend(ms) {
      sleptMs += ms
      // Clocks are compared once a millisecond.
      const end = performance.now() + 2
      while (performance.now() < end);
    },
  }
}

function start(url: string, clock: Clock = systemClock) {
  const client = new Redis(url, { lazyConnect: true })
  const stampede = createStampede({ store: redisStore(client, PATIENT), clock })
  onTestFinished(() => stampede.close())
  return stampede
}

it('a process that was suspended serves no copy that was purged meanwhile', async () => {
  const { clock, suspend } = suspendable()
  const [asleep, awake] = [start(bus.url, clock), start(server.url)]
  const read = (value: string) =>
    asleep.getOrSet('price', () => Promise.resolve(value), { ttlMs: 600_000 })
  expect(await read('old')).toBe('old')
  await expect.poll(() => asleep.stats().l1.entries).toBe(1)
  bus.stall()
  await awake.purge({ key: 'price' })
  // This process has not received the purge. It may still serve the copy for some seconds.
  expect(await read('new')).toBe('old')
  suspend(SLEPT_MS)
  expect(await read('new')).toBe('new')
})

it('a lock holder that was suspended past its lease does not hold the lock', async () => {
  const { clock, suspend } = suspendable()
  const client = new Redis(server.url, { lazyConnect: true })
  const locks = createLocks({ store: redisStore(client, PATIENT), clock })
  onTestFinished(() => locks.close())
  const lease = await locks.acquire('job', { leaseMs: SLEPT_MS })
  expect(() => lease.assertHeld()).not.toThrow()
  suspend(SLEPT_MS)
  expect(() => lease.assertHeld()).toThrow(expect.objectContaining({ code: 'ERR_LOCK_LOST' }))
})
