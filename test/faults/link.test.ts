// Faults of the store's connection at the moments when it breaks and returns, with a clock that
// jumps or stands still.

import type { StampedeStore } from '@stampede/core'
import { type Grant, groupOf, mayHaveRun } from '@stampede/core/store'
import { ManualClock } from '@stampede/core/testing'
import { redisStore } from '@stampede/redis'
import { Redis } from 'ioredis'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { RedisLink } from '../../packages/redis/src/connection/link.ts'
import { names } from '../../packages/redis/src/protocol/keys.ts'
import { purge } from '../../packages/redis/src/protocol/scripts.generated.ts'
import { LIFETIMES, openBareStore } from '../harness/bare-store.ts'
import { redisOfFile } from '../harness/redis-of-file.ts'
import { waitUntil } from '../harness/wait-until.ts'

const LEASE_MS = 60_000

/** It can continue at a later time within one turn of the event loop, like a process that froze. */
class JumpingClock extends ManualClock {
  jumpedMs = 0
  /** Stands still from this moment on. */
  stoppedAt: number | undefined

  override now(): number {
    return (this.stoppedAt ?? performance.now()) + this.jumpedMs
  }
}

const { server, admin } = await redisOfFile()
let client: Redis
let clock: JumpingClock
let store: StampedeStore

beforeEach(async () => {
  await admin.flushall()
  clock = new JumpingClock()
  client = new Redis(server.url, { lazyConnect: true })
  store = redisStore(client, { commandTimeoutMs: 2_000 })
  const ignore = () => {}
  const purges = { onPurge: ignore, onMark: ignore, onForget: ignore }
  const doubts = { onWake: ignore, onGap: ignore, onLost: ignore, onError: ignore }
  store.attach({ clock, ...purges, ...doubts })
  await lookUp('warm')
})
afterEach(async () => {
  await admin.acl('SETUSER', 'default', 'allkeys')
  await store.close()
})

const lookUp = (key: string) => store.lookup(key, { token: `of ${key}`, leaseMs: LEASE_MS })

/** Resolves when the commands of this turn are sent, and before a reply. */
const sent = () => new Promise<void>((resolve) => process.nextTick(resolve))

describe('a lost connection', () => {
  it('is used at once after the reconnect, however many commands failed meanwhile', async () => {
    // The circuit breaker is not closed by the passing of time.
    clock.stoppedAt = performance.now()
    await admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
    await waitUntil('the circuit is open', async () => {
      const failures = await Promise.allSettled(['a', 'b', 'c'].map(lookUp))
      return failures.every(({ status }) => status === 'rejected')
    })
    await waitUntil('a look-up is answered', () =>
      lookUp('k').then(
        ({ status }) => status === 'leased',
        () => false,
      ),
    )
  })
})

describe('a command connection that reconnects alone', () => {
  it('lets the process send commands again at once', async () => {
    const heard: string[] = []
    const note = (name: string) => () => void heard.push(name)
    store.idempotency.attach({
      clock,
      onWake: note('wake'),
      onSettled: note('settled'),
      onGap: note('gap'),
      onBack: () => {
        heard.push('back')
        // This command gets through only if the circuit breaker is closed first.
        void store.idempotency.inspect('k').then(note('inspected'), note('refused'))
      },
      onLost: () => {},
      onError: () => {},
    })
    await admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
    await waitUntil('it was told', () => heard.length >= 2)
    expect(heard).toEqual(['back', 'inspected'])
  })
})

describe('a lookup in a process that was blocked', () => {
  it('continues with the script although its time budget is over', async () => {
    const { grant } = (await lookUp('hot')) as { grant: Grant }
    await store.commit(grant, Buffer.from('frame'), LIFETIMES)
    for (let i = 0; i < 40; i++) expect((await lookUp('hot')).status).toBe('fresh')
    const asked = lookUp('k')
    await sent()
    clock.jumpedMs = 5_000
    expect((await asked).status).toBe('leased')
  })

  it('has at least a tenth of its budget for each step', async () => {
    const link = new RedisLink(client, names('stampede'), 300)
    const hearer = { onGap() {}, onLost() {}, onError() {} }
    link.open(clock, hearer)
    await link.opened
    // In its first second, each step has a whole budget.
    clock.jumpedMs += 1_000
    const never = new Promise<never>(() => {})
    /** An operation whose first step takes `tookMs` of the budget. */
    const takes = (tookMs: number) =>
      new Promise((resolve, reject) => {
        const confirm = () => {
          clock.jumpedMs += tookMs
          return never
        }
        const args = () => []
        const receiver = { resolve, reject }
        link.begin({
          script: purge,
          keys: [''],
          options: {},
          args,
          read: String,
          receiver,
          confirm,
        })
      })
    await expect(takes(0)).rejects.toThrow('no reply within 300 ms')
    await expect(takes(200)).rejects.toThrow('no reply within 100 ms')
    await expect(takes(1_300)).rejects.toThrow('no reply within 30 ms')
    link.close(hearer)
  })
})

describe('a purge of a key', () => {
  it('is sent to Redis although the circuit breaker is open', async () => {
    await server.pause()
    // A lookup without a lease leaves none to give back, which would close the circuit.
    const read = (key: string) => store.lookup(key, { token: 't', leaseMs: 0 })
    const late = ['a', 'b', 'c'].map((key) => expect(read(key)).rejects.toThrow('no reply'))
    await Promise.all(late)
    await expect(read('d')).rejects.toThrow('earlier commands failed')
    await server.resume()
    await store.purge('k', { soft: false })
    expect(await admin.exists(names('stampede').purges[1])).toBe(1)
  })
})

describe('a closed store', () => {
  it('leaves no timer', async () => {
    const started = vi.spyOn(globalThis, 'setInterval')
    const cleared = vi.spyOn(globalThis, 'clearInterval')
    try {
      const other = openBareStore(server.url)
      await other.lookup('k', { token: 't', leaseMs: 0 })
      // A wait has begun, so the subscription is checked more often.
      await other.lookup('busy', { token: 'first', leaseMs: LEASE_MS })
      await other.lookup('busy', { token: 'second', leaseMs: LEASE_MS })
      const ours = started.mock.results.map(({ value }) => value)
      expect(ours.length).toBeGreaterThanOrEqual(2)
      await other.close()
      await waitUntil('all are cleared', () => {
        const ended = new Set(cleared.mock.calls.map(([interval]) => interval))
        return Promise.resolve(ours.every((interval) => ended.has(interval)))
      })
    } finally {
      started.mockRestore()
      cleared.mockRestore()
    }
  })
})

describe('a lookup whose purges cannot be confirmed', () => {
  it('rejects with an error after which the caller ends the lease', async () => {
    const { record } = names('stampede')
    const readable = [record('k'), record(groupOf('k'))].map((name) => `~${name}`)
    await admin.acl('SETUSER', 'default', 'resetkeys', ...readable)
    const asked = lookUp('k')
    await sent()
    // The purges were confirmed at the request, and are no longer confirmed at the reply.
    clock.jumpedMs = 60_000
    const error = await asked.catch((error: unknown) => error)
    expect(error).toMatchObject({ code: 'ERR_STAMPEDE_STORE_UNAVAILABLE' })
    expect(await admin.hget(record('k'), 'lease')).toMatch(/^\d+ \d+ \d+ of k$/)
    expect(mayHaveRun(error)).toBe(true)
  })
})
