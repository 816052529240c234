// The contract of LockStore, as a suite. Two attached stores on the same data stand for two
// processes. The memory store serves one process, so both are the same store there.

import { type Grant, type LockStore, systemClock } from '@stampede/core/store'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually } from './eventually.ts'

type LockHooks = Parameters<LockStore['attach']>[0]

/** The stores for the tests of a lock store. */
export interface LockBench {
  /** Stores of two processes on the same, empty data. With one process, the same store twice. */
  open(): Promise<{ a: LockStore; b: LockStore }>
  /** Lets this much time pass for the store. */
  pass(ms: number): Promise<void>
  /** The clock of the stores. Default: the system's. */
  clock?: LockHooks['clock']
  close?(): Promise<void>
}

interface Told {
  readonly grant: Grant
  readonly forMs: number
}

const LEASE_MS = 1_250
/** A little longer than the lease. */
const OVER_MS = 1_400
const LONG_MS = 10_000

/** Defines the tests of a lock store, in Vitest. */
export function lockStoreContract(name: string, bench: LockBench): void {
  describe(`${name} keeps the contract of a lock store:`, () => {
    let a: LockStore
    let b: LockStore
    let toldA: Told[]
    let toldB: Told[]

    beforeEach(async () => {
      ;({ a, b } = await bench.open())
      toldA = attach(a, bench)
      toldB = b === a ? toldA : attach(b, bench)
    })
    afterEach(async () => {
      await a.close()
      if (b !== a) await b.close()
      await bench.close?.()
    })

    const ask = (store: LockStore, token: string, leaseMs = LONG_MS, key = 'k') =>
      store.acquire(key, { token, leaseMs, queue: false })
    const queue = (store: LockStore, token: string, leaseMs = LONG_MS, key = 'k') =>
      store.acquire(key, { token, leaseMs, queue: true })
    const take = async (store: LockStore, token: string, leaseMs = LONG_MS, key = 'k') => {
      const reply = await ask(store, token, leaseMs, key)
      if (reply.status !== 'granted') throw new Error(`got ${reply.status}`)
      return reply.grant
    }
    /** Grants arrive on another connection than replies. */
    const told = (list: () => Told[], count: number) =>
      eventually(() => expect(list().length).toBe(count))
    const toldOnce = async (list: () => Told[]): Promise<Told> => {
      await told(list, 1)
      const [only] = list()
      if (only === undefined) throw new Error('nothing was told')
      return only
    }
    /** A round trip on both connections, after which every published message has arrived. */
    const nothingTold = async (list: () => Told[]) => {
      const before = list().length
      await take(a, 'echo-1', LONG_MS, 'echo')
      await queue(a, 'echo-2', LONG_MS, 'echo')
      await a.release({ key: 'echo', token: 'echo-1', fence: '*' })
      await told(() => toldA.filter(({ grant }) => grant.key === 'echo'), 1)
      expect(list().filter(({ grant }) => grant.key !== 'echo')).toHaveLength(before)
    }

    describe('acquire', () => {
      it('gives a free lock to one of many callers', async () => {
        const replies = await Promise.all([ask(a, '1'), ask(b, '2'), ask(a, '3')])
        expect(replies.map(({ status }) => status).sort()).toEqual(['busy', 'busy', 'granted'])
      })

      it('reports the rest of the lease to the other callers', async () => {
        await take(a, '1', 5_000)
        const reply = await ask(b, '2')
        expect(reply.status).toBe('busy')
        expect(reply.forMs).toBeGreaterThan(3_000)
        expect(reply.forMs).toBeLessThanOrEqual(5_000)
      })

      it('gives the same lease to the same token again, and does not extend it', async () => {
        const first = await take(a, '1', LEASE_MS)
        await bench.pass(100)
        const again = await ask(a, '1', LONG_MS)
        expect(again).toMatchObject({ status: 'granted', grant: first })
        expect(again.forMs).toBeLessThanOrEqual(LEASE_MS - 100)
      })

      it('gives an expired lock to the next caller, with a greater fence', async () => {
        const first = await take(a, '1', LEASE_MS)
        await bench.pass(OVER_MS)
        const second = await take(b, '2')
        expect(BigInt(second.fence)).toBeGreaterThan(BigInt(first.fence))
      })

      it('raises fences in the order of grants, also within one millisecond', async () => {
        const fences: bigint[] = []
        for (let i = 0; i < 200; i++) {
          const grant = await take(i % 2 === 0 ? a : b, String(i))
          expect(grant.fence).toMatch(/^[1-9]\d*$/)
          fences.push(BigInt(grant.fence))
          await (i % 2 === 0 ? a : b).release(grant)
        }
        for (const [i, fence] of fences.entries()) {
          if (i > 0) expect(fence, `grant ${i}`).toBeGreaterThan(fences[i - 1] ?? 0n)
        }
      })

      it('does not confuse keys with special characters', async () => {
        const keys = [
          'a',
          'a b',
          '{a}',
          'a:b',
          'ä\n"\0',
          ' ',
          'x'.repeat(10_000),
          'x'.repeat(10_001),
        ]
        const grants = []
        for (const [i, key] of keys.entries())
          grants.push(await take(a, `first-${i}`, LONG_MS, key))
        for (const [i, key] of keys.entries()) await queue(b, `next-${i}`, LONG_MS, key)
        for (const grant of grants) await a.release(grant)
        await told(() => toldB, keys.length)
        // The order does not matter, because messages come from several nodes in a cluster.
        const heard = new Map(toldB.map(({ grant }) => [grant.key, grant.token]))
        expect(heard).toEqual(new Map(keys.map((key, i) => [key, `next-${i}`])))
      })
    })

    describe('release', () => {
      it('frees the lock at once', async () => {
        const grant = await take(a, '1')
        expect(await a.release(grant)).toEqual({ status: 'released' })
        await take(b, '2')
      })

      it('replies lost to a second release, and the newer holder keeps the lock', async () => {
        const grant = await take(a, '1')
        await a.release(grant)
        expect(await a.release(grant)).toEqual({ status: 'lost' })
        const newer = await take(b, '2')
        expect(await a.release(grant)).toEqual({ status: 'lost' })
        expect(await b.renew([newer], LONG_MS)).toEqual([true])
      })

      it('replies lost after the end of the lease only if another holder has the lock', async () => {
        const late = await take(a, '1', LEASE_MS)
        const alone = await take(a, '2', LEASE_MS, 'other')
        await bench.pass(OVER_MS)
        const newer = await take(b, '3')
        expect(await a.release(late)).toEqual({ status: 'lost' })
        expect(await a.release(alone)).toEqual({ status: 'released' })
        expect(await b.renew([newer], LONG_MS)).toEqual([true])
      })

      it('requires the token, and either the fence of the grant or the fence *', async () => {
        const grant = await take(a, '1')
        expect(await a.release({ ...grant, fence: '1' })).toEqual({ status: 'lost' })
        expect(await a.release({ ...grant, token: '2' })).toEqual({ status: 'lost' })
        expect(await a.release({ ...grant, token: '2', fence: '*' })).toEqual({ status: 'lost' })
        expect(await a.release({ ...grant, fence: '*' })).toEqual({ status: 'released' })
        await take(b, '2')
      })
    })

    describe('renew', () => {
      it('extends the lease, and replies for each grant separately', async () => {
        const mine = await take(a, '1', LEASE_MS)
        const over = await take(a, '2', LEASE_MS, 'overtaken')
        await bench.pass(750)
        expect(await a.renew([mine], LEASE_MS)).toEqual([true])
        await bench.pass(750)
        await take(b, '3', LONG_MS, 'overtaken')
        expect(await ask(b, '4')).toMatchObject({ status: 'busy' })
        const unknown = { ...mine, key: 'never locked' }
        expect(await a.renew([over, mine, unknown], LONG_MS)).toEqual([false, true, false])
      })

      it('revives a lease that ran out if no other caller has the lock', async () => {
        const grant = await take(a, '1', LEASE_MS)
        await bench.pass(OVER_MS)
        expect(await a.renew([grant], LONG_MS)).toEqual([true])
        expect(await ask(b, '2')).toMatchObject({ status: 'busy' })
      })

      it('also shortens the lease', async () => {
        const grant = await take(a, '1', LONG_MS)
        expect(await a.renew([grant], LEASE_MS)).toEqual([true])
        await bench.pass(OVER_MS)
        await take(b, '2')
      })

      it('does not bring a released lock back', async () => {
        const grant = await take(a, '1')
        await a.release(grant)
        expect(await a.renew([grant], LONG_MS)).toEqual([false])
        await take(b, '2')
      })
    })

    describe('the queue', () => {
      it('passes the lock on in the release to one waiter, with a greater fence', async () => {
        const first = await take(a, '1')
        expect(await queue(b, '2', 5_000)).toMatchObject({ status: 'busy' })
        expect(await a.release(first)).toEqual({
          status: 'released',
          busyForMs: expect.any(Number),
        })
        const { grant, forMs } = await toldOnce(() => toldB)
        expect(grant).toMatchObject({ key: 'k', token: '2' })
        expect(BigInt(grant.fence)).toBeGreaterThan(BigInt(first.fence))
        expect(forMs).toBeGreaterThan(500)
        expect(forMs).toBeLessThanOrEqual(5_000)
        expect(await ask(a, '3')).toMatchObject({ status: 'busy' })
        await nothingTold(() => toldB.filter((each) => each.grant.key === 'k'))
      })

      it('passes on a lease that can be renewed and released like any other', async () => {
        const first = await take(a, '1')
        await queue(b, '2')
        await a.release(first)
        const { grant } = await toldOnce(() => toldB)
        expect(await b.acquire('k', { token: '2', leaseMs: LONG_MS, queue: true })).toMatchObject({
          status: 'granted',
          grant,
        })
        expect(await b.renew([grant], LONG_MS)).toEqual([true])
        expect(await b.release(grant)).toEqual({ status: 'released' })
        await take(a, '3')
      })

      it('has no place for a caller that did not queue', async () => {
        const first = await take(a, '1')
        await ask(b, '2')
        await a.release(first)
        await take(a, '3')
        await nothingTold(() => toldB)
      })

      it('has one place per process, for any number of its calls', async () => {
        const first = await take(a, '1')
        await queue(b, '2')
        await queue(b, '2')
        await a.release(first)
        const { grant } = await toldOnce(() => toldB)
        await b.release(grant)
        await take(a, '3')
        await nothingTold(() => toldB.filter((each) => each.grant.key === 'k'))
      })

      it('comes before a new caller when the lease of a silent holder runs out', async () => {
        await take(a, 'silent', LEASE_MS)
        await queue(b, 'queued')
        await bench.pass(OVER_MS)
        expect(await ask(a, 'barging')).toMatchObject({ status: 'busy' })
        const { grant } = await toldOnce(() => toldB)
        expect(grant.token).toBe('queued')
        expect(await b.renew([grant], LONG_MS)).toEqual([true])
      })

      it('gives the lock of a silent holder to a waiter that calls again', async () => {
        const silent = await take(a, 'silent', LEASE_MS)
        await queue(b, 'queued')
        await bench.pass(OVER_MS)
        const reply = await queue(b, 'queued')
        if (reply.status !== 'granted') throw new Error(`got ${reply.status}`)
        expect(BigInt(reply.grant.fence)).toBeGreaterThan(BigInt(silent.fence))
        expect(await a.release(silent)).toEqual({ status: 'lost' })
        expect(await b.renew([reply.grant], LONG_MS)).toEqual([true])
      })

      it('reports to the releasing process how long the first lease of the next holder is', async () => {
        const first = await take(a, '1')
        await queue(b, '2', 5_000)
        const { busyForMs = 0 } = await a.release(first)
        expect(busyForMs).toBeGreaterThan(500)
        expect(busyForMs).toBeLessThanOrEqual(5_000)
      })

      it('keeps the place of a process under its latest token', async () => {
        const first = await take(a, '1')
        await queue(b, '2')
        await queue(b, '3')
        await a.release(first)
        const { grant } = await toldOnce(() => toldB)
        expect(grant.token).toBe('3')
        expect(await b.renew([grant], LONG_MS)).toEqual([true])
      })

      it('keeps the places behind a process that asks again', async () => {
        const first = await take(a, '1')
        await queue(b, '2')
        await queue(a, '3')
        await queue(b, '4')
        await a.release(first)
        const { grant } = await toldOnce(() => toldB)
        expect(grant.token).toBe('4')
        await b.release(grant)
        // A process of a store for one process has no other one behind it.
        if (a !== b) expect((await toldOnce(() => toldA)).grant.token).toBe('3')
      })

      it('gives the lock of a silent holder to a waiter that calls with a new token', async () => {
        await take(a, 'silent', LEASE_MS)
        await queue(b, '2')
        await bench.pass(OVER_MS)
        const reply = await queue(b, '3')
        if (reply.status !== 'granted') throw new Error(`got ${reply.status}`)
        expect(await b.renew([reply.grant], LONG_MS)).toEqual([true])
        await b.release(reply.grant)
        await take(a, '4')
      })

      it('has no place for a process after it left, even if it leaves twice', async () => {
        const first = await take(a, '1')
        await b.leave('k')
        await queue(b, '2')
        await b.leave('k')
        await b.leave('k')
        await a.release(first)
        await take(a, '3')
        await nothingTold(() => toldB)
      })

      it('cannot be left by a process that already got the lock', async () => {
        const first = await take(a, '1')
        await queue(b, '2')
        await a.release(first)
        const { grant } = await toldOnce(() => toldB)
        await b.leave('k')
        expect(await ask(a, '3')).toMatchObject({ status: 'busy' })
        expect(await b.release(grant)).toEqual({ status: 'released' })
      })
    })

    describe('release and queue again', () => {
      it('returns the lock in the reply if no other process waits', async () => {
        const first = await take(a, '1')
        const { status, granted } = await a.release(first, { token: '2', leaseMs: 5_000 })
        expect(status).toBe('released')
        if (granted === undefined) throw new Error('nothing came back')
        expect(granted.grant).toMatchObject({ key: 'k', token: '2' })
        expect(BigInt(granted.grant.fence)).toBeGreaterThan(BigInt(first.fence))
        expect(granted.forMs).toBeGreaterThan(500)
        expect(await a.renew([first, granted.grant], LONG_MS)).toEqual([false, true])
        await nothingTold(() => toldA)
      })

      it('adds no place to the queue of a lost lock', async () => {
        const late = await take(a, '1', LEASE_MS)
        await bench.pass(OVER_MS)
        const newer = await take(b, '2')
        expect(await a.release(late, { token: '3', leaseMs: LONG_MS })).toEqual({ status: 'lost' })
        await b.release(newer)
        await take(b, '4')
        await nothingTold(() => toldA)
      })

      it('adds a place behind earlier processes', async () => {
        const first = await take(a, '1')
        await queue(b, '2')
        const { granted } = await a.release(first, { token: '3', leaseMs: LONG_MS })
        if (a === b) {
          // A process has one position in the queue. Here it keeps that position, under its new
          // token.
          expect(granted?.grant.token).toBe('3')
          return
        }
        expect(granted).toBeUndefined()
        const { grant: second } = await toldOnce(() => toldB)
        expect(second.token).toBe('2')
        const { status } = await b.release(second, { token: '4', leaseMs: LONG_MS })
        expect(status).toBe('released')
        const { grant: third } = await toldOnce(() => toldA)
        expect(third.token).toBe('3')
        await a.release(third)
        await told(() => toldB, 2)
        expect(toldB[1]?.grant.token).toBe('4')
      })

      it('grants under a token that the store knows, even if the process queued under another token', async () => {
        const first = await take(a, '1')
        await queue(a, '2')
        const { granted } = await a.release(first, { token: '3', leaseMs: LONG_MS })
        const { grant } = granted ?? (await toldOnce(() => toldA))
        expect(await a.renew([grant], LONG_MS)).toEqual([true])
        expect(await a.release(grant)).toEqual({ status: 'released' })
      })
    })
  })
}

function attach(store: LockStore, bench: LockBench): Told[] {
  const told: Told[] = []
  store.attach({
    clock: bench.clock ?? systemClock,
    onGrant: (grant, forMs) => void told.push({ grant, forMs }),
    onGap: () => {},
    onLost: () => {},
    onError: () => {},
  })
  return told
}
