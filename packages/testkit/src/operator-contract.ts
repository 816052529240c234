// The contract of StoreOperator, as a suite. Two attached stores on the same data play two
// processes. The memory store serves one process, so there they are one.

import type { StampedeStore } from '@stampede/core'
import { type Grant, newToken, type StoreOperator, systemClock } from '@stampede/core/store'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { StoreBench } from './store-contract.ts'

type RecordKind = Parameters<StoreOperator['scan']>[0]

const LIFETIMES = {
  freshMs: 1_500,
  staleWhileRevalidateMs: 2_000,
  staleIfErrorMs: 2_500,
  keepMs: 3_000,
  physicalMs: 60_000,
}
const LONG = { ...LIFETIMES, freshMs: 50_000 }
const FRAME = Buffer.from([0, 255, 10, 13, 0])
const LEASE_MS = 20_000

/** Defines the tests of the part of a store that operators use, in Vitest. */
export function storeOperatorContract(name: string, bench: StoreBench): void {
  describe(`${name} keeps the contract of a store operator:`, () => {
    let a: StampedeStore
    let b: StampedeStore
    let operator: StoreOperator

    beforeEach(async () => {
      ;({ a, b } = await bench.open())
      attach(a, bench)
      if (b !== a) attach(b, bench)
      operator = b.operator
    })
    afterEach(async () => {
      for (const store of b === a ? [a] : [a, b]) await closeAll(store)
      await bench.close?.()
    })

    const lease = async (key = 'http:k', store = a): Promise<Grant> => {
      const reply = await store.lookup(key, { token: newToken(), leaseMs: LEASE_MS })
      if (!('grant' in reply) || reply.grant === undefined) throw new Error(reply.status)
      return reply.grant
    }
    const fill = async (key = 'http:k', lifetimes = LONG) => {
      const grant = await lease(key)
      expect(await a.commit(grant, FRAME, lifetimes)).toBe('committed')
      return grant
    }
    const wait = (key = 'http:k') => b.lookup(key, { token: 'waiter', leaseMs: LEASE_MS })

    describe('inspect', () => {
      it('returns undefined for a key without a record', async () => {
        expect(await operator.inspect('http:nothing')).toBeUndefined()
      })

      it('returns the lease of a running fill, and the number of waiting processes', async () => {
        const { fence } = await lease()
        const info = await operator.inspect('http:k')
        expect(info).toMatchObject({ key: 'http:k', fence, ageMs: 0, freshForMs: 0 })
        expect(info?.frame).toBeUndefined()
        expect(info?.lease?.waiters).toBe(0)
        expectAbout(info?.lease?.remainingMs, LEASE_MS)
        await wait()
        expect((await operator.inspect('http:k'))?.lease?.waiters).toBe(1)
      })

      it('returns a fresh entry with its frame, durations and size', async () => {
        const { fence } = await fill('http:k', LONG)
        const info = await operator.inspect('http:k')
        expect(info).toMatchObject({
          fence,
          staleWhileRevalidateMs: 2_000,
          staleIfErrorMs: 2_500,
          keepMs: 3_000,
        })
        expect(Buffer.from(info?.frame ?? [])).toEqual(FRAME)
        expectAbout(info?.freshForMs, LONG.freshMs)
        expect(info?.ageMs).toBeLessThan(5_000)
        expect(info?.deletedInMs).toBeGreaterThan(40_000)
        expect(info?.bytes).toBeGreaterThan(FRAME.length)
        expect(info).not.toHaveProperty('lease')
      })

      it('returns a stale entry with negative freshness until its last window ends', async () => {
        await fill('http:k', LIFETIMES)
        await bench.pass(1_600)
        expect((await operator.inspect('http:k'))?.freshForMs).toBeLessThan(0)
        await bench.pass(3_500)
        expect((await operator.inspect('http:k'))?.frame).toBeUndefined()
      })

      it('returns an entry that a soft purge made stale, and none after a hard purge', async () => {
        await fill()
        await a.purge('http:k', { soft: true })
        expect((await operator.inspect('http:k'))?.freshForMs).toBeLessThanOrEqual(0)
        await a.purge('http:k', { soft: false })
        expect(await operator.inspect('http:k')).toBeUndefined()
      })

      it('returns a variant, and none after a hard purge of its key', async () => {
        await fill('http:k\0de')
        expect((await operator.inspect('http:k\0de'))?.freshForMs).toBeGreaterThan(0)
        await a.purge('http:k', { soft: true })
        expect((await operator.inspect('http:k\0de'))?.freshForMs).toBeLessThanOrEqual(0)
        await a.purge('http:k', { soft: false })
        expect(await operator.inspect('http:k\0de')).toBeUndefined()
      })

      it('says of a key, and of no variant, that it has variants', async () => {
        await fill('http:plain')
        expect(await operator.inspect('http:plain')).not.toHaveProperty('variants')
        await fill('http:k\0de')
        const group = await operator.inspect('http:k')
        expect([group?.variants, group?.frame]).toEqual([true, undefined])
        expect(await operator.inspect('http:k\0de')).not.toHaveProperty('variants')
      })

      it('returns the rest of hit-for-miss', async () => {
        await a.pass(await lease(), 30_000)
        const info = await operator.inspect('http:k')
        expectAbout(info?.passForMs, 30_000)
        expect(info?.frame).toBeUndefined()
      })

      it('returns the failure that requests share, with the rest of its back-off', async () => {
        const grant = await lease()
        await wait()
        await a.fail(grant, { status: 503, message: 'no stock' }, 30_000)
        const info = await operator.inspect('http:k')
        expect(info?.failure).toMatchObject({ status: 503, message: 'no stock' })
        expectAbout(info?.failure?.forMs, 30_000)
      })

      it('changes nothing', async () => {
        const grant = await lease()
        await operator.inspect('http:k')
        expect((await wait()).status).toBe('busy')
        expect(await a.commit(grant, FRAME, LONG)).toBe('committed')
        await operator.inspect('http:k')
        expect((await wait()).status).toBe('fresh')
      })
    })

    describe('scan', () => {
      const all = async (kind: RecordKind, limit = 10) => {
        const keys = new Set<string>()
        let cursor = ''
        let calls = 0
        do {
          const page = await operator.scan(kind, cursor, limit)
          for (const key of page.keys) keys.add(key)
          cursor = page.cursor
          calls += 1
          if (calls > 1_000) throw new Error('the scan does not end')
        } while (cursor !== '')
        return [...keys].sort()
      }

      it('returns an empty list for a store without records', async () => {
        expect(await all('cache')).toEqual([])
        expect(await all('lock')).toEqual([])
        expect(await all('idempotency')).toEqual([])
      })

      it('lists every key of a kind, page by page', async () => {
        const keys = Array.from({ length: 120 }, (_, i) => `d:=${i}`)
        await Promise.all(keys.map((key) => fill(key)))
        expect(await all('cache')).toEqual([...keys].sort())
      })

      it('lists each kind apart', async () => {
        await fill('http:k')
        await a.purge('http:other', { soft: false })
        await a.locks.acquire('door', { token: 'holder', leaseMs: LEASE_MS, queue: false })
        await a.idempotency.begin('payment', BEGIN)
        await operator.report('one', 'text', 10_000)
        expect(await all('cache')).toEqual(['http:k'])
        expect(await all('lock')).toEqual(['door'])
        expect(await all('idempotency')).toEqual(['payment'])
      })

      it('lists variants and long keys by names that inspect accepts', async () => {
        const long = `http:${'x'.repeat(300)}`
        const keys = ['http:a}:{b', 'http:k\0de', long, `${long}\0de`, 'http:[*?]\\']
        for (const key of keys) await fill(key)
        const listed = await all('cache')
        const filled = []
        for (const key of listed) {
          const info = await operator.inspect(key)
          if (info?.frame !== undefined) filled.push(info.key)
        }
        expect(filled).toHaveLength(keys.length)
        expect(filled).toEqual(expect.arrayContaining(['http:a}:{b', 'http:[*?]\\']))
      })
    })

    describe('inspectLock', () => {
      const acquire = (store: StampedeStore, token: string, queue = false) =>
        store.locks.acquire('door', { token, leaseMs: LEASE_MS, queue })

      it('returns undefined for a free lock, and after its release', async () => {
        expect(await operator.inspectLock('door')).toBeUndefined()
        const reply = await acquire(a, 'holder')
        if (reply.status !== 'granted') throw new Error(reply.status)
        await a.locks.release(reply.grant)
        expect(await operator.inspectLock('door')).toBeUndefined()
      })

      it('returns holder, fence, times and queue of a held lock', async () => {
        const reply = await acquire(a, 'the token of the holder')
        if (reply.status !== 'granted') throw new Error(reply.status)
        await acquire(b, 'the token of a waiter', true)
        const info = await operator.inspectLock('door')
        const { fence } = reply.grant
        expect(info).toMatchObject({ key: 'door', token: 'the to', fence, queue: 1 })
        expectAbout(info?.remainingMs, LEASE_MS)
        expect(info?.heldForMs).toBeGreaterThanOrEqual(0)
        expect(info?.heldForMs).toBeLessThan(5_000)
      })

      it('returns a lock whose lease ran out while a process is queued', async () => {
        const reply = await acquire(a, 'holder')
        if (reply.status !== 'granted') throw new Error(reply.status)
        await acquire(b, 'waiter', true)
        // A lease that is short from the start could end before the waiter comes.
        expect(await a.locks.renew([reply.grant], 50)).toEqual([true])
        await bench.pass(80)
        const info = await operator.inspectLock('door')
        expect(info).toMatchObject({ remainingMs: 0, queue: 1 })
        expect(info).not.toHaveProperty('heldForMs')
      })
    })

    describe('report', () => {
      it('returns the number of processes whose reports have not expired', async () => {
        expect(await a.operator.report('one', '1', 10_000)).toBe(1)
        expect(await b.operator.report('two', '2', 10_000)).toBe(2)
        expect(await a.operator.report('one', '3', 10_000)).toBe(2)
        expect(await operator.reports()).toEqual(new Map(Object.entries({ one: '3', two: '2' })))
        await b.operator.report('two', '2', 60)
        await bench.pass(90)
        expect(await operator.reports()).toEqual(new Map([['one', '3']]))
        expect(await a.operator.report('one', '4', 10_000)).toBe(1)
      })

      it('keeps the text of a process as it is', async () => {
        const text = JSON.stringify({ text: 'ä \u2028 \0 😀' })
        await a.operator.report('one', text, 10_000)
        expect((await operator.reports()).get('one')).toBe(text)
      })

      it('refuses a text that is too long', async () => {
        const reported = a.operator.report('one', 'x'.repeat(65_537), 10_000)
        await expect(reported).rejects.toMatchObject({ code: 'ERR_STAMPEDE_OPTION' })
      })

      it('has no reports at first', async () => {
        expect((await operator.reports()).size).toBe(0)
      })
    })
  })
}

const BEGIN = {
  token: 'attempt',
  fingerprints: { exact: 'e', canonical: 'c' },
  leaseMs: LEASE_MS,
  retentionMs: 60_000,
  maxAttempts: 3,
  keepUncertainMs: 60_000,
  wait: false,
} as const

/** A busy machine may be late by seconds. */
function expectAbout(ms: number | undefined, atMost: number): void {
  expect(ms).toBeLessThanOrEqual(atMost)
  expect(ms).toBeGreaterThan(atMost - 10_000)
}

function attach(store: StampedeStore, { clock = systemClock }: StoreBench): void {
  const ignore = (): void => {}
  const common = { clock, onGap: ignore, onLost: ignore, onError: ignore }
  store.attach({ ...common, onWake: ignore, onPurge: ignore, onMark: ignore, onForget: ignore })
  store.locks.attach({ ...common, onGrant: ignore })
  store.idempotency.attach({ ...common, onWake: ignore, onSettled: ignore, onBack: ignore })
}

async function closeAll(store: StampedeStore): Promise<void> {
  await store.locks.close()
  await store.idempotency.close()
  await store.close()
}
