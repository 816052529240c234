import { memoryStore } from '@stampede/core'
import { ManualClock, settled } from '@stampede/core/testing'
import { FaultyLocks, refused } from '@stampede/testkit'
import { describe, expect, it } from 'vitest'
import { createLocks } from './create-locks.ts'
import { createReentrantLock } from './reentrant.ts'

function setUp() {
  const clock = new ManualClock()
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

  it('is held once when two calls of one owner take it after the lease was lost', async () => {
    const { lock, locks, clock, store } = setUp()
    await lock.acquire('a')
    store.next('renew', async () => [false])
    await clock.advance(1_000)
    const both = Promise.all([lock.acquire('a'), lock.acquire('a', { waitMs: 5_000 })])
    await clock.advance(3_000)
    const [one, two] = await both
    expect(one).toBe(two)
    expect(await lock.release('a')).toBe(1)
    expect(await lock.release('a')).toBe(0)
    expect(await locks.tryAcquire('job')).not.toBeNull()
  })

  it('fails one call whose signal aborts, and the other goes on waiting', async () => {
    const { lock, locks } = setUp()
    const holder = await locks.acquire('job')
    const [first, second] = [new AbortController(), new AbortController()]
    const one = lock.acquire('a', { signal: first.signal })
    const two = lock.acquire('a', { signal: second.signal })
    const refusedOne = expect(one).rejects.toMatchObject({ code: 'ERR_LOCK_ABORTED' })
    await settled()
    first.abort()
    await refusedOne
    await holder.release()
    const lease = await two
    second.abort()
    lease.assertHeld()
    expect(await lock.release('a')).toBe(0)
  })

  it('lets each call wait for its own waitMs', async () => {
    const { lock, locks, clock } = setUp()
    const holder = await locks.acquire('job')
    const log: string[] = []
    const note = (name: string, call: Promise<unknown>) =>
      call.then(
        () => log.push(`${name} got it`),
        ({ code }) => log.push(`${name} ${code}`),
      )
    const calls = [
      note('first', lock.acquire('a', { waitMs: 500 })),
      note('second', lock.acquire('a', { waitMs: 2_000 })),
      note('third', lock.acquire('a', { waitMs: 0 })),
    ]
    await settled()
    expect(log).toEqual(['third ERR_LOCK_BUSY'])
    await clock.advance(600)
    expect(log.splice(0)).toEqual(['third ERR_LOCK_BUSY', 'first ERR_LOCK_WAIT_TIMEOUT'])
    await holder.release()
    await Promise.all(calls)
    expect(log).toEqual(['second got it'])
    expect(await lock.release('a')).toBe(0)
  })

  it('shares the lock between calls that do not wait', async () => {
    const { lock } = setUp()
    const both = [lock.acquire('a', { waitMs: 0 }), lock.acquire('a', { waitMs: 0 })]
    const [one, two] = await Promise.all(both)
    expect(one).toBe(two)
    expect(await lock.release('a')).toBe(1)
    expect(await lock.release('a')).toBe(0)
  })

  it('rejects a re-entry whose signal is aborted already, and does not count it', async () => {
    const { lock } = setUp()
    await lock.acquire('a')
    const again = lock.acquire('a', { signal: AbortSignal.abort() })
    await expect(again).rejects.toMatchObject({ code: 'ERR_LOCK_ABORTED' })
    expect(await lock.release('a')).toBe(0)
  })

  it('does not count a call that was aborted in the moment in which another got the lock', async () => {
    const { locks } = setUp()
    const late = new AbortController()
    const meanwhile = {
      ...locks,
      async acquire(...args: Parameters<typeof locks.acquire>) {
        const lease = await locks.acquire(...args)
        late.abort()
        return lease
      },
    }
    const lock = createReentrantLock(meanwhile, 'job')
    const one = lock.acquire('a')
    const two = lock.acquire('a', { signal: late.signal })
    await expect(two).rejects.toMatchObject({ code: 'ERR_LOCK_ABORTED' })
    await one
    expect(await lock.release('a')).toBe(0)
  })
})
