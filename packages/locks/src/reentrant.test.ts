import { memoryStore } from '@stampede/core'
import { settled } from '@stampede/core/testing'
import { FaultyLocks, refused, UnevenClock } from '@stampede/testkit'
import { describe, expect, it } from 'vitest'
import { createLocks } from './create-locks.ts'
import { createReentrantLock } from './reentrant.ts'

function setUp() {
  const clock = new UnevenClock()
  const store = new FaultyLocks(memoryStore().locks)
  const locks = createLocks({ store: { locks: store }, clock, random: () => 0, leaseMs: 3_000 })
  return { clock, store, locks, lock: createReentrantLock(locks, 'job') }
}

describe('a re-entrant lock', () => {
  it('counts for its owner, and is released at zero', async () => {
    const { lock, store, locks } = setUp()
    const first = await lock.acquire('a')
    expect(await lock.acquire('a')).toBe(first)
    expect(await lock.acquire('a')).toBe(first)
    expect(store.take()).toEqual(['acquire job'])
    expect(await lock.release('a')).toBe(2)
    expect(await lock.release('a')).toBe(1)
    first.assertHeld()
    expect(await locks.tryAcquire('job')).toBeNull()
    expect(store.take()).toEqual([])
    expect(await lock.release('a')).toBe(0)
    expect(store.take()).toEqual(['release job'])
    expect(await locks.tryAcquire('job')).not.toBeNull()
  })

  it('keeps other owners out until then', async () => {
    const { lock } = setUp()
    const first = await lock.acquire('a')
    await lock.acquire('a')
    let entered = false
    const other = lock.acquire('b').then((lease) => {
      entered = true
      return lease
    })
    await lock.release('a')
    await settled()
    expect(entered).toBe(false)
    await lock.release('a')
    expect((await other).fence).toBeGreaterThan(first.fence)
    expect(await lock.release('b')).toBe(0)
  })

  it('asks the store once for two entries of one owner at the same time', async () => {
    const { lock, store } = setUp()
    const [one, two] = await Promise.all([lock.acquire('a'), lock.acquire('a')])
    expect(one).toBe(two)
    expect(store.take()).toEqual(['acquire job'])
    expect(await lock.release('a')).toBe(1)
    expect(await lock.release('a')).toBe(0)
  })

  it('counts an entry from the moment it is asked for, also while another is being left', async () => {
    const { lock } = setUp()
    await lock.acquire('a')
    const [again] = await Promise.all([lock.acquire('a'), lock.release('a')])
    await settled()
    again.assertHeld()
    expect(await lock.release('a')).toBe(0)
  })

  it('cannot be released by who does not have it', async () => {
    const { lock } = setUp()
    await lock.acquire('a')
    await expect(lock.release('b')).rejects.toMatchObject({
      code: 'ERR_LOCK_LOST',
      message: 'lock "job": owner "b" does not have it',
    })
    await lock.release('a')
    await expect(lock.release('a')).rejects.toMatchObject({ code: 'ERR_LOCK_LOST' })
  })

  it('forgets an owner whose lease was lost', async () => {
    const { lock, clock, store } = setUp()
    const lost = await lock.acquire('a')
    await lock.acquire('a')
    store.next('renew', async () => [false])
    await clock.advance(1_000)
    expect(lost.signal.aborted).toBe(true)
    await expect(lock.release('a')).rejects.toMatchObject({ code: 'ERR_LOCK_LOST' })
    await clock.advance(3_000)
    const fresh = await lock.acquire('a')
    expect(fresh.fence).toBeGreaterThan(lost.fence)
    expect(await lock.release('a')).toBe(0)
  })

  it('forgets an owner that could not have it', async () => {
    const { lock, store } = setUp()
    store.next('acquire', refused)
    const both = await Promise.allSettled([lock.acquire('a'), lock.acquire('a')])
    for (const each of both) {
      expect(each).toMatchObject({
        status: 'rejected',
        reason: { code: 'ERR_LOCK_UNAVAILABLE' },
      })
    }
    await lock.acquire('a')
    expect(await lock.release('a')).toBe(0)
  })
})
