// Races between calls, replies and messages. Each step of the store is scripted by the test.

import type { Grant, LockStore } from '@stampede/core/store'
import { ManualClock, settled } from '@stampede/core/testing'
import { describe, expect, it } from 'vitest'
import { createLocks } from './create-locks.ts'
import type { Lease } from './lease.ts'

type LockReply = Awaited<ReturnType<LockStore['acquire']>>
type LockRequest = Parameters<LockStore['acquire']>[1]

type LockHooks = Parameters<LockStore['attach']>[0]
type LockRelease = Awaited<ReturnType<LockStore['release']>>

interface Call {
  readonly text: string
  readonly request?: LockRequest
  readonly grant?: Grant
  readonly next?: { token: string; leaseMs: number } | undefined
  answer(reply: unknown): void
  fail(error: Error): void
}

class ScriptedLocks implements LockStore {
  readonly name = 'scripted'
  readonly calls: Call[] = []
  hooks!: LockHooks

  attach(hooks: LockHooks): void {
    this.hooks = hooks
  }

  acquire(_key: string, request: LockRequest): Promise<LockReply> {
    return this.#call({ text: 'acquire', request })
  }

  renew(): Promise<boolean[]> {
    return this.#call({ text: 'renew' })
  }

  release(grant: Grant, next?: { token: string; leaseMs: number }): Promise<LockRelease> {
    const text = next === undefined ? 'release' : 'release and queue'
    return this.#call({ text, grant, next })
  }

  leave(): Promise<void> {
    return this.#call({ text: 'leave' })
  }

  async close(): Promise<void> {}

  /** Returns the calls since this method was last called. */
  take(): string[] {
    const texts = this.calls.slice(this.#taken).map(({ text }) => text)
    this.#taken = this.calls.length
    return texts
  }
  #taken = 0

  #call<T>(call: Omit<Call, 'answer' | 'fail'>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.calls.push({ ...call, answer: (reply) => resolve(reply as T), fail: reject })
    })
  }
}

function setUp() {
  const clock = new ManualClock()
  const store = new ScriptedLocks()
  const locks = createLocks({ store: { locks: store }, clock, leaseMs: 3_000 })
  let fence = 100
  const granted = (token: string): Grant => ({ key: 'job', token, fence: String(++fence) })
  const last = (): Call => {
    const call = store.calls.at(-1)
    if (call === undefined) throw new Error('nothing was asked')
    return call
  }
  const tokenOf = (call: Call): string => call.request?.token ?? call.next?.token ?? ''
  const reply = async (call: Call, answer: unknown) => {
    call.answer(answer)
    await settled()
  }
  const busy = (call: Call, forMs = 3_000) => reply(call, { status: 'busy', forMs })
  const grantBy = async (call: Call, forMs = 3_000): Promise<Grant> => {
    const grant = granted(tokenOf(call))
    await reply(call, { status: 'granted', grant, forMs })
    return grant
  }
  const wait = () => {
    const waiter: { lease?: Lease; error?: unknown } = {}
    const promise = locks.acquire('job', { waitMs: 100_000 })
    promise.then(
      (lease) => {
        waiter.lease = lease
      },
      (error: unknown) => {
        waiter.error = error
      },
    )
    return waiter
  }
  /** A waiter that got the lock. */
  const hold = async () => {
    const waiter = wait()
    await grantBy(last())
    return waiter
  }
  /** A waiter that gives up when the test calls the function. */
  const waitUntilAbort = () => {
    const abort = new AbortController()
    const ended = locks.acquire('job', { signal: abort.signal }).catch(() => {})
    return () => {
      abort.abort()
      return ended
    }
  }
  /** Releases a lease, and returns the command that was sent. */
  const release = ({ lease }: { lease?: Lease }): Call => {
    void lease?.release()
    return last()
  }
  /** The process is suspended until the lease is over. */
  const lose = ({ lease }: { lease?: Lease }): void => {
    clock.stall(3_100)
    expect(() => lease?.assertHeld()).toThrow()
  }
  const more = { hold, waitUntilAbort, release, lose }
  return { store, locks, clock, granted, last, tokenOf, reply, busy, grantBy, wait, ...more }
}

describe('a busy reply to acquire', () => {
  it('makes the process send acquire again at once if messages may have been lost meanwhile', async () => {
    const { store, clock, last, busy, wait } = setUp()
    wait()
    const asked = last()
    store.take()
    store.hooks.onGap()
    await busy(asked)
    expect(store.take()).toEqual(['acquire'])
    await busy(last())
    expect(store.take()).toEqual([])
    expect(clock.timers).toBeGreaterThan(0)
  })
})

describe('a grant to this process', () => {
  it('lasts no longer than the requested lease even if its message states a longer time', async () => {
    const { store, granted, last, tokenOf, busy, wait } = setUp()
    const first = wait()
    await busy(last())
    store.hooks.onGrant(granted(tokenOf(last())), 60_000)
    await settled()
    expect(first.lease?.remainingMs()).toBeGreaterThan(0)
    expect(first.lease?.remainingMs()).toBeLessThanOrEqual(last().request?.leaseMs ?? 0)
  })

  it('lasts no longer than the requested lease even if the reply states a longer time', async () => {
    const { last, grantBy, wait } = setUp()
    const first = wait()
    await grantBy(last(), 60_000)
    expect(first.lease?.remainingMs()).toBeGreaterThan(0)
    expect(first.lease?.remainingMs()).toBeLessThanOrEqual(last().request?.leaseMs ?? 0)
  })

  it('gives one lease if both the reply to `release and queue` and a message report it', async () => {
    const { store, granted, last, tokenOf, reply, wait, hold } = setUp()
    const first = await hold()
    const second = wait()
    void first.lease?.release()
    const grant = granted(tokenOf(last()))
    await reply(last(), { status: 'released', granted: { grant, forMs: 2_000 } })
    expect(second.lease?.fence).toBe(BigInt(grant.fence))
    store.take()
    store.hooks.onGrant(grant, 2_000)
    await settled()
    expect(store.take()).toEqual([])
  })

  it('reaches its waiter even if the message arrives before the busy reply to acquire', async () => {
    const { store, granted, last, tokenOf, busy, wait } = setUp()
    const first = wait()
    const asked = last()
    const grant = granted(tokenOf(asked))
    store.hooks.onGrant(grant, 2_000)
    await busy(asked)
    expect(store.take()).toEqual(['acquire'])
    expect(first.lease?.fence).toBe(BigInt(grant.fence))
  })

  it('reaches its waiter even if the message arrives before the reply to `release and queue`', async () => {
    const { store, granted, last, tokenOf, reply, wait, hold, release } = setUp()
    const first = await hold()
    const second = wait()
    const releasing = release(first)
    expect(releasing.text).toBe('release and queue')
    const grant = granted(tokenOf(releasing))
    store.take()
    store.hooks.onGrant(grant, 2_000)
    await settled()
    expect(store.take()).toEqual([])
    await reply(releasing, { status: 'released' })
    // The waiter gets it from the message, or by a repeated acquire under the same token. Both are
    // right.
    if (second.lease === undefined) {
      expect(store.take()).toEqual(['acquire'])
      expect(tokenOf(last())).toBe(grant.token)
      await reply(last(), { status: 'granted', grant, forMs: 1_999 })
    }
    expect(second.lease?.fence).toBe(BigInt(grant.fence))
  })

  it('is released with one command if its only waiter has given up', async () => {
    const { store, granted, last, tokenOf, busy, waitUntilAbort } = setUp()
    const giveUp = waitUntilAbort()
    const asked = last()
    await busy(asked)
    await giveUp()
    store.take()
    const grant = granted(tokenOf(asked))
    store.hooks.onGrant(grant, 2_000)
    await settled()
    expect(store.take()).toEqual(['release'])
    expect(last().grant).toEqual(grant)
  })

  it('is released if its token is unknown to this process', async () => {
    const { store, granted, last } = setUp()
    const grant = granted('unknown')
    store.hooks.onGrant(grant, 2_000)
    expect(store.take()).toEqual(['release'])
    expect(last().grant).toEqual(grant)
    last().fail(new Error('the store is away'))
    await settled()
  })

  it('is not used if its message arrives after the end of the lease, and the waiter tries again', async () => {
    const { store, granted, last, tokenOf, busy, wait } = setUp()
    const first = wait()
    await busy(last())
    store.take()
    store.hooks.onGrant(granted(tokenOf(last())), -500)
    await settled()
    expect(first).toEqual({})
    expect(store.take()).toContain('acquire')
  })

  it('is given back if it is for the token of an acquire that failed', async () => {
    const { store, granted, last, tokenOf, wait } = setUp()
    const first = wait()
    const failed = last()
    failed.fail(new Error('no reply'))
    await settled()
    expect(first.error).toBeDefined()
    const second = wait()
    expect(tokenOf(last())).not.toBe(tokenOf(failed))
    store.take()
    store.hooks.onGrant(granted(tokenOf(failed)), 3_000)
    await settled()
    expect(second.lease).toBeUndefined()
    expect(store.take()).toEqual(['release'])
  })
})

describe('the late release of a lost lease', () => {
  it('does not release the newer lease that this process holds', async () => {
    const { store, granted, last, reply, grantBy, wait, hold, release, lose } = setUp()
    const first = await hold()
    const second = wait()
    const third = wait()
    lose(first)
    await grantBy(last())
    expect(second.lease?.remainingMs()).toBeGreaterThan(0)
    store.take()
    void first.lease?.release()
    expect(last().text).toMatch(/^release/)
    await reply(last(), { status: 'lost' })
    // The second waiter holds the lock, and the third one waits in this process. No request is
    // needed.
    expect(store.take().filter((text) => text === 'acquire')).toEqual([])
    const releasing = release(second)
    expect(releasing.text).toBe('release and queue')
    const next = granted(releasing.next?.token ?? '')
    await reply(releasing, { status: 'released', granted: { grant: next, forMs: 2_000 } })
    expect(third.lease?.fence).toBe(BigInt(next.fence))
  })

  it('keeps the place of a waiter in the lock queue', async () => {
    const { store, granted, last, tokenOf, reply, busy, wait, hold, release, lose } = setUp()
    const first = await hold()
    const second = wait()
    lose(first)
    const queuedAs = tokenOf(last())
    await busy(last())
    const releasing = release(first)
    const grant = granted(queuedAs)
    // The store frees the lock and grants it to this process: in the reply if it queued again, else
    // by a message.
    if (releasing.next === undefined) {
      await reply(releasing, { status: 'released' })
      store.hooks.onGrant(grant, 2_000)
    } else {
      await reply(releasing, { status: 'released', granted: { grant, forMs: 2_000 } })
    }
    await settled()
    expect(second.lease?.fence).toBe(BigInt(grant.fence))
  })
})

describe('a failed release of a lost lease', () => {
  it('leaves a waiter in the lock queue under the same token', async () => {
    const { store, granted, last, tokenOf, busy, wait, hold, lose } = setUp()
    const first = await hold()
    const second = wait()
    lose(first)
    const queuedAs = tokenOf(last())
    await busy(last())
    void first.lease?.release()
    store.take()
    last().fail(new Error('the store is away'))
    await settled()
    expect(store.take()).toEqual([])
    const grant = granted(queuedAs)
    store.hooks.onGrant(grant, 2_000)
    await settled()
    expect(second.lease?.fence).toBe(BigInt(grant.fence))
  })

  it('lets a waiter that came after the loss receive a grant', async () => {
    const { store, granted, last, tokenOf, busy, wait, hold, lose } = setUp()
    const first = await hold()
    lose(first)
    await settled()
    const second = wait()
    const queuedAs = tokenOf(last())
    await busy(last())
    void first.lease?.release()
    last().fail(new Error('the store is away'))
    await settled()
    const grant = granted(queuedAs)
    store.hooks.onGrant(grant, 2_000)
    await settled()
    expect(second.lease?.fence).toBe(BigInt(grant.fence))
  })
})

describe('a `release and queue` command whose reply is lost', () => {
  it('is followed by an acquire with the same token, which finds the grant to the waiter', async () => {
    const { store, last, tokenOf, grantBy, wait, hold, release } = setUp()
    const first = await hold()
    const second = wait()
    const releasing = release(first)
    store.take()
    releasing.fail(new Error('the reply was lost'))
    await settled()
    expect(store.take()).toEqual(['acquire'])
    expect(tokenOf(last())).toBe(tokenOf(releasing))
    await grantBy(last())
    expect(second.lease).toBeDefined()
  })
})

describe('a `release and queue` command whose reply is lost after the last waiter gave up', () => {
  it('is followed by one clean-up command, and a later caller can get the lock', async () => {
    const { store, last, grantBy, wait, hold, waitUntilAbort, release } = setUp()
    const first = await hold()
    const giveUp = waitUntilAbort()
    const releasing = release(first)
    expect(releasing.text).toBe('release and queue')
    await giveUp()
    store.take()
    releasing.fail(new Error('the reply was lost'))
    await settled()
    expect(store.take()).toHaveLength(1)
    const third = wait()
    expect(store.take()).toEqual(['acquire'])
    await grantBy(last())
    expect(third.lease).toBeDefined()
  })
})

describe('a process with waiters', () => {
  it('sends `leave` if its last waiter gives up during `release and queue`', async () => {
    const { store, reply, hold, waitUntilAbort, release } = setUp()
    const first = await hold()
    const giveUp = waitUntilAbort()
    const releasing = release(first)
    expect(releasing.text).toBe('release and queue')
    await giveUp()
    store.take()
    await reply(releasing, { status: 'released' })
    expect(store.take()).toEqual(['leave'])
  })

  it('releases a lock that `release and queue` grants to a waiter that gave up', async () => {
    const { store, granted, last, reply, hold, waitUntilAbort, release } = setUp()
    const first = await hold()
    const giveUp = waitUntilAbort()
    const releasing = release(first)
    await giveUp()
    store.take()
    const grant = granted(releasing.next?.token ?? '')
    await reply(releasing, { status: 'released', granted: { grant, forMs: 2_000 } })
    expect(store.take()).toEqual(['release'])
    expect(last().grant).toEqual(grant)
  })

  it('sends a new acquire for a caller that comes during a release', async () => {
    const { store, last, reply, grantBy, wait, hold, release } = setUp()
    const first = await hold()
    const releasing = release(first)
    const second = wait()
    store.take()
    await reply(releasing, { status: 'released' })
    expect(store.take()).toEqual(['acquire'])
    await grantBy(last())
    expect(second.lease).toBeDefined()
  })
})
