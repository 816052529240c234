import { queryObjects } from 'node:v8'
import { memoryStore, StampedeError } from '@stampede/core'
import { ManualClock, settled } from '@stampede/core/testing'
import { Barrier, FaultyLocks, refused, unheard } from '@stampede/testkit'
import { describe, expect, it } from 'vitest'
import { Contender } from './contender.ts'
import { createLocks, type Locks } from './create-locks.ts'
import { Lease } from './lease.ts'
import type { AcquireOptions, LocksOptions } from './options.ts'

function setUp(options: Partial<LocksOptions> = {}) {
  const clock = new ManualClock()
  const store = new FaultyLocks(memoryStore().locks)
  const locks = createLocks({ store: { locks: store }, clock, ...options })
  const acquire = (given?: AcquireOptions) => locks.acquire('job', given)
  /** Takes and holds the lock as another process would. */
  const another = async (leaseMs = 10_000) => {
    const reply = await store.acquire('job', { token: 'another', leaseMs, queue: false })
    store.take()
    if (reply.status !== 'granted') throw new Error('it is busy')
    return { leave: () => store.release(reply.grant) }
  }
  return { clock, store, locks, acquire, another }
}

/** The error with which a promise rejects, or `'pending'` if that needs time. */
async function errorOf(promise: Promise<unknown>): Promise<unknown> {
  let outcome: unknown = 'pending'
  promise.then(
    () => {
      outcome = 'resolved'
    },
    (error: unknown) => {
      outcome = error
    },
  )
  await settled()
  return outcome
}

async function warningsOf(run: () => Promise<unknown>): Promise<string[]> {
  const warnings: string[] = []
  const onWarning = ({ name, message }: Error) => void warnings.push(`${name}: ${message}`)
  process.on('warning', onWarning)
  await run()
  await settled()
  process.off('warning', onWarning)
  return warnings
}

describe('a request for a lock whose reply is lost', () => {
  const asks = [
    ['acquire', (locks: Locks) => locks.acquire('job')],
    ['tryAcquire', (locks: Locks) => locks.tryAcquire('job')],
  ] as const

  it.each(asks)('leaves a free lock: %s', async (_, ask) => {
    const { store, locks } = setUp()
    store.next('acquire', unheard)
    await expect(ask(locks)).rejects.toMatchObject({ code: 'ERR_LOCK_UNAVAILABLE' })
    expect(store.calls).toEqual(['acquire job', 'release job'])
    expect(await locks.tryAcquire('job')).not.toBeNull()
  })

  it.each(asks)('is followed by four releases in two seconds: %s', async (_, ask) => {
    const { clock, store, locks } = setUp()
    store.next('acquire', unheard)
    for (let i = 0; i < 4; i++) store.next('release', unheard)
    await expect(ask(locks)).rejects.toMatchObject({ code: 'ERR_LOCK_UNAVAILABLE' })
    store.take()
    const sent: number[] = []
    for (let ms = 0; ms <= 3_000; ms += 100) {
      if (store.take().length > 0) sent.push(ms)
      await clock.advance(100)
    }
    expect(sent).toEqual([100, 500, 2_000])
    expect(clock.timers).toBe(0)
  })

  it('is followed by no release if the store refused it', async () => {
    const { clock, store, locks } = setUp()
    store.next('acquire', refused)
    await expect(locks.tryAcquire('job')).rejects.toMatchObject({ code: 'ERR_LOCK_UNAVAILABLE' })
    await clock.advance(3_000)
    expect(store.calls).toEqual(['acquire job'])
  })

  it('is released by close(), although the reply is lost during close()', async () => {
    const { store, locks } = setUp()
    const barrier = new Barrier()
    store.next('acquire', barrier.afterUnheard)
    const outcome = errorOf(locks.tryAcquire('job'))
    const closing = locks.close()
    barrier.open()
    await closing
    expect(await outcome).toMatchObject({ code: 'ERR_LOCK_UNAVAILABLE' })
    expect(store.calls).toEqual(['acquire job', 'release job'])
  })
})

describe('locks.acquire()', () => {
  it('has the key of the caller in leases and errors', async () => {
    const { locks, store } = setUp()
    const lease = await locks.acquire('nightly')
    expect(lease.key).toBe('nightly')
    expect(store.calls).toEqual(['acquire nightly'])
    await expect(locks.acquire('nightly', { waitMs: 0 })).rejects.toMatchObject({
      key: 'nightly',
      message: 'lock "nightly" is held by another owner; retry, or pass waitMs',
    })
  })

  it('serves waiters in the order of their calls', async () => {
    const { acquire } = setUp()
    const order: number[] = []
    const holder = await acquire()
    const waiting = [1, 2, 3, 4].map(async (n) => {
      const lease = await acquire()
      order.push(n)
      await lease.release()
    })
    await settled()
    expect(order).toEqual([])
    await holder.release()
    await Promise.all(waiting)
    expect(order).toEqual([1, 2, 3, 4])
  })

  it('does not wait if waitMs is 0', async () => {
    const { acquire, store } = setUp()
    await acquire()
    await expect(acquire({ waitMs: 0 })).rejects.toMatchObject({
      name: 'LockError',
      code: 'ERR_LOCK_BUSY',
    })
    await expect(acquire({ waitMs: 0 })).rejects.toBeInstanceOf(StampedeError)
    expect(store.calls.filter((call) => call.startsWith('acquire'))).toHaveLength(1)
  })

  it('gives up after waitMs and leaves the lock queue', async () => {
    const { acquire, another, clock, store } = setUp()
    const other = await another()
    const waiting = errorOf(acquire({ waitMs: 1 }))
    expect(await waiting).toBe('pending')
    const timed = acquire({ waitMs: 2_000 })
    timed.catch(() => {})
    await clock.advance(1_999)
    expect(await errorOf(timed)).toBe('pending')
    await clock.advance(1)
    await expect(timed).rejects.toMatchObject({
      code: 'ERR_LOCK_WAIT_TIMEOUT',
      message: 'lock "job" was not free within waitMs (2000); retry, or raise waitMs',
    })
    expect(store.calls.at(-1)).toBe('leave job')
    await other.leave()
    expect((await acquire({ waitMs: 0 })).remainingMs()).toBeGreaterThan(0)
  })

  it('waits without a limit if waitMs is Infinity', async () => {
    const { acquire, clock } = setUp({ maxHoldMs: 10 * 24 * 3_600_000 })
    const holder = await acquire()
    const waiting = acquire({ waitMs: Number.POSITIVE_INFINITY })
    await clock.advance(3_600_000)
    expect(await errorOf(waiting)).toBe('pending')
    await holder.release()
    await waiting
  })

  it('rejects all waiters with the error of the store if the store is unavailable', async () => {
    const { acquire, another, clock, store, locks } = setUp()
    await another(1_000)
    const waiting = [acquire(), acquire(), acquire()]
    const outcomes = Promise.allSettled(waiting)
    await settled()
    store.always = refused
    await clock.advance(2_000)
    for (const outcome of await outcomes) {
      expect(outcome).toMatchObject({
        status: 'rejected',
        reason: {
          code: 'ERR_LOCK_UNAVAILABLE',
          key: 'job',
          message: 'lock "job" is unavailable: the store is away',
          cause: { message: 'the store is away' },
        },
      })
    }
    await expect(locks.tryAcquire('job')).rejects.toMatchObject({ code: 'ERR_LOCK_UNAVAILABLE' })
    store.always = undefined
    await (await acquire()).release()
  })
})

describe('an abort of locks.acquire()', () => {
  it('prevents every command if the signal was aborted before the call', async () => {
    const { acquire, store } = setUp()
    const signal = AbortSignal.abort(new Error('no need'))
    await expect(acquire({ signal })).rejects.toMatchObject({
      code: 'ERR_LOCK_ABORTED',
      cause: { message: 'no need' },
    })
    expect(store.calls).toEqual([])
  })

  it('ends a wait at once, and the next waiter gets the lock', async () => {
    const { acquire } = setUp()
    const holder = await acquire()
    const abort = new AbortController()
    const impatient = acquire({ signal: abort.signal })
    impatient.catch(() => {})
    const patient = acquire()
    await settled()
    abort.abort(new Error('no time'))
    expect(await errorOf(impatient)).toMatchObject({ code: 'ERR_LOCK_ABORTED', key: 'job' })
    await holder.release()
    await (await patient).release()
  })
})

describe('one abort signal', () => {
  it('can end any number of waits without a MaxListenersExceededWarning', async () => {
    const { locks } = setUp()
    const shutdown = new AbortController()
    const { signal } = shutdown
    const warnings = await warningsOf(async () => {
      for (let i = 0; i < 30; i++) await locks.acquire(`key ${i}`)
      const waiting = Array.from({ length: 30 }, (_, i) => locks.acquire(`key ${i}`, { signal }))
      const outcomes = Promise.allSettled(waiting)
      await settled()
      shutdown.abort()
      for (const outcome of await outcomes) {
        expect(outcome).toMatchObject({ reason: { code: 'ERR_LOCK_ABORTED' } })
      }
    })
    expect(warnings).toEqual([])
  })
})

describe('locks.tryAcquire()', () => {
  it('gives a lease, or null if another process holds the lock', async () => {
    const { locks, another } = setUp()
    const lease = await locks.tryAcquire('job', { leaseMs: 500 })
    expect(lease?.remainingMs()).toBe(500 - 7)
    expect(await lease?.release()).toBe('released')
    const other = await another()
    expect(await locks.tryAcquire('job')).toBeNull()
    await other.leave()
    expect(await locks.tryAcquire('job')).not.toBeNull()
  })

  it('returns null without a command while other callers of this process wait', async () => {
    const { locks, acquire, another, store } = setUp()
    const other = await another()
    const waiting = acquire()
    await settled()
    store.take()
    expect(await locks.tryAcquire('job')).toBeNull()
    expect(store.take()).toEqual([])
    await other.leave()
    await (await waiting).release()
  })

  it('does not overtake waiters of this process', async () => {
    const { locks, acquire, another, clock } = setUp()
    await another(1_000)
    const waiting = acquire()
    await settled()
    await clock.advance(1_002)
    expect(await errorOf(waiting)).toBe('pending')
    expect(await locks.tryAcquire('job')).toBeNull()
    await clock.advance(100)
    await (await waiting).release()
  })
})

describe('the renewal of a lease', () => {
  it('is sent at each third of the lease', async () => {
    const { acquire, clock, store } = setUp()
    const lease = await acquire({ leaseMs: 3_000 })
    store.take()
    const renewedAt: number[] = []
    for (let ms = 0; ms < 10_000; ms += 100) {
      if (store.take().includes('renew job')) renewedAt.push(ms)
      await clock.advance(100)
    }
    expect(renewedAt).toEqual([1_000, 2_000, 3_000, 4_000, 5_000, 6_000, 7_000, 8_000, 9_000])
    expect(lease.signal.aborted).toBe(false)
    expect(await lease.release()).toBe('released')
  })

  it('stops at maxHoldMs, and the lease then ends', async () => {
    const { acquire, clock, store } = setUp({ leaseMs: 3_000, maxHoldMs: 5_000 })
    const lease = await acquire()
    await clock.advance(5_000)
    expect(lease.signal.aborted).toBe(false)
    await clock.advance(3_000)
    expect(lease.signal.aborted).toBe(true)
    store.take()
    await clock.advance(10_000)
    expect(store.take()).toEqual([])
    expect(await lease.release()).toBe('lost')
  })

  it('does not delay the end of the lease if its reply never comes', async () => {
    const { acquire, clock, store } = setUp({ leaseMs: 3_000 })
    const lease = await acquire()
    store.always = () => new Promise(() => {})
    await clock.advance(2_918)
    expect(lease.signal.aborted).toBe(true)
    expect(() => lease.assertHeld()).toThrow(
      'lock "job" is no longer held: its lease could not be renewed before it ended',
    )
  })

  it('does not revive the lease if its reply comes after the end of the lease', async () => {
    const { acquire, clock, store } = setUp({ leaseMs: 3_000 })
    const lease = await acquire()
    const barrier = new Barrier()
    store.always = barrier.after
    await clock.advance(2_950)
    expect(lease.signal.aborted).toBe(true)
    barrier.open()
    store.always = undefined
    await settled()
    expect(lease.remainingMs()).toBe(0)
    expect(await lease.release()).toBe('lost')
  })

  it('extends the lease from the sending of the renewal, not from the reply', async () => {
    const { acquire, clock, store } = setUp({ leaseMs: 3_000 })
    const lease = await acquire()
    const barrier = new Barrier()
    store.next('renew', barrier.after)
    await clock.advance(1_000)
    clock.stall(60_000)
    barrier.open()
    await settled()
    expect(() => lease.assertHeld()).toThrow(expect.objectContaining({ code: 'ERR_LOCK_LOST' }))
  })

  it('ends the lease at once if the store refuses the renewal', async () => {
    const { acquire, clock, store } = setUp({ leaseMs: 3_000 })
    const lease = await acquire()
    store.next('renew', async () => [false])
    await clock.advance(1_000)
    expect(lease.signal.reason).toMatchObject({
      code: 'ERR_LOCK_LOST',
      message: 'lock "job" is no longer held: the store no longer has this lease',
    })
    expect(await lease.release()).toBe('lost')
  })

  it('can be requested with lease.renew(), which returns false after a loss', async () => {
    const { acquire, clock, store } = setUp({ leaseMs: 3_000 })
    const lease = await acquire()
    await clock.advance(900)
    expect(await lease.renew()).toBe(true)
    expect(lease.remainingMs()).toBe(3_000 - 32)
    store.next('renew', refused)
    await lease.renew()
    expect(lease.signal.aborted).toBe(false)
    store.next('renew', async () => [false])
    expect(await lease.renew()).toBe(false)
    expect(lease.signal.aborted).toBe(true)
  })
})

describe('lease.release()', () => {
  it.each([
    ['before', 'before'],
    ['after', 'after'],
  ] as const)(
    'ends the lease even if a running renewal reaches the store %s the release',
    async (_, order) => {
      const { acquire, clock, store, locks } = setUp({ leaseMs: 3_000 })
      const lease = await acquire()
      const barrier = new Barrier()
      store.next('renew', barrier[order])
      await clock.advance(1_000)
      expect(await lease.release()).toBe('released')
      barrier.open()
      await settled()
      expect(lease.signal.reason).toMatchObject({
        message: 'lock "job" is no longer held: it was released',
      })
      expect(lease.remainingMs()).toBe(0)
      const next = await locks.tryAcquire('job')
      expect(next?.fence).toBeGreaterThan(lease.fence)
      await next?.release()
      store.take()
      await clock.advance(10_000)
      expect(store.take()).toEqual([])
      expect(clock.timers).toBe(0)
    },
  )

  it('never rejects, and returns unknown if the store fails', async () => {
    const { acquire, store, locks } = setUp()
    const lease = await acquire()
    store.next('release', refused)
    expect(await lease.release()).toBe('unknown')
    expect(lease.remainingMs()).toBe(0)
    const tried = await setUp().locks.tryAcquire('job')
    expect(await tried?.release()).toBe('released')
    store.next('acquire', refused)
    await expect(locks.tryAcquire('job')).rejects.toMatchObject({ code: 'ERR_LOCK_UNAVAILABLE' })
  })
})

describe('locks.run()', () => {
  it('holds the lock while the function runs, and returns its result', async () => {
    const { locks } = setUp()
    const result = await locks.run('job', async (lease) => {
      expect(lease.key).toBe('job')
      expect(await locks.tryAcquire('job')).toBeNull()
      return 42
    })
    expect(result).toBe(42)
    expect(await locks.tryAcquire('job')).not.toBeNull()
  })

  it('rejects with the error of the function, even if the release fails', async () => {
    const { locks, store } = setUp()
    store.next('release', refused)
    const failure = new Error('the job failed')
    const run = locks.run('job', () => {
      throw failure
    })
    await expect(run).rejects.toBe(failure)
  })

  it('rejects with ERR_LOCK_LOST and the result if the function goes on after the loss', async () => {
    const { locks, clock, store } = setUp()
    const run = locks.run('job', async (lease) => {
      store.always = refused
      await clock.advance(20_000)
      expect(lease.signal.aborted).toBe(true)
      return 'too late'
    })
    await expect(run).rejects.toMatchObject({
      code: 'ERR_LOCK_LOST',
      key: 'job',
      result: 'too late',
    })
  })

  it('rejects with ERR_LOCK_LOST if the function blocked the event loop until the lease ended', async () => {
    const { locks, clock } = setUp()
    const run = locks.run('job', () => {
      clock.stall(20_000)
      return 'too late'
    })
    await expect(run).rejects.toMatchObject({ code: 'ERR_LOCK_LOST', result: 'too late' })
  })

  it('returns the result of a function that released its lease itself', async () => {
    const { locks } = setUp()
    const result = await locks.run('job', async (lease) => {
      expect(await lease.release()).toBe('released')
      return 'done'
    })
    expect(result).toBe('done')
  })

  it('does not call the function if the lock is busy', async () => {
    const { locks, another } = setUp()
    await another()
    let called = false
    const run = locks.run('job', { waitMs: 0 }, () => {
      called = true
    })
    await expect(run).rejects.toMatchObject({ code: 'ERR_LOCK_BUSY' })
    expect(called).toBe(false)
  })
})

describe('await using with a lease', () => {
  it('releases the lease at the end of the block, and keeps the error of the block', async () => {
    const { acquire, store, locks } = setUp()
    const block = async (): Promise<string> => {
      await using lease = await acquire()
      lease.assertHeld()
      return 'done'
    }
    expect(await block()).toBe('done')
    expect(store.take()).toEqual(['acquire job', 'release job'])
    store.next('release', refused)
    const failing = async () => {
      await using lease = await acquire()
      lease.assertHeld()
      throw new Error('of the block')
    }
    await expect(failing()).rejects.toThrow('of the block')
    expect(await locks.tryAcquire('job')).toBeNull()
  })
})

describe('locks.acquire() with the option within', () => {
  it('gives a nested lease without a command to the store', async () => {
    const { acquire, store } = setUp()
    const outer = await acquire()
    store.take()
    const inner = await acquire({ within: outer })
    expect(inner.fence).toBe(outer.fence)
    await inner.release()
    outer.assertHeld()
    expect(store.take()).toEqual([])
  })

  it('waits for at most waitMs while another caller has a nested lease', async () => {
    const { acquire, clock } = setUp()
    const outer = await acquire()
    await acquire({ within: outer })
    const waiting = acquire({ within: outer, waitMs: 1_000 })
    waiting.catch(() => {})
    await clock.advance(1_000)
    expect(await errorOf(waiting)).toMatchObject({ code: 'ERR_LOCK_WAIT_TIMEOUT' })
    const impatient = acquire({ within: outer, waitMs: 0 })
    impatient.catch(() => {})
    expect(await errorOf(impatient)).toMatchObject({ code: 'ERR_LOCK_BUSY' })
  })

  it('causes no MaxListenersExceededWarning for any number of waiters', async () => {
    const { acquire } = setUp()
    const outer = await acquire()
    const enter = async () => {
      await using lease = await acquire({ within: outer })
      await settled()
      lease.assertHeld()
    }
    expect(await warningsOf(() => Promise.all(Array.from({ length: 30 }, enter)))).toEqual([])
  })
})

describe('locks.close()', () => {
  it('rejects waiters and later callers with ERR_LOCK_ABORTED', async () => {
    const { acquire, another, locks } = setUp()
    await another()
    const waiting = [acquire(), acquire()]
    const outcomes = Promise.allSettled(waiting)
    await settled()
    await locks.close()
    await locks.close()
    for (const outcome of await outcomes) {
      expect(outcome).toMatchObject({
        status: 'rejected',
        reason: {
          code: 'ERR_LOCK_ABORTED',
          key: 'job',
          cause: { message: 'the locks were closed' },
        },
      })
    }
    await expect(acquire()).rejects.toMatchObject({ code: 'ERR_LOCK_ABORTED' })
    await expect(locks.tryAcquire('job')).rejects.toMatchObject({ code: 'ERR_LOCK_ABORTED' })
  })

  it('releases all held leases', async () => {
    const { locks, store, clock } = setUp()
    const leases = [await locks.acquire('a'), await locks.tryAcquire('b')]
    store.take()
    await locks.close()
    expect(store.take().sort()).toEqual(['release a', 'release b'])
    for (const lease of leases) {
      expect(lease?.signal.aborted).toBe(true)
      expect(await lease?.release()).toBe('released')
    }
    expect(store.take()).toEqual([])
    await clock.advance(20_000)
    expect(store.take()).toEqual([])
  })

  it.each(['acquire', 'tryAcquire'] as const)(
    'waits for a running %s, and releases the lock that the call was granted',
    async (method) => {
      const { locks, store } = setUp()
      const barrier = new Barrier()
      store.next('acquire', barrier.after)
      const asked = locks[method]('job').catch((error: unknown) => error)
      await settled()
      const order: string[] = []
      const closed = locks.close().then(() => order.push('closed'))
      await settled()
      expect(order).toEqual([])
      barrier.open()
      await closed
      const outcome = await asked
      if (outcome instanceof Lease) expect(outcome.remainingMs()).toBe(0)
      else expect(outcome).toMatchObject({ code: 'ERR_LOCK_ABORTED' })
      expect(store.calls).toEqual(['acquire job', 'release job'])
    },
  )
})

describe('a lock store that never replies', () => {
  const never = () => new Promise<never>(() => {})
  const BUDGET_MS = 5_000
  const unavailable = { code: 'ERR_LOCK_UNAVAILABLE' }
  /** Its error is looked at later. */
  const handled = <T>(promise: Promise<T>): Promise<T> => {
    promise.catch(() => {})
    return promise
  }

  it('lets acquire() and tryAcquire() reject after 5 s, and close() end', async () => {
    const { clock, store, locks } = setUp()
    store.always = never
    const all = [locks.acquire('a'), locks.tryAcquire('b')]
    await clock.advance(BUDGET_MS - 1)
    expect(await Promise.all(all.map(errorOf))).toEqual(['pending', 'pending'])
    await clock.advance(1)
    for (const each of all) expect(await errorOf(each)).toMatchObject(unavailable)
    const closed = locks.close()
    await clock.advance(BUDGET_MS)
    expect(await errorOf(closed)).toBe('resolved')
    await clock.advance(60_000)
    expect(clock.timers).toBe(0)
  })

  it.each(['acquire', 'tryAcquire'] as const)(
    'frees the lock that a late reply grants: %s',
    async (method) => {
      const { clock, store, locks } = setUp()
      const barrier = new Barrier()
      store.next('acquire', barrier.before)
      const asked = handled<unknown>(locks[method]('job'))
      await clock.advance(2 * BUDGET_MS)
      expect(await errorOf(asked)).toMatchObject(unavailable)
      barrier.open()
      await settled()
      expect(await locks.tryAcquire('job')).not.toBeNull()
    },
  )

  it('is not bounded if it has a time budget of its own', async () => {
    const clock = new ManualClock()
    const store = new FaultyLocks(memoryStore().locks)
    store.always = never
    const locks = createLocks({ store: { locks: store, hasTimeBudget: true }, clock })
    const asked = locks.tryAcquire('job')
    await clock.advance(60_000)
    expect(await errorOf(asked)).toBe('pending')
  })
})

describe('a waiter for a lock', () => {
  it('sends acquire again if messages of the store may have been lost', async () => {
    const { acquire, another, store } = setUp()
    await another()
    const waiting = acquire()
    waiting.catch(() => {})
    await settled()
    store.take()
    store.hooks.onGap()
    await settled()
    expect(store.take()).toEqual(['acquire job'])
    store.hooks.onLost()
    await settled()
    expect(store.take()).toEqual(['acquire job'])
  })

  it('gets the lock of a silent holder when the lease ends, without a message', async () => {
    const { acquire, another, clock } = setUp()
    await another(1_000)
    const waiting = acquire()
    await clock.advance(1_004)
    expect(await errorOf(waiting)).toBe('pending')
    await clock.advance(1)
    expect((await waiting).remainingMs()).toBeGreaterThan(0)
  })
})

const alive = (each: Parameters<typeof queryObjects>[0]) => queryObjects(each, { format: 'count' })

describe('createLocks()', () => {
  it('keeps no memory of a thousand keys that were locked, waited for, given up or lost', async () => {
    const { locks, clock, store } = setUp({ leaseMs: 1_000 })
    const [contenders, leases] = [alive(Contender), alive(Lease)]
    const use = async (i: number) => {
      const key = `key ${i}`
      const lease = await locks.acquire(key)
      const abort = new AbortController()
      const waiting = [
        locks.acquire(key, { signal: abort.signal }).catch(() => {}),
        locks.acquire(key, { waitMs: 5 }).catch(() => {}),
        locks.run(key, { waitMs: 2_000 }, () => {}).catch(() => {}),
        locks.tryAcquire(key),
      ]
      await clock.advance(6)
      abort.abort()
      if (i % 3 === 0) store.next('release', refused)
      if (i % 3 === 1) lease.nest()
      await lease.release()
      await clock.advance(1_100)
      await Promise.all(waiting)
    }
    for (let i = 0; i < 100; i++) await use(i)
    await Promise.all(
      Array.from({ length: 900 }, async (_, i) => (await locks.tryAcquire(`try ${i}`))?.release()),
    )
    await clock.advance(10_000)
    expect(clock.timers).toBe(0)
    // Objects of earlier tests may be collected meanwhile: fewer is right, more is a leak.
    expect(alive(Contender)).toBeLessThanOrEqual(contenders)
    expect(alive(Lease)).toBeLessThanOrEqual(leases)
  })
})
