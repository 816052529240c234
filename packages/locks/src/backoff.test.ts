import { memoryStore } from '@stampede/core'
import { ManualClock, settled } from '@stampede/core/testing'
import { FaultyLocks } from '@stampede/testkit'
import { describe, expect, it } from 'vitest'
import { backoffMs } from './backoff.ts'
import { createLocks } from './create-locks.ts'
import type { AcquireOptions } from './options.ts'

describe('the back-off of polling', () => {
  it('doubles from 1 to 128 ms', () => {
    const most = Array.from({ length: 10 }, (_, attempt) => backoffMs(attempt, 1))
    expect(most).toEqual([1, 2, 4, 8, 16, 32, 64, 128, 128, 128])
    expect(backoffMs(10_000, 1)).toBe(128)
  })

  it('is a random part of the doubled pause, at least 1 ms', () => {
    expect(backoffMs(7, 0.25)).toBe(32)
    expect(backoffMs(7, 0)).toBe(1)
  })
})

describe('waiting by polling', () => {
  function setUp() {
    const clock = new ManualClock(() => 1)
    const store = new FaultyLocks(memoryStore().locks)
    const locks = createLocks({ store: { locks: store }, clock, wait: 'poll' })
    const acquire = (options?: AcquireOptions) => locks.acquire('job', options)
    return { clock, store, locks, acquire }
  }

  it('tries again with growing pauses until the lock is free', async () => {
    const { clock, store, acquire } = setUp()
    const holder = await acquire()
    store.take()
    const waiting = acquire()
    const asked: number[] = []
    for (let ms = 0; ms < 400; ms++) {
      if (store.take().length > 0) asked.push(ms)
      await clock.advance(1)
    }
    expect(asked).toEqual([0, 1, 3, 7, 15, 31, 63, 127, 255, 383])
    await holder.release()
    await clock.advance(128)
    expect((await waiting).fence).toBeGreaterThan(holder.fence)
  })

  it('gives up after waitMs, with a last attempt at the end', async () => {
    const { clock, store, acquire } = setUp()
    await acquire({ leaseMs: 10_000 })
    const outcome = acquire({ waitMs: 100 }).catch((error: unknown) => error)
    await clock.advance(99)
    store.take()
    await clock.advance(1)
    expect(store.take()).toContain('acquire job')
    expect(await outcome).toMatchObject({ code: 'ERR_LOCK_WAIT_TIMEOUT', key: 'job' })
    const asked = store.calls.length
    await clock.advance(1_000)
    expect(store.calls.filter((call) => call.startsWith('acquire'))).toHaveLength(asked)
  })

  it('ends at once if it is aborted', async () => {
    const { clock, acquire } = setUp()
    await acquire()
    const abort = new AbortController()
    const outcome = acquire({ signal: abort.signal }).catch((error: unknown) => error)
    await clock.advance(300)
    abort.abort(new Error('shutting down'))
    expect(await outcome).toMatchObject({
      code: 'ERR_LOCK_ABORTED',
      cause: { message: 'shutting down' },
    })
    await settled()
  })

  it('does not put the process into the lock queue', async () => {
    const { clock, store, locks, acquire } = setUp()
    const holder = await acquire()
    const abort = new AbortController()
    const outcome = acquire({ signal: abort.signal }).catch(() => {})
    await clock.advance(10)
    abort.abort()
    await outcome
    await holder.release()
    expect(store.calls.filter((call) => call.startsWith('leave'))).toEqual([])
    expect(await locks.tryAcquire('job')).not.toBeNull()
  })
})
