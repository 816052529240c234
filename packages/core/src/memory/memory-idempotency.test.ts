// The memory limits of a store in one process. test/contracts/idempotency-stores.versions.test.ts
// runs the contract.

import { hash } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { timesSlower } from '../testing/cpu-time.ts'
import { ManualClock } from '../testing/index.ts'
import { MemoryIdempotency } from './memory-idempotency.ts'

const MIB = 1024 * 1024
const FINGERPRINTS = { exact: 'e', canonical: '' }

function setUp() {
  const clock = new ManualClock()
  const store = new MemoryIdempotency()
  const ignore = () => {}
  const hooks = { onWake: ignore, onSettled: ignore, onGap: ignore, onLost: ignore }
  store.attach({ ...hooks, clock, onBack: ignore, onError: ignore })
  let asked = 0
  const ask = (key: string) =>
    store.begin(key, {
      token: `${key} ${asked++}`,
      fingerprints: FINGERPRINTS,
      leaseMs: 1_000,
      retentionMs: 60_000,
      maxAttempts: 3,
      keepUncertainMs: 60_000,
      wait: false,
    })
  const begin = async (key: string) => {
    const reply = await ask(key)
    if (reply.status !== 'begun') throw new Error(reply.status)
    return reply.grant
  }
  const complete = async (key: string, frame: Uint8Array) =>
    store.finish(await begin(key), { as: 'completed', frame, keepMs: 60_000 }, FINGERPRINTS)
  return { clock, store, ask, begin, complete }
}

describe('the idempotency records of this process', () => {
  it('have a limit in bytes, beyond which no new key begins and no key is forgotten', async () => {
    const { clock, store, begin, complete } = setUp()
    const frame = new Uint8Array(100 * MIB)
    await complete('a', frame)
    await clock.advance(30_000)
    await complete('b', frame)
    const last = await begin('c')
    await store.keepStep(last, 'large', new Uint8Array(60 * MIB))
    await expect(begin('d')).rejects.toMatchObject({ code: 'ERR_STAMPEDE_STORE_UNAVAILABLE' })
    expect(await store.inspect('a')).toMatchObject({ state: 'completed' })
    expect(await store.finish(last, { as: 'released', keepMs: 60_000 }, FINGERPRINTS)).toBe(
      'finished',
    )
    await clock.advance(31_000)
    expect(await begin('d')).toMatchObject({ key: 'd' })
  })

  it('are listed page by page without a sort of all keys', () => {
    const { store, ask } = setUp()
    const keys = Array.from({ length: 60_000 }, (_, i) => hash('sha256', `${i}`, 'base64url'))
    for (const key of keys) void ask(key)
    const list = () => void store.list('', 500)
    const sort = () => void [...keys].sort()
    expect(timesSlower(list, sort, 0.5)).toBeLessThanOrEqual(0.5)
  })

  it('have room again after an operator settled a large response', async () => {
    const { store, begin, complete } = setUp()
    await complete('a', new Uint8Array(256 * MIB))
    await expect(begin('b')).rejects.toThrow('the store is full')
    await store.settle('a', { as: 'released', keepMs: 60_000 }, { force: true })
    expect(await begin('b')).toMatchObject({ key: 'b' })
  })

  it('are no longer counted after they have expired', async () => {
    const { clock, store, begin, complete } = setUp()
    await complete('a', new Uint8Array(0))
    const { bytes } = store.size
    await complete('b', new Uint8Array(MIB))
    await clock.advance(60_000)
    await begin('b')
    await begin('a')
    expect(store.size).toEqual({ entries: 2, bytes: 2 * bytes })
  })

  it('keep an expired attempt for a minute after a renewed lease', async () => {
    const { clock, store, begin } = setUp()
    const grant = await begin('a')
    for (let i = 0; i < 100; i++) {
      await clock.advance(900)
      expect(await store.renew([grant], 1_000)).toEqual([true])
    }
    await clock.advance(60_999)
    expect(await store.inspect('a')).toMatchObject({ state: 'lapsed', keepForMs: 1 })
    await clock.advance(1)
    expect(await store.inspect('a')).toBeUndefined()
  })

  it('count no recovery and no lost leases after an operator settled the key', async () => {
    const { clock, store, ask } = setUp()
    for (let i = 0; i < 2; i++) {
      await ask('a')
      await clock.advance(1_000)
    }
    expect(await ask('a')).toMatchObject({ status: 'begun', isRecovery: true })
    await store.settle('a', { as: 'released', keepMs: 60_000 }, { force: true })
    for (const isRecovery of [false, true, true]) {
      expect(await ask('a')).toMatchObject({ status: 'begun', isRecovery })
      await clock.advance(1_000)
    }
    expect(await ask('a')).toMatchObject({ status: 'uncertain' })
  })

  it('keep the count of lost leases after an attempt was undone, but not after a release', async () => {
    const { clock, store, ask } = setUp()
    const end = async (key: string, fence?: string) => {
      const reply = await ask(key)
      if (reply.status !== 'begun') throw new Error(reply.status)
      const grant = { ...reply.grant, ...(fence && { fence }) }
      return store.finish(grant, { as: 'released', keepMs: 60_000 }, FINGERPRINTS)
    }
    const lose = async (key: string) => {
      const { status } = await ask(key)
      await clock.advance(1_000)
      return status
    }
    for (const key of ['taken back', 'released']) for (let i = 0; i < 2; i++) await lose(key)
    expect(await end('taken back', '*')).toBe('finished')
    expect(await end('released')).toBe('finished')
    for (const key of ['taken back', 'released']) expect(await lose(key)).toBe('begun')
    expect(await lose('taken back')).toBe('uncertain')
    expect(await lose('released')).toBe('begun')
  })
})
