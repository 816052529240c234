// The contract of StampedeStore, as a suite. Two attached stores on the same data stand for two
// processes. The memory store serves one process, so both are the same store there.

import type { StampedeStore } from '@stampede/core'
import { type Grant, systemClock } from '@stampede/core/store'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually } from './eventually.ts'

type LookupReply = Awaited<ReturnType<StampedeStore['lookup']>>
type LookupRequest = Parameters<StampedeStore['lookup']>[1]
type StoreHooks = Parameters<StampedeStore['attach']>[0]

type Failure = NonNullable<Parameters<StampedeStore['fail']>[1]>
type Mark = Parameters<StoreHooks['onMark']>[0]
type Position = Parameters<StoreHooks['onForget']>[0]
type StoredFrame = Extract<LookupReply, { status: 'fresh' }>['stored']

/** The stores for the tests of a store. */
export interface StoreBench {
  /** Stores of two processes on the same, empty data. With one process, the same store twice. */
  open(): Promise<{ a: StampedeStore; b: StampedeStore }>
  /** Lets this much time pass for the store. */
  pass(ms: number): Promise<void>
  /** The clock of the stores. Default: the system's. */
  clock?: StoreHooks['clock']
  close?(): Promise<void>
}

const LIFETIMES = {
  freshMs: 1_000,
  staleWhileRevalidateMs: 1_000,
  staleIfErrorMs: 2_000,
  keepMs: 0,
  physicalMs: 10_000,
}
const FRAME = Buffer.from([0, 255, 10, 13, 0])

interface Hints {
  readonly wakes: string[]
  readonly purges: string[]
  readonly marks: Mark[]
  readonly forgotten: Position[]
}

/** Defines the tests of a store, in Vitest. */
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
      // Both stores are connected by now, so they get no message about earlier purges.
      const reading = { token: 'nobody', leaseMs: 0 }
      await Promise.all([a, b].map((store) => store.lookup('not there', reading)))
    })
    afterEach(async () => {
      await a.close()
      if (b !== a) await b.close()
      await bench.close?.()
    })

    const ask = (
      store: StampedeStore,
      token: string,
      leaseMs = 750,
      more: Partial<LookupRequest> = {},
    ) => store.lookup('k', { token, leaseMs, ...more })
    const storedFrameOf = async (reply: ReturnType<typeof ask>): Promise<StoredFrame> => {
      const { stored } = (await reply) as { stored?: StoredFrame }
      if (stored === undefined) throw new Error('nothing is stored')
      return stored
    }
    const lease = async (store: StampedeStore, token: string, leaseMs = 750) => {
      const reply = await ask(store, token, leaseMs)
      if (!('grant' in reply) || reply.grant === undefined) throw new Error(`got ${reply.status}`)
      return reply.grant
    }
    const fill = async (store: StampedeStore, token = 'filler', lifetimes = LIFETIMES) => {
      const grant = await lease(store, token)
      expect(await store.commit(grant, FRAME, lifetimes)).toBe('committed')
      return grant
    }
    /** Messages arrive on another connection than replies. */
    const hinted = (list: () => string[]) => ({
      toEqual: (wanted: string[]) => eventually(() => expect(list()).toEqual(wanted)),
      toHaveLength: (wanted: number) => eventually(() => expect(list()).toHaveLength(wanted)),
    })

    it('gives each operation that begins together its own reply', async () => {
      const together = (store: StampedeStore, run: () => void) =>
        store.together ? store.together(run) : run()
      const keys = Array.from({ length: 70 }, (_, i) => `many ${i}`)
      const replies: Promise<LookupReply>[] = []
      together(a, () => {
        for (const key of keys) replies.push(a.lookup(key, { token: `t ${key}`, leaseMs: 5_000 }))
      })
      const grants = (await Promise.all(replies)).map((reply) => {
        if (reply.status !== 'leased') throw new Error(`got ${reply.status}`)
        return reply.grant
      })
      expect(grants.map(({ key, token }) => [key, token])).toEqual(
        keys.map((key) => [key, `t ${key}`]),
      )
      // A purge of one key refuses the commit of that key only.
      await b.purge('many 3', { soft: false })
      const ends: Promise<unknown>[] = []
      together(a, () => {
        for (const grant of grants) {
          const isFailed = grant.key === 'many 4'
          ends.push(
            isFailed
              ? a.fail(grant, undefined, 0)
              : a.commit(grant, Buffer.from(grant.key), LIFETIMES),
          )
        }
      })
      const refused = (await Promise.all(ends)).flatMap((end, i) =>
        end === 'committed' ? [] : [i],
      )
      expect(refused).toEqual([3])
      const purges: Promise<void>[] = []
      together(b, () => {
        for (const key of keys.slice(10)) purges.push(b.purge(key, { soft: false }))
      })
      await Promise.all(purges)
      const left: Promise<LookupReply>[] = []
      together(b, () => {
        for (const key of keys) left.push(b.lookup(key, { token: '', leaseMs: 0 }))
      })
      const found = (await Promise.all(left)).flatMap((reply) =>
        reply.status === 'fresh' ? [String(reply.stored.frame)] : [],
      )
      const stays = (i: string) => `many ${i}`
      expect(found).toEqual(['0', '1', '2', '5', '6', '7', '8', '9'].map(stays))
    })

    it('gives the lease of a missing key to one of many callers', async () => {
      const replies = await Promise.all([ask(a, '1'), ask(b, '2'), ask(a, '3')])
      expect(replies.map((reply) => reply.status).sort()).toEqual(['busy', 'busy', 'leased'])
    })

    it('reports the rest of the lease to later callers', async () => {
      await lease(a, '1', 2_500)
      const reply = await ask(b, '2')
      expect(reply).toMatchObject({ status: 'busy' })
      const { busyForMs } = reply as { busyForMs: number }
      expect(busyForMs).toBeGreaterThan(1_500)
      expect(busyForMs).toBeLessThanOrEqual(2_500)
    })

    it('gives the same lease to the same token again', async () => {
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
      expect(stored.freshForMs).toBeLessThanOrEqual(1_000)
      expect(stored.ageMs).toBeGreaterThanOrEqual(0)
      expect(stored).toMatchObject({ staleWhileRevalidateMs: 1_000, staleIfErrorMs: 2_000 })
    })

    it('does not send a frame again to a caller that has it', async () => {
      const { fence } = await fill(a)
      const { frame, ...times } = await storedFrameOf(ask(b, '2', 750, { knownFence: fence }))
      expect(frame).toBeUndefined()
      expect(times).toMatchObject({ fence, staleWhileRevalidateMs: 1_000, staleIfErrorMs: 2_000 })
      expect(times.freshForMs).toBeGreaterThan(0)
    })

    it('drops an entry that the caller calls outdated, and grants its lease', async () => {
      const { fence } = await fill(a)
      const reply = await ask(b, '2', 750, { outdated: { fence, soft: false } })
      expect(reply.status).toBe('leased')
      expect(reply).not.toHaveProperty('stored')
      expect((await ask(a, '3')).status).toBe('busy')
    })

    it('drops only the entry that the caller names as outdated', async () => {
      const { fence } = await fill(a)
      const outdated = { fence: String(BigInt(fence) - 1n), soft: false }
      expect(await ask(b, '2', 750, { outdated })).toMatchObject({ status: 'fresh' })
      const softly = { ...outdated, soft: true }
      expect(await ask(b, '2', 750, { outdated: softly })).toMatchObject({ status: 'fresh' })
    })

    it('keeps the lease of the holder when an entry is dropped', async () => {
      const { fence } = await fill(a)
      await bench.pass(1_100)
      const grant = await lease(a, '1')
      const reply = await ask(b, '2', 750, { outdated: { fence, soft: false } })
      expect(reply.status).toBe('busy')
      expect(await a.commit(grant, FRAME, LIFETIMES)).toBe('committed')
    })

    it('treats an entry as stale that the caller calls softly purged', async () => {
      const { fence } = await fill(a)
      const outdated = { fence, soft: true }
      expect(await ask(b, '2', 750, { outdated })).toMatchObject({
        status: 'stale',
        grant: { token: '2' },
        stored: { fence },
      })
      expect((await storedFrameOf(ask(a, '3'))).freshForMs).toBeLessThanOrEqual(0)
    })

    it('returns a stale entry to every caller, and its lease to one', async () => {
      await fill(a)
      await bench.pass(1_100)
      const replies = await Promise.all([ask(a, '1'), ask(b, '2')])
      expect(replies.map((reply) => reply.status)).toEqual(['stale', 'stale'])
      expect(replies.filter((reply) => 'grant' in reply && reply.grant)).toHaveLength(1)
    })

    it('returns an entry after its stale window with the lease, for errors only', async () => {
      await fill(a)
      await bench.pass(2_250)
      expect(await ask(b, '2')).toMatchObject({
        status: 'leased',
        stored: { staleIfErrorMs: 2_000 },
      })
    })

    it('returns an entry after all windows with the lease, for revalidation only', async () => {
      const { fence } = await fill(a, '1', { ...LIFETIMES, keepMs: 7_500, physicalMs: 25_000 })
      await bench.pass(3_250)
      const reply = await ask(b, '2')
      expect(reply).toMatchObject({ status: 'leased', stored: { fence, keepMs: 7_500 } })
      expect(await ask(a, '3')).toMatchObject({ status: 'busy' })
    })

    it('treats an entry as missing once its times for errors and revalidation are over', async () => {
      await fill(a)
      await bench.pass(3_250)
      const reply = await ask(b, '2')
      expect(reply.status).toBe('leased')
      expect(reply).not.toHaveProperty('stored')
    })

    it('gives an expired lease to the next caller, with a greater fence', async () => {
      const first = await lease(a, '1')
      await bench.pass(850)
      const second = await lease(b, '2')
      expect(BigInt(second.fence)).toBeGreaterThan(BigInt(first.fence))
    })

    it('refuses the commit of a holder that another one overtook, and keeps the newer entry', async () => {
      const late = await lease(a, '1')
      await bench.pass(850)
      const { fence } = await fill(b, '2')
      expect(await a.commit(late, Buffer.from('late'), LIFETIMES)).toBe('fenced')
      expect(await ask(a, '3')).toMatchObject({ status: 'fresh', stored: { fence } })
    })

    it('accepts the commit of an expired holder that no other overtook', async () => {
      const late = await lease(a, '1')
      await bench.pass(850)
      expect(await a.commit(late, FRAME, LIFETIMES)).toBe('committed')
    })

    it('accepts a repeated commit after a lost reply, and stores it once', async () => {
      const grant = await fill(a)
      expect(await a.commit(grant, FRAME, LIFETIMES)).toBe('committed')
      expect(await ask(b, '2')).toMatchObject({ status: 'fresh' })
    })

    it('renews a held lease', async () => {
      const mine = await lease(a, '1', 1_500)
      expect(await a.renew([mine], 60_000)).toEqual([true])
      await bench.pass(1_600)
      expect(await ask(b, '2')).toMatchObject({ status: 'busy' })
    })

    it('does not renew a lease that another caller has since its end, or an unknown one', async () => {
      const mine = await lease(a, '1')
      await bench.pass(850)
      await lease(b, '2')
      expect(await a.renew([mine, { ...mine, key: 'other' }], 750)).toEqual([false, false])
    })

    it('wakes the waiters when the entry is stored', async () => {
      const grant = await lease(a, '1')
      await ask(b, '2')
      await a.commit(grant, FRAME, LIFETIMES)
      await hinted(() => hintsB.wakes).toEqual(['k'])
    })

    it('shares a failure for the back-off, and afterwards grants the lease to one caller', async () => {
      const grant = await lease(a, '1')
      await ask(b, '2')
      const failure = { status: 502, message: 'no "route"' }
      expect(await a.fail(grant, failure, 750)).toBe('committed')
      await hinted(() => hintsB.wakes).toEqual(['k'])
      expect(await ask(b, '3')).toMatchObject({ status: 'failed', failure })
      await bench.pass(850)
      expect(await ask(b, '4')).toMatchObject({ status: 'leased' })
    })

    it('shares no failure after a soft purge of its key', async () => {
      const grant = await lease(a, '1')
      await ask(b, '2')
      await a.fail(grant, { status: 502, message: '' }, 5_000)
      expect(await ask(b, '3')).toMatchObject({ status: 'failed' })
      await a.purge('k', { soft: true })
      expect(await ask(b, '4')).toMatchObject({ status: 'leased' })
    })

    it('shares a failure with like requests only, and grants the lease to an unlike one', async () => {
      const failure = { status: 502, message: 'no "like":"other"', like: 'odd_1-' }
      await a.fail(await lease(a, '1'), failure, 5_000, true)
      // The lookup may have no `like`, or an equal one.
      expect(await ask(b, '2')).toMatchObject({ status: 'failed', failure })
      expect(await ask(a, '3', 750, { like: 'odd_1-' })).toMatchObject({
        status: 'failed',
        failure,
      })
      const reply = await ask(b, '4', 2_000, { like: 'other' })
      expect(reply.status).toBe('leased')
      expect(await ask(a, '5', 750, { like: 'third' })).toMatchObject({ status: 'busy' })
      // A request with another `like` has failed too, so the failure is now shared with all
      // requests.
      const { grant } = reply as { grant: Grant }
      await b.fail(grant, { status: 503, message: 'down' }, 5_000)
      for (const like of ['odd_1-', 'other', 'third']) {
        const shared = await ask(a, '6', 750, { like })
        expect(shared).toMatchObject({ status: 'failed', failure: { status: 503 } })
        expect((shared as { failure: Failure }).failure).not.toHaveProperty('like')
      }
    })

    it('does not share a failure that no waiter waited for', async () => {
      const grant = await lease(a, '1')
      expect(await a.fail(grant, { status: 502, message: '' }, 5_000)).toBe('committed')
      expect(await ask(b, '2')).toMatchObject({ status: 'leased' })
    })

    it('shares a failure if only the process of the holder has a waiter', async () => {
      const grant = await lease(a, '1')
      const failure = { status: 502, message: '' }
      expect(await a.fail(grant, failure, 5_000, true)).toBe('committed')
      expect(await ask(b, '2')).toMatchObject({ status: 'failed', failure })
    })

    it('forgets the waiters of an earlier fill', async () => {
      const first = await lease(a, '1')
      await ask(b, '2')
      await a.fail(first, undefined, 0)
      const second = await lease(a, '3')
      await a.fail(second, { status: 502, message: '' }, 5_000)
      expect(await ask(b, '4')).toMatchObject({ status: 'leased' })
    })

    it('keeps the entry through a failed refresh', async () => {
      await fill(a)
      await bench.pass(1_100)
      const grant = await lease(a, '1')
      await a.fail(grant, { status: 500, message: '' }, 5_000, true)
      expect(await ask(b, '2')).toMatchObject({
        status: 'failed',
        stored: { staleIfErrorMs: 2_000 },
      })
    })

    it('frees the lease at once if the run ends without a failure', async () => {
      const grant = await lease(a, '1', 5_000)
      await a.fail(grant, undefined, 0)
      expect(await ask(b, '2')).toMatchObject({ status: 'leased' })
    })

    it('marks a key as hit-for-miss for a limited time, and drops its entry', async () => {
      await fill(a)
      await bench.pass(1_100)
      const grant = await lease(a, '1')
      expect(await a.pass(grant, 750)).toBe('committed')
      expect(await ask(b, '2')).toMatchObject({ status: 'pass' })
      await bench.pass(850)
      const reply = await ask(b, '3')
      expect(reply.status).toBe('leased')
      expect(reply).not.toHaveProperty('stored')
    })

    it('marks a key as hit-for-miss after the second response in a row that is not shareable', async () => {
      await fill(a)
      await bench.pass(1_100)
      expect(await a.pass(await lease(a, '1', 5_000), 2_000, true)).toBe('first')
      const reply = await ask(b, '2', 5_000)
      expect(reply).toMatchObject({ status: 'leased' })
      expect(reply).not.toHaveProperty('stored')
      const { grant } = reply as { grant: Grant }
      expect(await ask(a, '3')).toMatchObject({ status: 'busy' })
      // A run that failed says nothing about the next response.
      expect(await b.fail(grant, undefined, 0)).toBe('committed')
      expect(await b.pass(await lease(b, '4', 5_000), 2_000, true)).toBe('committed')
      expect(await ask(a, '5')).toMatchObject({ status: 'pass' })
    })

    it('keeps the entry for errors after the first of them if asked, until the second', async () => {
      await fill(a)
      await bench.pass(1_100)
      expect(await a.pass(await lease(a, '1', 5_000), 2_000, 'keep')).toBe('first')
      const reply = await ask(b, '2', 5_000)
      const stored = { frame: FRAME, staleWhileRevalidateMs: 0, staleIfErrorMs: 2_000 }
      expect(reply).toMatchObject({ status: 'leased', stored })
      const { grant } = reply as { grant: Grant }
      expect(await b.pass(grant, 200, 'keep')).toBe('committed')
      await bench.pass(300)
      expect(await ask(a, '3')).not.toHaveProperty('stored')
    })

    it('keeps a stale entry with its lifetimes if the new value is skipped, and delays its refresh', async () => {
      const { fence } = await fill(a, 'filler', { ...LIFETIMES, staleWhileRevalidateMs: 60_000 })
      await bench.pass(1_100)
      const grant = await lease(a, '1', 5_000)
      expect(await ask(b, '2')).toMatchObject({ status: 'stale' })
      expect(await a.pass(grant, 1_500, 'skip')).toBe('committed')
      await hinted(() => hintsB.wakes).toEqual(['k'])
      for (const leaseMs of [5_000, 0]) {
        const reply = await ask(b, '3', leaseMs)
        const stored = { fence, frame: FRAME, staleWhileRevalidateMs: 60_000 }
        expect(reply).toMatchObject({ status: 'stale', stored })
        expect(reply).not.toHaveProperty('grant')
        const { busyForMs } = reply as { busyForMs: number }
        expect(busyForMs).toBeGreaterThan(0)
        expect(busyForMs).toBeLessThanOrEqual(1_500)
      }
      await bench.pass(1_600)
      expect(await ask(b, '4')).toMatchObject({ status: 'stale', grant: { token: '4' } })
    })

    it('sends an entry for errors with the leases of a key whose value was skipped', async () => {
      const { fence } = await fill(a, 'filler', { ...LIFETIMES, staleIfErrorMs: 60_000 })
      await bench.pass(2_250)
      expect(await a.pass(await lease(a, '1', 5_000), 20_000, 'skip')).toBe('committed')
      const stored = { fence, frame: FRAME, staleIfErrorMs: 60_000 }
      const reply = await ask(b, '2', 20_000)
      expect(reply).toMatchObject({ status: 'pass', stored, grant: { token: '2' } })
      const other = await ask(a, '3', 5_000, { knownFence: fence })
      expect(other).toMatchObject({ status: 'pass', stored: { fence } })
      expect(other).not.toHaveProperty('grant')
      const { grant } = reply as { grant: Grant }
      expect(await b.commit(grant, FRAME, { ...LIFETIMES, freshMs: 20_000 })).toBe('committed')
      expect(await ask(a, '4')).toMatchObject({ status: 'fresh' })
    })

    it('lets each process run at once if a value is skipped, and the next one lead if only for 0 ms', async () => {
      expect(await a.pass(await lease(a, '1', 5_000), 0, 'skip')).toBe('committed')
      const grant = await lease(b, '2', 20_000)
      expect(await b.pass(grant, 20_000, 'skip')).toBe('committed')
      expect(await ask(a, '3', 20_000)).toMatchObject({ status: 'pass', grant: { token: '3' } })
      const reply = await ask(b, '4', 20_000)
      expect(reply.status).toBe('pass')
      expect(reply).not.toHaveProperty('grant')
      await b.purge('k', { soft: false })
      expect(await ask(b, '5')).toMatchObject({ status: 'leased' })
    })

    it('counts such responses from the beginning after a commit and after a purge', async () => {
      for (const token of ['1', '2']) {
        expect(await a.pass(await lease(a, token), 2_000, true)).toBe('first')
        expect(await b.commit(await lease(b, `${token}b`), FRAME, LIFETIMES)).toBe('committed')
        await bench.pass(1_100)
      }
      expect(await a.pass(await lease(a, '3'), 2_000, true)).toBe('first')
      await b.purge('k', { soft: false })
      expect(await a.pass(await lease(a, '4'), 2_000, true)).toBe('first')
    })

    it('grants one lease at a time for a hit-for-miss key, and keeps the marker until a commit', async () => {
      await a.pass(await lease(a, '1', 2_000), 2_000)
      const tried = await ask(a, '2', 2_000)
      expect(tried).toMatchObject({ status: 'pass', grant: { token: '2' } })
      const { forMs } = tried as { forMs: number }
      expect(forMs).toBeGreaterThan(0)
      expect(forMs).toBeLessThanOrEqual(2_000)
      for (const store of [a, b]) {
        const reply = await ask(store, '3')
        expect(reply.status).toBe('pass')
        expect(reply).not.toHaveProperty('grant')
      }
      // No process waited, so the failure is not shared.
      const { grant } = tried as { grant: Grant }
      expect(await ask(a, '2', 2_000)).toMatchObject({ status: 'pass', grant })
      expect(await a.fail(grant, { status: 502, message: '' }, 5_000)).toBe('committed')
      const again = await lease(b, '4')
      expect(await ask(a, '5')).toMatchObject({ status: 'pass' })
      expect(await b.commit(again, FRAME, { ...LIFETIMES, freshMs: 2_000 })).toBe('committed')
      expect(await ask(a, '6')).toMatchObject({ status: 'fresh', stored: { fence: again.fence } })
    })

    it('grants no lease of a hit-for-miss key to a caller that only reads', async () => {
      await a.pass(await lease(a, '1'), 2_000)
      const reply = await ask(b, '2', 0)
      expect(reply.status).toBe('pass')
      expect(reply).not.toHaveProperty('grant')
    })

    it('ends a lease for a caller that knows its token, but not its fence', async () => {
      const { key, token } = await lease(a, '1', 5_000)
      const unknown = { key, token, fence: '*' }
      expect(await b.fail({ ...unknown, token: 'other' }, undefined, 0)).toBe('fenced')
      expect(await ask(b, '2')).toMatchObject({ status: 'busy' })
      expect(await a.fail(unknown, undefined, 0)).toBe('committed')
      expect(await ask(b, '2')).toMatchObject({ status: 'leased' })
      expect(await a.fail(unknown, undefined, 0)).toBe('fenced')
    })

    it('ends a lease for its holder only', async () => {
      const mine = await lease(a, '1')
      const forged = { ...mine, token: 'other' }
      expect(await b.fail(forged, undefined, 0)).toBe('fenced')
      expect(await b.pass(forged, 100)).toBe('fenced')
      expect(await b.commit(forged, FRAME, LIFETIMES)).toBe('fenced')
      expect(await ask(b, '2')).toMatchObject({ status: 'busy' })
    })

    it('drops the entry on a purge, and notifies the other processes', async () => {
      await fill(a)
      await a.purge('k', { soft: false })
      expect(await ask(b, '2')).toMatchObject({ status: 'leased' })
      expect(hintsA.purges).toEqual(['k hard'])
      await hinted(() => hintsB.purges).toEqual(['k hard'])
    })

    it.each([true, false])(
      'refuses the commit of a fill in flight after a purge (soft: %s)',
      async (soft) => {
        await fill(a)
        await bench.pass(1_100)
        const grant = await lease(a, '1')
        await b.purge('k', { soft })
        expect(await a.renew([grant], 750)).toEqual([false])
        expect(await a.commit(grant, Buffer.from('old'), LIFETIMES)).toBe('fenced')
      },
    )

    it.each([true, false])(
      'refuses the first commit of a cold key after a purge (soft: %s)',
      async (soft) => {
        const grant = await lease(a, '1')
        await b.purge('k', { soft })
        expect(await a.commit(grant, Buffer.from('old'), LIFETIMES)).toBe('fenced')
        expect(await ask(b, '2')).toMatchObject({ status: 'leased' })
      },
    )

    describe('a purge of a key with variants', () => {
      const SHORT = { ...LIFETIMES, staleIfErrorMs: 0, staleWhileRevalidateMs: 0 }
      const leaseOf = async (store: StampedeStore, key: string, token: string) => {
        const reply = await store.lookup(key, { token, leaseMs: 5_000 })
        if (!('grant' in reply) || reply.grant === undefined) throw new Error(`got ${reply.status}`)
        return reply.grant
      }
      const fillOf = async (key: string, physicalMs: number) => {
        const grant = await leaseOf(a, key, `filler ${physicalMs}`)
        return a.commit(grant, FRAME, { ...SHORT, freshMs: physicalMs, physicalMs })
      }
      const statusOf = async (key: string) =>
        (await b.lookup(key, { token: 'reader', leaseMs: 0 })).status

      it.each([
        ['filled before it', ['k', 'k\0en']],
        ['filled after it', ['k\0en', 'k']],
      ])('removes a variant that outlives the entry of the key itself, %s', async (_, order) => {
        for (const key of order) await fillOf(key, key === 'k' ? 50 : 60_000)
        await bench.pass(600)
        expect(await statusOf('k\0en')).toBe('fresh')
        await a.purge('k', { soft: false })
        expect(await statusOf('k\0en')).toBe('busy')
      })

      it('remains in force when the entry of the key itself is filled again and expires', async () => {
        await fillOf('k\0en', 60_000)
        await a.purge('k', { soft: false })
        await fillOf('k', 50)
        await bench.pass(600)
        expect(await statusOf('k\0en')).toBe('busy')
      })

      it('refuses the commits of fills under way, for a hard and a soft purge', async () => {
        for (const soft of [false, true]) {
          const keys = ['k\0en', 'k\0de']
          const grants = await Promise.all(keys.map((key) => leaseOf(a, key, `soft ${soft}`)))
          await b.purge('k', { soft })
          for (const grant of grants) expect(await a.commit(grant, FRAME, SHORT)).toBe('fenced')
        }
      })

      it('keeps entries that are filled after the purge', async () => {
        await fillOf('k\0en', 60_000)
        await a.purge('k', { soft: false })
        expect(await fillOf('k\0en', 60_000)).toBe('committed')
        expect(await fillOf('k\0de', 60_000)).toBe('committed')
        for (const key of ['k\0en', 'k\0de']) expect(await statusOf(key)).toBe('fresh')
      })
    })

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
      await hinted(() => hintsB.purges).toEqual(['k soft'])
    })

    it('notifies every process of the purge of a key', async () => {
      if (b === a) return
      await a.purge('k', { soft: false })
      expect(hintsA.purges).toEqual(['k hard'])
      await b.purge('other', { soft: true })
      // A process knows its own purge at once, perhaps before the notification of the other process
      // arrives.
      await hinted(() => [...hintsB.purges].sort()).toEqual(['k hard', 'other soft'])
    })

    it('numbers purges of subjects, and notifies every process', async () => {
      const before = a.position
      await a.mark('t=red', { soft: false })
      expect(hintsA.marks).toMatchObject([{ subject: 't=red', soft: false, position: a.position }])
      expect(a.position).toBeGreaterThan(before)
      await hinted(() => hintsB.marks.map(({ subject }) => subject)).toEqual(['t=red'])
      expect(b.position).toBeGreaterThanOrEqual(hintsB.marks[0]?.position ?? Number.NaN)
      await b.mark('*', { soft: true })
      await hinted(() => hintsA.marks.map(({ subject }) => subject)).toEqual(['t=red', '*'])
      const [first, second] = hintsA.marks
      expect(second).toMatchObject({ soft: true })
      expect(second?.position).toBeGreaterThan(first?.position ?? Number.NaN)
      for (const { agoMs, position } of [...hintsA.marks, ...hintsB.marks]) {
        expect(agoMs).toBeGreaterThanOrEqual(0)
        expect(agoMs).toBeLessThan(2_000)
        expect(Number.isSafeInteger(position)).toBe(true)
      }
    })

    it('purges several subjects in one call, which resolves when the process knows all', async () => {
      const subjects = Array.from({ length: 300 }, (_, i) => `t=${i}`)
      await a.mark(subjects, { soft: true })
      expect(hintsA.marks.map(({ subject }) => subject).sort()).toEqual([...subjects].sort())
      expect(new Set(hintsA.marks.map(({ position }) => position)).size).toBe(300)
      expect(a.position).toBe(Math.max(...hintsA.marks.map(({ position }) => position)))
      await hinted(() => hintsB.marks.map(({ subject }) => subject).sort()).toEqual(
        [...subjects].sort(),
      )
      await a.mark(['c=rates', ...subjects.slice(0, 127)], { soft: false })
      expect(hintsA.marks.slice(300).map(({ subject }) => subject)).toContain('c=rates')
      await a.mark([], { soft: false })
      expect(hintsA.marks).toHaveLength(428)
    })

    it('raises purge positions with every purge, from any process', async () => {
      for (let i = 0; i < 20; i++) {
        await Promise.all([a.mark(`t=${i}`, { soft: false }), b.mark('t=one', { soft: true })])
        const [highest] = hintsA.marks.map(({ position }) => position).sort((x, y) => y - x)
        expect(a.position).toBeGreaterThanOrEqual(highest ?? Number.NaN)
      }
      await hinted(() => [
        ...new Set(hintsB.marks.map(({ position }) => String(position))),
      ]).toHaveLength(40)
    })

    it('keeps entries on a purge of a subject', async () => {
      const { fence } = await fill(a)
      await a.mark('*', { soft: false })
      expect(await ask(b, '2')).toMatchObject({ status: 'fresh', stored: { fence } })
    })

    it('reports no lost part of the purge log while the log is complete', async () => {
      await ask(a, '1')
      await a.mark('t=red', { soft: false })
      const before = hintsA.forgotten.length
      await b.mark('t=red', { soft: false })
      await hinted(() => hintsA.marks.map(({ subject }) => subject)).toEqual(['t=red', 't=red'])
      expect(hintsA.forgotten).toHaveLength(before)
    })

    it('confirms with its reply that the process missed no purge', async () => {
      const now = (bench.clock ?? systemClock).now()
      await ask(a, '1')
      expect(a.confirmedAt).toBeGreaterThan(now - 5_000)
    })

    describe('an entry that is committed again', () => {
      const LATER = { ...LIFETIMES, freshMs: 1_500, staleWhileRevalidateMs: 500, keepMs: 250 }

      it('has new times and a new fence, also for a caller with the older version', async () => {
        const first = await fill(a)
        await bench.pass(1_100)
        const grant = await lease(a, 'refresher')
        expect(await a.commit(grant, FRAME, LATER)).toBe('committed')
        const { frame, ...times } = await storedFrameOf(
          ask(b, '2', 750, { knownFence: first.fence }),
        )
        expect(Buffer.from(frame ?? [])).toEqual(FRAME)
        expect(times).toMatchObject({
          fence: grant.fence,
          staleWhileRevalidateMs: 500,
          keepMs: 250,
        })
        expect(times.freshForMs).toBeGreaterThan(1_000)
        expect(times.freshForMs).toBeLessThanOrEqual(1_500)
        expect(times.ageMs).toBeLessThan(1_000)
      })

      it('can be called outdated by its new fence only', async () => {
        const first = await fill(a)
        await bench.pass(1_100)
        const second = await fill(a, '1')
        const early = { fence: first.fence, soft: false }
        expect((await ask(b, '2', 750, { outdated: early })).status).toBe('fresh')
        const now = { fence: second.fence, soft: false }
        expect((await ask(b, '2', 750, { outdated: now })).status).toBe('leased')
      })
    })

    it('grants no lease to a caller that only reads', async () => {
      expect(await a.lookup('k', { token: '', leaseMs: 0 })).toEqual({
        status: 'busy',
        busyForMs: 0,
      })
      await fill(a)
      expect(await b.lookup('k', { token: '', leaseMs: 0 })).toMatchObject({ status: 'fresh' })
      await bench.pass(1_100)
      const stale = await b.lookup('k', { token: '', leaseMs: 0 })
      expect(stale.status).toBe('stale')
      expect(await ask(a, '1')).toMatchObject({ status: 'stale', grant: { token: '1' } })
    })

    it('raises the fence with every grant', async () => {
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
  const hints: Hints = { wakes: [], purges: [], marks: [], forgotten: [] }
  store.attach({
    clock: bench.clock ?? systemClock,
    onWake: (key) => void hints.wakes.push(key),
    onPurge: (key, { soft }) => void hints.purges.push(`${key} ${soft ? 'soft' : 'hard'}`),
    onMark: (mark) => void hints.marks.push(mark),
    onForget: (floor) => void hints.forgotten.push(floor),
    onGap: () => {},
    onLost: () => {},
    onError: () => {},
  })
  return hints
}
