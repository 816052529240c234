// Cases that the contract in @stampede/testkit does not check for every store: bounds, options, and
// one process.

import { describe, expect, it } from 'vitest'
import type { StampedeStore, StoreHooks } from '../ports/store.ts'
import { ManualClock, settled } from '../testing/index.ts'
import { memoryStore } from './memory-store.ts'

const LIFETIMES = {
  freshMs: 1_000,
  staleWhileRevalidateMs: 0,
  staleIfErrorMs: 0,
  keepMs: 0,
  physicalMs: 2_000,
}

function attach(store: StampedeStore, clock = new ManualClock()) {
  const wakes: string[] = []
  const hooks: StoreHooks = {
    clock,
    onWake: (key) => void wakes.push(key),
    onPurge: () => {},
    onMark: () => {},
    onForget: () => {},
    onGap: () => {},
    onLost: () => {},
    onError: () => {},
  }
  store.attach(hooks)
  return { clock, wakes }
}

async function lease(store: StampedeStore, key: string, token = 'a') {
  const reply = await store.lookup(key, { token, leaseMs: 500 })
  if (!('grant' in reply) || reply.grant === undefined) throw new Error(`got ${reply.status}`)
  return reply.grant
}

async function write(store: StampedeStore, key: string, bytes: number) {
  return store.commit(await lease(store, key), Buffer.alloc(bytes), LIFETIMES)
}

const has = async (store: StampedeStore, key: string) =>
  (await store.lookup(key, { token: '', leaseMs: 0 })).status === 'fresh'

const sizeOf = (store: StampedeStore) =>
  (store as unknown as { size: { entries: number; bytes: number } }).size

describe('maxBytes', () => {
  it('limits the frames of all records, and drops the least recently used', async () => {
    const store = memoryStore({ maxBytes: 10_000 })
    attach(store)
    for (let i = 0; i < 20; i++) await write(store, `k${i}`, 1_000)
    const kept = await Promise.all(Array.from({ length: 20 }, (_, i) => has(store, `k${i}`)))
    expect(kept.lastIndexOf(false)).toBeGreaterThan(10)
    expect(kept.filter(Boolean).length).toBe(5)
    expect(kept.at(-1)).toBe(true)
  })

  it('refuses a frame that is larger than all records together, and ends its lease', async () => {
    const store = memoryStore({ maxBytes: 10_000 })
    const { wakes } = attach(store)
    const grant = await lease(store, 'k')
    await store.lookup('k', { token: 'b', leaseMs: 500 })
    expect(await store.commit(grant, Buffer.alloc(20_000), LIFETIMES)).toBe('too-large')
    await settled()
    expect(wakes).toEqual(['k'])
    expect((await store.lookup('k', { token: 'b', leaseMs: 500 })).status).toBe('leased')
  })

  it('counts a frame that replaces a smaller one', async () => {
    const store = memoryStore({ maxBytes: 10_000 })
    const { clock } = attach(store)
    for (const key of ['a', 'b']) await write(store, key, 10)
    await clock.advance(1_000)
    for (const key of ['a', 'b']) await write(store, key, 6_000)
    expect([await has(store, 'a'), await has(store, 'b')]).toEqual([false, true])
  })

  it('does not count a frame that a hit-for-miss marker or a purge has removed', async () => {
    const store = memoryStore({ maxBytes: 10_000 })
    const { clock } = attach(store)
    await write(store, 'a', 6_000)
    await clock.advance(1_000)
    await store.pass(await lease(store, 'a'), 100)
    await write(store, 'b', 6_000)
    await store.purge('b', { soft: false })
    await write(store, 'c', 6_000)
    expect(await store.lookup('a', { token: '', leaseMs: 0 })).toMatchObject({ status: 'pass' })
    expect(await has(store, 'c')).toBe(true)
  })

  it('excludes a frame that is larger by itself', async () => {
    const store = memoryStore({ maxBytes: 10_000 })
    attach(store)
    await write(store, 'small', 100)
    await write(store, 'large', 20_000)
    expect([await has(store, 'small'), await has(store, 'large')]).toEqual([true, false])
    expect(await store.lookup('large', { token: 'b', leaseMs: 500 })).toMatchObject({
      status: 'leased',
    })
  })

  it('keeps no larger buffer than a frame needs', async () => {
    const store = memoryStore()
    const { clock } = attach(store)
    const pool = Buffer.alloc(100_000)
    await store.commit(await lease(store, 'k'), pool.subarray(10, 20), LIFETIMES)
    const first = sizeOf(store).bytes
    expect(first).toBeLessThan(2_000)
    await clock.advance(1_000)
    await store.commit(await lease(store, 'k'), pool.subarray(10, 20), LIFETIMES)
    await clock.advance(1_000)
    await store.commit(await lease(store, 'k'), pool.subarray(10, 20), LIFETIMES)
    expect(sizeOf(store).bytes).toBe(first)
  })

  it('drops expired records while others are written', async () => {
    const store = memoryStore()
    const { clock } = attach(store)
    for (let i = 0; i < 100; i++) await write(store, `old${i}`, 100)
    await lease(store, 'dead')
    await store.pass(await lease(store, 'passed'), 60_000)
    await store.fail(await lease(store, 'failed'), { status: 500, message: 'x' }, 60_000, true)
    expect(sizeOf(store).entries).toBe(103)
    await clock.advance(999)
    for (let i = 0; i < 40; i++) await write(store, `young${i}`, 100)
    expect(sizeOf(store).entries).toBe(142)
    await clock.advance(1)
    for (let i = 0; i < 80; i++) await write(store, `newer${i}`, 100)
    // Records with a fresh entry, with a hit-for-miss marker, or with a failure.
    expect(sizeOf(store).entries).toBe(122)
    expect(await store.lookup('passed', { token: '', leaseMs: 0 })).toMatchObject({
      status: 'pass',
    })
    expect(await store.lookup('failed', { token: '', leaseMs: 0 })).toMatchObject({
      status: 'failed',
    })
  })

  it('always leaves room for leases, or is rejected', async () => {
    let store: StampedeStore
    try {
      store = memoryStore({ maxBytes: 0 })
    } catch (error) {
      expect(error).toMatchObject({ code: 'ERR_STAMPEDE_OPTION' })
      return
    }
    attach(store)
    await lease(store, 'k')
    expect(await store.lookup('k', { token: 'b', leaseMs: 500 })).toMatchObject({ status: 'busy' })
  })

  it.each([-1, 1.5, '64mb', Number.NaN, null])('may not be %o', (maxBytes) => {
    expect(() => memoryStore({ maxBytes: maxBytes as number })).toThrow(/^memoryStore\.maxBytes: /)
  })

  it('is suggested for a misspelt option', () => {
    const options = { maxByte: 5 } as object
    expect(() => memoryStore(options)).toThrow('did you mean maxBytes?')
  })
})

describe('fences', () => {
  it.each(['a purge', 'an eviction'])('rise after %s even within one millisecond', async (loss) => {
    const store = memoryStore({ maxBytes: 20_000 })
    attach(store)
    const first = await lease(store, 'k')
    if (loss === 'a purge') await store.purge('k', { soft: false })
    else for (let i = 0; i < 100; i++) await write(store, `other ${i}`, 1_000)
    const second = await lease(store, 'k', 'b')
    expect(BigInt(second.fence)).toBeGreaterThan(BigInt(first.fence))
    expect(await store.commit(second, Buffer.from('new'), LIFETIMES)).toBe('committed')
    expect(await store.commit(first, Buffer.from('old'), LIFETIMES)).toBe('fenced')
  })
})

describe('one store', () => {
  it('serves one Stampede, because a second one would take the wake-ups of the first', () => {
    const store = memoryStore()
    attach(store)
    expect(() => attach(store)).toThrow(expect.objectContaining({ code: 'ERR_STAMPEDE_OPTION' }))
  })

  it('drops everything when it is closed', async () => {
    const store = memoryStore()
    attach(store)
    await write(store, 'k', 10)
    await store.close()
    await store.close()
    expect(await has(store, 'k')).toBe(false)
  })

  it('wakes a process once for each wait', async () => {
    const store = memoryStore()
    const { wakes } = attach(store)
    const first = await lease(store, 'k')
    await store.lookup('k', { token: 'b', leaseMs: 500 })
    await store.lookup('k', { token: 'c', leaseMs: 500 })
    await store.fail(first, undefined, 0)
    const second = await lease(store, 'k')
    await store.fail(second, undefined, 0)
    await settled()
    expect(wakes).toEqual(['k'])
  })

  it('wakes processes that wait for a refresh of a stale entry', async () => {
    const store = memoryStore()
    const { clock, wakes } = attach(store)
    const stale = { ...LIFETIMES, staleWhileRevalidateMs: 5_000 }
    await store.commit(await lease(store, 'k'), Buffer.alloc(1), stale)
    await clock.advance(1_500)
    const grant = await lease(store, 'k')
    const reply = await store.lookup('k', { token: 'b', leaseMs: 500 })
    expect(reply).toMatchObject({ status: 'stale', busyForMs: 500 })
    await store.commit(grant, Buffer.alloc(1), stale)
    await settled()
    expect(wakes).toEqual(['k'])
  })

  it('does not make a caller wait that only reads', async () => {
    const store = memoryStore()
    const { wakes } = attach(store)
    const grant = await lease(store, 'k')
    expect(await store.lookup('k', { token: '', leaseMs: 0 })).toEqual({
      status: 'busy',
      busyForMs: 0,
    })
    await store.fail(grant, undefined, 0)
    await settled()
    expect(wakes).toEqual([])
  })
})
