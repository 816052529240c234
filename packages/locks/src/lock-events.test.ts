// Events, counters and traces of locks.

import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { readFileSync } from 'node:fs'
import { memoryStore } from '@stampede/core'
import { ManualClock, occasionsIn, settled, TraceTranscript } from '@stampede/core/testing'
import { FaultyLocks, refused } from '@stampede/testkit'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createLocks, type Locks } from './create-locks.ts'
import { LOCK_EVENT_TYPES, type LockEvent } from './lock-events.ts'
import type { LocksOptions } from './options.ts'
import { createQuorumLocks } from './quorum.ts'

const traces = new TraceTranscript()
afterEach(() => traces.stop())

function setUp(options: Partial<LocksOptions> = {}) {
  const clock = new ManualClock()
  const store = new FaultyLocks(memoryStore().locks)
  const given = { clock, ...options }
  const locks = createLocks({ store: { locks: store }, ...given })
  const events: LockEvent[] = []
  locks.on('*', (event) => events.push(event))
  const take = () => events.splice(0).map(({ type }) => type)
  return { clock, store, locks, events, take }
}

describe('the events of a lock', () => {
  it('have the key as the caller wrote it, the fence and the times', async () => {
    const { clock, locks, events } = setUp()
    const lease = await locks.acquire('job')
    await clock.advance(40)
    await lease.release()
    const keys = { key: 'job', internalKey: 'job' }
    expect(events).toEqual([
      { type: 'lock.acquired', ...keys, fence: lease.fence, waitedMs: 0 },
      { type: 'lock.released', ...keys, fence: lease.fence, heldMs: 40 },
    ])
  })

  it.each(['push', 'poll'] as const)('name a wait once and its end, by %s', async (wait) => {
    const { clock, locks, take, events } = setUp({ wait })
    const first = await locks.acquire('job')
    const second = locks.acquire('job')
    await settled()
    await clock.advance(30)
    expect(take()).toEqual(['lock.acquired', 'lock.contended'])
    expect(locks.stats()).toMatchObject({ held: 1, waiting: 1 })
    await first.release()
    await clock.advance(200)
    const lease = await second
    expect(events.map(({ type }) => type)).toEqual(['lock.released', 'lock.acquired'])
    expect(events[1]).toMatchObject({ waitedMs: expect.any(Number) })
    await lease.release()
    expect(locks.stats()).toMatchObject({ contended: 1, held: 0, waiting: 0 })
    expect(locks.stats().waitedMs).toBeGreaterThanOrEqual(30)
  })

  it('name a wait behind a waiter of the same process', async () => {
    const { locks, take } = setUp()
    const first = await locks.acquire('job')
    const more = [locks.acquire('job'), locks.acquire('job')]
    await settled()
    expect(take()).toEqual(['lock.acquired', 'lock.contended', 'lock.contended'])
    await first.release()
    await (await more[0])?.release()
    await (await more[1])?.release()
    expect(locks.stats()).toMatchObject({ acquired: 3, contended: 2, released: 3, waiting: 0 })
  })

  it('name a wait that was too long', async () => {
    const { clock, locks, events, take } = setUp()
    const lease = await locks.acquire('job')
    const late = locks.acquire('job', { waitMs: 50 }).catch(({ code }) => code)
    await settled()
    await clock.advance(50)
    expect(await late).toBe('ERR_LOCK_WAIT_TIMEOUT')
    expect(events.at(-1)).toMatchObject({ type: 'lock.timed-out', waitedMs: 50 })
    expect(take()).toEqual(['lock.acquired', 'lock.contended', 'lock.timed-out'])
    await lease.release()
    expect(locks.stats()).toMatchObject({ timedOut: 1, waitedMs: 50 })
  })

  it('name a loss once, and no release after it', async () => {
    const { clock, locks, store, take } = setUp({ leaseMs: 1_000 })
    const lease = await locks.acquire('job')
    store.always = refused
    await clock.advance(2_000)
    expect(lease.isLost).toBe(true)
    await lease.release()
    expect(take()).toEqual(['lock.acquired', 'lock.lost'])
    expect(locks.stats()).toMatchObject({ lost: 1, released: 0, held: 0 })
    expect(locks.stats().heldMs).toBeGreaterThan(900)
  })

  it('name a store that does not reply', async () => {
    const { locks, store, events } = setUp()
    store.next('acquire', refused)
    await locks.acquire('job').catch(() => {})
    expect(events).toMatchObject([{ type: 'lock.unavailable', error: expect.any(Error) }])
    expect(locks.stats()).toMatchObject({ unavailable: 1 })
  })

  it('do not name an aborted wait, which is counted', async () => {
    const { locks, take } = setUp()
    const lease = await locks.acquire('job')
    const abort = new AbortController()
    const waiting = locks.acquire('job', { signal: abort.signal }).catch(({ code }) => code)
    await settled()
    abort.abort()
    expect(await waiting).toBe('ERR_LOCK_ABORTED')
    await lease.release()
    expect(take()).not.toContain('lock.timed-out')
    expect(locks.stats()).toMatchObject({ aborted: 1, waiting: 0 })
  })

  it('are on the diagnostics channel of all events', async () => {
    const { locks } = setUp()
    const seen: unknown[] = []
    const listener = (message: unknown) => seen.push((message as LockEvent).type)
    subscribe('stampede:event', listener)
    await locks.run('job', () => {})
    unsubscribe('stampede:event', listener)
    expect(seen).toEqual(['lock.acquired', 'lock.released'])
  })

  it('refuse an unknown type', () => {
    const { locks } = setUp()
    const wrong = () => locks.on('acquired' as 'lock.acquired', () => {})
    expect(wrong).toThrow(/did you mean lock\.acquired\?/)
  })
})

describe('the traces of a lock', () => {
  let locks: Locks
  beforeEach(() => {
    locks = setUp().locks
    traces.take()
    traces.record()
  })

  it('last from the call to the lease', async () => {
    const lease = await locks.acquire('job')
    expect(traces.take()).toEqual([
      'lock start',
      'lock end',
      'lock asyncStart outcome=acquired fence=bigint',
      'lock asyncEnd outcome=acquired fence=bigint',
    ])
    expect(traces.contexts.at(-1)).toMatchObject({ key: 'job', internalKey: 'job' })
    expect(await locks.tryAcquire('job')).toBeNull()
    expect(traces.take().at(-1)).toBe('lock asyncEnd outcome=busy')
    await lease.release()
  })

  it('say whether the caller waited', async () => {
    const lease = await locks.acquire('job')
    const second = locks.acquire('job')
    await settled()
    await lease.release()
    await (await second).release()
    expect(traces.take().at(-1)).toMatch(/contended=true outcome=acquired fence=bigint$/)
  })

  it('have the error of a call that fails', async () => {
    const lease = await locks.acquire('job')
    const signal = AbortSignal.abort(new Error('shutdown'))
    await locks.acquire('job', { signal }).catch(() => {})
    expect(traces.take().at(-3)).toMatch(/^lock error outcome=aborted error=lock "job" was not/)
    await lease.release()
  })
})

describe('a quorum lock', () => {
  it('has the same events, without a fence', async () => {
    const nodes = Array.from({ length: 3 }, () => memoryStore())
    const locks = createQuorumLocks(nodes)
    const events: LockEvent[] = []
    locks.on('*', (event) => events.push(event))
    traces.take()
    traces.record()
    const first = await locks.acquire('job')
    const second = locks.acquire('job')
    await settled()
    expect(locks.stats()).toMatchObject({ held: 1, waiting: 1 })
    await first.release()
    await (await second).release()
    expect(await locks.tryAcquire('job')).not.toBeNull()
    expect(events.map(({ type }) => type)).toEqual([
      'lock.acquired',
      'lock.contended',
      'lock.released',
      'lock.acquired',
      'lock.released',
      'lock.acquired',
    ])
    expect(events[0]).toMatchObject({ key: 'job', fence: undefined })
    expect(traces.take()).toContain('lock asyncEnd contended=true outcome=acquired')
    await locks.close()
  })
})

describe('the table of lock events in the guide', () => {
  it('has each event with its occasion', () => {
    const read = (path: string) => readFileSync(new URL(path, import.meta.url), 'utf8')
    const page = read('../../../docs/guide/events.md')
    const rows = [...page.matchAll(/^\| `(lock\.[a-z-]+)` \| (.+) \| .* \|$/gm)]
    const documented = Object.fromEntries(rows.map(([, type, when]) => [type, when]))
    expect(documented).toEqual(Object.fromEntries(occasionsIn(read('lock-events.ts'))))
    expect(Object.keys(documented).sort()).toEqual([...LOCK_EVENT_TYPES].sort())
  })
})
