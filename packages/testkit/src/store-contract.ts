// The contract of StampedeStore, as a suite. Two Stampede processes are played by two attached stores on
// the same data (for the memory store, which serves one process, they are one).

import { type StampedeStore, type StoreHooks, systemClock } from '@stampede/core'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'

export interface StoreBench {
  /** Stores of two processes on the same, empty data; the same store twice where there is one process. */
  open(): Promise<{ a: StampedeStore; b: StampedeStore }>
  /** Lets this much time pass for the store. */
  pass(ms: number): Promise<void>
  /** The clock the stores are given. Default: the system's. */
  clock?: StoreHooks['clock']
  close?(): Promise<void>
}

const LIFETIMES = {
  freshMs: 200,
  staleWhileRevalidateMs: 200,
  staleIfErrorMs: 400,
  physicalMs: 2_000,
}
const FRAME = Buffer.from([0, 255, 10, 13, 0])

interface Hints {
  readonly wakes: string[]
  readonly purges: string[]
}

export function storeContract(name: string, bench: StoreBench): void {
  describe(`${name} keeps the contract of a store:`, () => {
    let a: StampedeStore
    let b: StampedeStore
    let hintsA: Hints
    let hintsB: Hints

    beforeEach(async () => {
      ;({ a, b } = await bench.open())
      hintsA = attach(a, bench)
      hintsB = b === a ? hintsA : attach(b, bench)
    })
    afterEach(async () => {
      await a.close()
      if (b !== a) await b.close()
      await bench.close?.()
    })

    const ask = (store: StampedeStore, token: string, leaseMs = 150) =>
      store.lookup('k', { token, leaseMs })
    const lease = async (store: StampedeStore, token: string, leaseMs = 150) => {
      const reply = await ask(store, token, leaseMs)
      if (!('grant' in reply) || reply.grant === undefined) throw new Error(`got ${reply.status}`)
      return reply.grant
    }
    const fill = async (store: StampedeStore, token = 'filler') => {
      const grant = await lease(store, token)
      expect(await store.commit(grant, FRAME, LIFETIMES)).toBe('committed')
      return grant
    }
    /** Hints travel on another connection than replies. */
    const hinted = (list: () => string[]) => expect.poll(list, { interval: 5, timeout: 2_000 })

    it('gives the lease of a missing key to one of those who ask', async () => {
      const replies = await Promise.all([ask(a, '1'), ask(b, '2'), ask(a, '3')])
      expect(replies.map((reply) => reply.status).sort()).toEqual(['busy', 'busy', 'leased'])
    })

    it('tells those who come later how long the lease has left', async () => {
      await lease(a, '1', 500)
      const reply = await ask(b, '2')
      expect(reply).toMatchObject({ status: 'busy' })
      const { busyForMs } = reply as { busyForMs: number }
      expect(busyForMs).toBeGreaterThan(300)
      expect(busyForMs).toBeLessThanOrEqual(500)
    })

    it('gives the same lease to the same token asked again', async () => {
      const first = await lease(a, '1')
      expect(await lease(a, '1')).toEqual(first)
    })

    it('returns a committed frame byte for byte, with its age and times', async () => {
      const grant = await fill(a)
      const reply = await ask(b, '2')
      expect(reply).toMatchObject({ status: 'fresh', stored: { fence: grant.fence } })
      const { stored } = reply as {
        stored: { frame: Uint8Array; freshForMs: number; ageMs: number }
      }
      expect(Buffer.from(stored.frame)).toEqual(FRAME)
      expect(stored.freshForMs).toBeGreaterThan(0)
      expect(stored.freshForMs).toBeLessThanOrEqual(200)
      expect(stored.ageMs).toBeGreaterThanOrEqual(0)
      expect(stored).toMatchObject({ staleWhileRevalidateMs: 200, staleIfErrorMs: 400 })
    })

    it('does not send a frame again that the caller has', async () => {
      const { fence } = await fill(a)
      const request = { token: '2', leaseMs: 150, knownFence: fence }
      expect(await b.lookup('k', request)).toMatchObject({ status: 'fresh', stored: 'same' })
    })

    it('drops a frame that the caller cannot read, and gives the lease instead', async () => {
      const { fence } = await fill(a)
      const reply = await b.lookup('k', { token: '2', leaseMs: 150, unreadableFence: fence })
      expect(reply.status).toBe('leased')
      expect(reply).not.toHaveProperty('stored')
    })

    it('gives a stale entry to everybody and its lease to one', async () => {
      await fill(a)
      await bench.pass(220)
      const replies = await Promise.all([ask(a, '1'), ask(b, '2')])
      expect(replies.map((reply) => reply.status)).toEqual(['stale', 'stale'])
      expect(replies.filter((reply) => 'grant' in reply && reply.grant)).toHaveLength(1)
    })

    it('past the stale window gives the lease, with the entry for errors only', async () => {
      await fill(a)
      await bench.pass(450)
      expect(await ask(b, '2')).toMatchObject({ status: 'leased', stored: { staleIfErrorMs: 400 } })
    })

    it('past all windows it is as if the entry were not there', async () => {
      await fill(a)
      await bench.pass(650)
      const reply = await ask(b, '2')
      expect(reply.status).toBe('leased')
      expect(reply).not.toHaveProperty('stored')
    })

    it('gives a lease that ran out to the next, with a greater fence', async () => {
      const first = await lease(a, '1')
      await bench.pass(170)
      const second = await lease(b, '2')
      expect(BigInt(second.fence)).toBeGreaterThan(BigInt(first.fence))
    })

    it('refuses the commit of a holder that was overtaken, and keeps the newer entry', async () => {
      const late = await lease(a, '1')
      await bench.pass(170)
      const { fence } = await fill(b, '2')
      expect(await a.commit(late, Buffer.from('late'), LIFETIMES)).toBe('fenced')
      expect(await ask(a, '3')).toMatchObject({ status: 'fresh', stored: { fence } })
    })

    it('accepts the commit of a late holder that nobody overtook', async () => {
      const late = await lease(a, '1')
      await bench.pass(170)
      expect(await a.commit(late, FRAME, LIFETIMES)).toBe('committed')
    })

    it('accepts a commit repeated after a lost reply, once', async () => {
      const grant = await fill(a)
      expect(await a.commit(grant, FRAME, LIFETIMES)).toBe('committed')
      expect(await ask(b, '2')).toMatchObject({ status: 'fresh' })
    })

    it('renews a lease that is held, and says so of one that is not', async () => {
      const mine = await lease(a, '1')
      await bench.pass(100)
      expect(await a.renew([mine], 150)).toEqual([true])
      await bench.pass(100)
      expect(await ask(b, '2')).toMatchObject({ status: 'busy' })
      await bench.pass(70)
      await lease(b, '3')
      expect(await a.renew([mine, { ...mine, key: 'other' }], 150)).toEqual([false, false])
    })

    it('wakes those who were told busy, when the entry is there', async () => {
      const grant = await lease(a, '1')
      await ask(b, '2')
      await a.commit(grant, FRAME, LIFETIMES)
      await hinted(() => hintsB.wakes).toEqual(['k'])
    })

    it('shares a failure for the back-off, wakes the waiters, and then lets one try', async () => {
      const grant = await lease(a, '1')
      await ask(b, '2')
      const failure = { status: 502, message: 'no "route"' }
      expect(await a.fail(grant, failure, 150)).toBe('committed')
      await hinted(() => hintsB.wakes).toEqual(['k'])
      expect(await ask(b, '3')).toMatchObject({ status: 'failed', failure })
      await bench.pass(170)
      expect(await ask(b, '4')).toMatchObject({ status: 'leased' })
    })

    it('shares no failure that nobody waited for', async () => {
      const grant = await lease(a, '1')
      expect(await a.fail(grant, { status: 502, message: '' }, 5_000)).toBe('committed')
      expect(await ask(b, '2')).toMatchObject({ status: 'leased' })
    })

    it('shares a failure that was awaited in the process of its holder alone', async () => {
      const grant = await lease(a, '1')
      const failure = { status: 502, message: '' }
      expect(await a.fail(grant, failure, 5_000, true)).toBe('committed')
      expect(await ask(b, '2')).toMatchObject({ status: 'failed', failure })
    })

    it('forgets who waited for the fill before', async () => {
      const first = await lease(a, '1')
      await ask(b, '2')
      await a.fail(first, undefined, 0)
      const second = await lease(a, '3')
      await a.fail(second, { status: 502, message: '' }, 5_000)
      expect(await ask(b, '4')).toMatchObject({ status: 'leased' })
    })

    it('keeps the entry through a failed refresh', async () => {
      await fill(a)
      await bench.pass(220)
      const grant = await lease(a, '1')
      await a.fail(grant, { status: 500, message: '' }, 100, true)
      expect(await ask(b, '2')).toMatchObject({ status: 'failed', stored: { staleIfErrorMs: 400 } })
    })

    it('frees a lease without a failure at once', async () => {
      const grant = await lease(a, '1', 5_000)
      await a.fail(grant, undefined, 0)
      expect(await ask(b, '2')).toMatchObject({ status: 'leased' })
    })

    it('remembers a key as not shareable, drops its entry, and forgets it again', async () => {
      await fill(a)
      await bench.pass(220)
      const grant = await lease(a, '1')
      expect(await a.pass(grant, 150)).toBe('committed')
      expect(await ask(b, '2')).toMatchObject({ status: 'pass' })
      await bench.pass(170)
      const reply = await ask(b, '3')
      expect(reply.status).toBe('leased')
      expect(reply).not.toHaveProperty('stored')
    })

    it('lets nobody but the holder end a lease', async () => {
      const mine = await lease(a, '1')
      const forged = { ...mine, token: 'other' }
      expect(await b.fail(forged, undefined, 0)).toBe('fenced')
      expect(await b.pass(forged, 100)).toBe('fenced')
      expect(await b.commit(forged, FRAME, LIFETIMES)).toBe('fenced')
      expect(await ask(b, '2')).toMatchObject({ status: 'busy' })
    })

    it('forgets the entry on a purge, and tells the other processes', async () => {
      await fill(a)
      await a.purge('k', { soft: false })
      expect(await ask(b, '2')).toMatchObject({ status: 'leased' })
      if (b !== a) await hinted(() => hintsB.purges).toEqual(['k hard'])
    })

    it.each([true, false])('voids a fill in flight on a purge (soft: %s)', async (soft) => {
      await fill(a)
      await bench.pass(220)
      const grant = await lease(a, '1')
      await b.purge('k', { soft })
      expect(await a.renew([grant], 150)).toEqual([false])
      expect(await a.commit(grant, Buffer.from('old'), LIFETIMES)).toBe('fenced')
    })

    it.each([true, false])(
      'voids the first fill of a cold key on a purge (soft: %s)',
      async (soft) => {
        const grant = await lease(a, '1')
        await b.purge('k', { soft })
        expect(await a.commit(grant, Buffer.from('old'), LIFETIMES)).toBe('fenced')
        expect(await ask(b, '2')).toMatchObject({ status: 'leased' })
      },
    )

    it('wakes the waiters on a purge', async () => {
      await lease(a, '1', 5_000)
      await ask(b, '2')
      await a.purge('k', { soft: false })
      await hinted(() => hintsB.wakes).toEqual(['k'])
    })

    it('makes the entry stale on a soft purge', async () => {
      await fill(a)
      await a.purge('k', { soft: true })
      expect(await ask(b, '2')).toMatchObject({ status: 'stale' })
      if (b !== a) await hinted(() => hintsB.purges).toEqual(['k soft'])
    })

    it('only reads when no lease is asked for', async () => {
      expect(await a.lookup('k', { token: '', leaseMs: 0 })).toEqual({
        status: 'busy',
        busyForMs: 0,
      })
      await fill(a)
      expect(await b.lookup('k', { token: '', leaseMs: 0 })).toMatchObject({ status: 'fresh' })
      await bench.pass(220)
      const stale = await b.lookup('k', { token: '', leaseMs: 0 })
      expect(stale.status).toBe('stale')
      expect(await ask(a, '1')).toMatchObject({ status: 'stale', grant: { token: '1' } })
    })

    it('keeps fences rising over many grants', async () => {
      const fences: bigint[] = []
      for (let i = 0; i < 50; i++) {
        const grant = await lease(i % 2 === 0 ? a : b, String(i))
        fences.push(BigInt(grant.fence))
        await a.fail(grant, undefined, 0)
      }
      expect(fences).toEqual([...fences].sort((x, y) => Number(x - y)))
      expect(new Set(fences).size).toBe(50)
    })
  })
}

function attach(store: StampedeStore, bench: StoreBench): Hints {
  const hints: Hints = { wakes: [], purges: [] }
  store.attach({
    clock: bench.clock ?? systemClock,
    onWake: (key) => void hints.wakes.push(key),
    onPurge: (key, { soft }) => void hints.purges.push(`${key} ${soft ? 'soft' : 'hard'}`),
    onGap: () => {},
    onLost: () => {},
    onError: () => {},
  })
  return hints
}
