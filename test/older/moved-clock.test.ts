// A real server whose wall clock is set while the stores use it: lifetimes, leases and fences.

import type { StampedeStore } from '@stampede/core'
import type { Grant } from '@stampede/core/store'
import { LeaseKeeper, systemClock } from '@stampede/core/store'
import { Redis } from 'ioredis'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { LIFETIMES, openBareStore, record } from '../harness/bare-store.ts'
import {
  type MovableRedis,
  startMovableRedis,
  whyClockStandsStill,
} from '../harness/movable-redis.ts'
import { startProxy, type TcpProxy } from '../harness/tcp-proxy.ts'

type LookupReply = Awaited<ReturnType<StampedeStore['lookup']>>

const SECOND = 1_000
const HOUR = 3_600_000
const STEPS_BACK = [
  ['a minute', -60 * SECOND],
  ['an hour', -HOUR],
] as const

const whyNot = await whyClockStandsStill()

describe.skipIf(whyNot !== undefined)("a store whose server's clock is set", () => {
  let server: MovableRedis
  let admin: Redis
  let opened: StampedeStore[] = []
  beforeAll(async () => {
    server = await startMovableRedis()
    admin = new Redis(server.url)
  })
  beforeEach(async () => {
    await server.setClockBy(0)
    await admin.flushall()
  })
  afterEach(async () => {
    await Promise.all(opened.map((store) => store.close()))
    opened = []
  })
  afterAll(async () => {
    admin?.disconnect()
    await server?.stop()
  })

  function openStore(url = server.url): StampedeStore {
    const store = openBareStore(url)
    opened.push(store)
    return store
  }
  const look = (store: StampedeStore, key: string, token: string, leaseMs = 5 * SECOND) =>
    store.lookup(key, { token, leaseMs })
  async function leased(store: StampedeStore, key: string, token = 'holder'): Promise<Grant> {
    const reply: LookupReply = await look(store, key, token)
    if (!('grant' in reply) || reply.grant === undefined) throw new Error(reply.status)
    return reply.grant
  }
  async function fill(store: StampedeStore, key: string, freshMs = 2 * SECOND): Promise<void> {
    const grant = await leased(store, key)
    const lifetimes = { ...LIFETIMES, freshMs, physicalMs: freshMs + HOUR }
    expect(await store.commit(grant, Buffer.from('old'), lifetimes)).toBe('committed')
  }
  const failure = { status: 500, message: 'down' }

  it('sees TIME and the expiry of keys move with the clock', async () => {
    const before = Date.now()
    await admin.set('key', 'value', 'PX', 60 * SECOND)
    await server.setClockBy(HOUR)
    const [seconds] = await admin.time()
    expect(Number(seconds) * SECOND).toBeGreaterThan(before + HOUR - 2 * SECOND)
    expect(await admin.get('key')).toBeNull()
    await server.setClockBy(-HOUR)
    expect(Number((await admin.time())[0]) * SECOND).toBeLessThan(before - HOUR + 60 * SECOND)
  })

  describe('forward while the message of a lock hand-over is late', () => {
    const LATE_MS = 700
    let bus: TcpProxy
    beforeAll(async () => {
      bus = await startProxy(server.port, server.host, { affects: 'subscribers' })
    })
    afterAll(() => bus?.stop())

    it.each([
      ['by less than the delay', 500],
      ['by more than the delay', 10 * SECOND],
      ['by nothing', 0],
    ])(
      'limits the lease of the receiver to its claim if the clock is set %s',
      async (_, stepMs) => {
        const CLAIM_MS = 2 * SECOND
        bus.delay(0)
        const { locks: holder } = openStore()
        const { locks: waiter } = openStore(bus.url)
        attach(holder)
        let believedUntil = 0
        // Redis counts whole milliseconds, so `forMs` may be up to 1 ms too long, as for every
        // lease.
        attach(waiter, (_, forMs) => {
          believedUntil = performance.now() + forMs - LeaseKeeper.driftMs(forMs)
        })
        const ask = (locks: typeof holder, token: string, queue: boolean) =>
          locks.acquire('k', { token, leaseMs: 30 * SECOND, queue })
        const first = await ask(holder, 'one', false)
        if (first.status !== 'granted') throw new Error(first.status)
        expect(await ask(waiter, 'two', true)).toMatchObject({ status: 'busy' })
        bus.delay(LATE_MS)
        await server.setClockBy(stepMs)
        await holder.release(first.grant)
        const releasedAt = performance.now()
        await expect.poll(() => believedUntil, { interval: 5 }).toBeGreaterThan(0)
        expect(believedUntil - releasedAt).toBeLessThanOrEqual(CLAIM_MS)
        expect(believedUntil).toBeGreaterThan(performance.now())
      },
    )
  })

  describe.each(STEPS_BACK)('back by %s', (_, stepMs) => {
    it('serves no shared failure for longer than a second', async () => {
      const [a, b] = [openStore(), openStore()]
      const grant = await leased(a, 'k')
      await a.fail(grant, failure, SECOND, true)
      expect(await look(b, 'k', 'other')).toMatchObject({ status: 'failed' })
      await server.setClockBy(stepMs)
      expect(await look(b, 'k', 'other')).toMatchObject({ status: 'leased' })
    })

    it('makes no request wait for the lease of a dead process', async () => {
      const [dead, alive] = [openStore(), openStore()]
      await leased(dead, 'k', 'dead')
      expect(await look(alive, 'k', 'other')).toMatchObject({ status: 'busy' })
      await server.setClockBy(stepMs)
      expect(await look(alive, 'k', 'other')).toMatchObject({ status: 'leased' })
    })

    it('lets only the newer of two leases commit', async () => {
      const [slow, next] = [openStore(), openStore()]
      const old = await leased(slow, 'k', 'slow')
      await server.setClockBy(stepMs)
      const grant = await leased(next, 'k', 'next')
      expect(BigInt(grant.fence)).toBeGreaterThan(BigInt(old.fence))
      expect(await next.commit(grant, Buffer.from('new'), LIFETIMES)).toBe('committed')
      expect(await slow.commit(old, Buffer.from('old'), LIFETIMES)).toBe('fenced')
      expect(await slow.renew([old], 5 * SECOND)).toEqual([false])
    })

    it('leaves a lease with its holder, which can renew it', async () => {
      const [holder, other] = [openStore(), openStore()]
      const grant = await leased(holder, 'k')
      await server.setClockBy(stepMs)
      expect(await holder.renew([grant], 5 * SECOND)).toEqual([true])
      expect(await look(other, 'k', 'other')).toMatchObject({ status: 'busy' })
    })

    it('lets a hit-for-miss key be filled again', async () => {
      const [a, b] = [openStore(), openStore()]
      await a.pass(await leased(a, 'k'), SECOND)
      expect(await look(b, 'k', 'other')).toMatchObject({ status: 'pass' })
      await server.setClockBy(stepMs)
      expect(await look(b, 'k', 'other')).toMatchObject({ status: 'leased' })
    })

    it('serves no entry that is newer than the new time', async () => {
      const [a, b] = [openStore(), openStore()]
      await fill(a, 'k')
      expect(await look(b, 'k', 'other')).toMatchObject({ status: 'fresh' })
      await server.setClockBy(stepMs)
      const reply = await look(b, 'k', 'other')
      expect(reply).toMatchObject({ status: 'leased' })
      expect(reply).not.toHaveProperty('stored')
      // The entry is not served again when its time returns.
      await server.setClockBy(0)
      expect(await look(a, 'k', '', 0)).toMatchObject({ status: 'busy' })
    })

    it('serves no entry that is newer than the new time to a plain read either', async () => {
      const store = openStore()
      await fill(store, 'k')
      await fill(store, 'hot', HOUR)
      for (let i = 0; i < 40; i++) expect((await look(store, 'hot', '', 0)).status).toBe('fresh')
      expect((await look(store, 'k', '', 0)).status).toBe('fresh')
      await server.setClockBy(stepMs)
      expect((await look(store, 'k', '', 0)).status).toBe('busy')
    })

    it('keeps softly purged variants stale', async () => {
      const store = openStore()
      await fill(store, 'k\0one', 3 * HOUR)
      // So that the entry is older than the new time of the clock.
      await server.setClockBy(2 * HOUR)
      await store.purge('k', { soft: true })
      await server.setClockBy(2 * HOUR + stepMs)
      expect(await look(store, 'k\0one', 'other')).toMatchObject({ status: 'stale' })
    })

    it('gives the next lease a greater fence', async () => {
      const store = openStore()
      const before = await leased(store, 'k')
      await server.setClockBy(stepMs)
      await store.fail(before, undefined, 0)
      const after = await leased(store, 'k', 'next')
      expect(BigInt(after.fence)).toBeGreaterThan(BigInt(before.fence))
    })

    it('refuses the commit of a variant that was being filled when its group was purged', async () => {
      const store = openStore()
      const variant = await leased(store, 'k\0one')
      await fill(store, 'k')
      await server.setClockBy(stepMs)
      await store.purge('k', { soft: false })
      expect(await store.commit(variant, Buffer.from('old'), LIFETIMES)).toBe('fenced')
    })

    it.each([
      ['leased in the order of their fills', ['one', 'two']],
      ['leased in the reverse order', ['two', 'one']],
    ])(
      'keeps purged variants purged when Redis evicts the record of their group: %s',
      async (_, order) => {
        const store = openStore()
        const keys = ['one', 'two'].map((name) => `k\0${name}`)
        for (const key of keys) await fill(store, key, 3 * HOUR)
        await server.setClockBy(stepMs)
        await store.purge('k', { soft: false })
        for (const key of keys) await fill(store, key, 3 * HOUR)
        await admin.del(record('k'))
        await store.purge('k', { soft: false })
        for (const name of order) {
          const reply = await look(store, `k\0${name}`, 'other')
          expect(reply, name).toMatchObject({ status: 'leased' })
          expect(reply, name).not.toHaveProperty('stored')
        }
      },
    )

    it('refuses a fill from before a purge even if Redis evicts the record of its group', async () => {
      const store = openStore()
      await fill(store, 'k\0one')
      await server.setClockBy(stepMs)
      await store.purge('k', { soft: false })
      const variant = await leased(store, 'k\0one')
      await admin.del(record('k'))
      await store.purge('k', { soft: false })
      await leased(store, 'k\0two', 'next')
      expect(await store.commit(variant, Buffer.from('old'), LIFETIMES)).toBe('fenced')
    })

    it('gives a greater fence with a lock hand-over', async () => {
      const { locks } = openStore()
      attach(locks)
      const first = await locks.acquire('k', { token: 'one', leaseMs: 5 * SECOND, queue: false })
      if (first.status !== 'granted') throw new Error(first.status)
      await server.setClockBy(stepMs)
      const next = { token: 'two', leaseMs: 5 * SECOND }
      const { granted } = await locks.release(first.grant, next)
      expect(BigInt(granted?.grant.fence ?? 0)).toBeGreaterThan(BigInt(first.grant.fence))
    })

    it('grants a held lock only after its lease, and to the next waiter', async () => {
      const [{ locks: holder }, { locks: other }] = [openStore(), openStore()]
      attach(holder)
      attach(other)
      const acquire = (locks: typeof holder, token: string) =>
        locks.acquire('k', { token, leaseMs: SECOND, queue: false })
      await acquire(holder, 'dead')
      await server.setClockBy(stepMs)
      const startedAt = performance.now()
      const reply = await acquire(other, 'next')
      expect(reply).toMatchObject({ status: 'busy' })
      expect(reply).toHaveProperty('forMs')
      expect((reply as { forMs: number }).forMs).toBeLessThanOrEqual(SECOND)
      await expect.poll(async () => (await acquire(other, 'next')).status).toBe('granted')
      expect(performance.now() - startedAt).toBeGreaterThan(SECOND - 50)
    })

    it('lets an idempotency key be taken over only after its lease', async () => {
      const [{ idempotency: dead }, { idempotency: next }] = [openStore(), openStore()]
      const own = { onWake: () => {}, onSettled: () => {}, onBack: () => {} }
      const hooks = { clock: systemClock, ...NOTHING, ...own }
      for (const store of [dead, next]) store.attach(hooks)
      const begin = (store: typeof dead, token: string) =>
        store.begin('k', {
          token,
          fingerprints: { exact: 'e', canonical: 'c' },
          leaseMs: SECOND,
          retentionMs: HOUR,
          maxAttempts: 5,
          keepUncertainMs: HOUR,
          wait: false,
        })
      expect(await begin(dead, 'dead')).toMatchObject({ status: 'begun' })
      await server.setClockBy(stepMs)
      const startedAt = performance.now()
      expect(await begin(next, 'next')).toMatchObject({ status: 'busy' })
      await expect.poll(async () => (await begin(next, 'next')).status).toBe('begun')
      expect(performance.now() - startedAt).toBeGreaterThan(SECOND - 50)
    })
  })
})

const NOTHING = { onGap: () => {}, onLost: () => {}, onError: () => {} }

function attach(
  locks: StampedeStore['locks'],
  onGrant: (grant: Grant, forMs: number) => void = () => {},
): void {
  locks.attach({ clock: systemClock, ...NOTHING, onGrant })
}
