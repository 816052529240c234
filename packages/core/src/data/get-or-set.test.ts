import { afterEach, describe, expect, it } from 'vitest'
import { createStampede, memoryStore, type Stampede, type StampedeStore } from '../index.ts'
import { ManualClock, ScriptedOrigin, settled, Transcript } from '../testing/index.ts'

let open: Stampede[] = []
afterEach(async () => {
  await Promise.all(open.map((stampede) => stampede.close()))
  open = []
})

function setUp(store: StampedeStore = memoryStore()) {
  const clock = new ManualClock()
  const stampede = createStampede({ store, clock, random: () => 0 })
  open.push(stampede)
  const transcript = new Transcript().record(stampede)
  const origin = new ScriptedOrigin<unknown>()
  const get = (options = {}) => stampede.getOrSet('k', origin.factory, { ttlMs: 1_000, ...options })
  return { clock, stampede, transcript, origin, get }
}

describe('a miss', () => {
  it('runs the factory once for everybody who asks meanwhile', async () => {
    const { origin, get, transcript } = setUp()
    const asked = [get(), get(), get()]
    await settled()
    expect(origin.calls).toBe(1)
    origin.run(0).resolve({ price: 5 })
    expect(await Promise.all(asked)).toEqual([{ price: 5 }, { price: 5 }, { price: 5 }])
    expect(transcript.take()).toEqual(['lease.granted', 'fill.started', 'fill.committed'])
  })

  it('is a hit afterwards, until ttlMs is over', async () => {
    const { origin, get, clock, transcript } = setUp()
    const first = get()
    await settled()
    origin.run(0).resolve('a')
    await first
    transcript.take()
    await clock.advance(999)
    expect(await get()).toBe('a')
    expect(transcript.take()).toEqual(['hit l1'])
    await clock.advance(1)
    const second = get()
    await settled()
    origin.run(1).resolve('b')
    expect(await second).toBe('b')
  })
})

describe('a stale value', () => {
  it('is answered at once while one refresh runs behind', async () => {
    const { origin, get, clock, transcript } = setUp()
    const swr = { staleWhileRevalidateMs: 5_000 }
    const first = get(swr)
    await settled()
    origin.run(0).resolve('old')
    await first
    await clock.advance(1_500)
    transcript.take()
    expect(await Promise.all([get(swr), get(swr), get(swr)])).toEqual(['old', 'old', 'old'])
    await settled()
    expect(origin.calls).toBe(2)
    expect(await get(swr)).toBe('old')
    origin.run(1).resolve('new')
    await settled()
    expect(await get(swr)).toBe('new')
    expect(transcript.take()).toEqual([
      'hit l1 stale',
      'hit l1 stale',
      'hit l1 stale',
      'lease.granted',
      'fill.started behind',
      'hit l1 stale',
      'fill.committed',
      'hit l1',
    ])
  })

  it('stands in for a failed factory within staleIfErrorMs, and no longer', async () => {
    const { origin, get, clock } = setUp()
    const sie = { staleIfErrorMs: 5_000 }
    const first = get(sie)
    await settled()
    origin.run(0).resolve('old')
    await first
    await clock.advance(2_000)
    const asked = [get(sie), get(sie)]
    await settled()
    origin.run(1).reject(new Error('down'))
    expect(await Promise.all(asked)).toEqual(['old', 'old'])
    await clock.advance(5_000)
    const late = get(sie)
    await settled()
    origin.run(2).reject(new Error('still down'))
    await expect(late).rejects.toThrow('still down')
  })
})

describe('a failure', () => {
  it('is shared with everybody who waited, and held for the back-off', async () => {
    const { origin, get, clock, transcript } = setUp()
    const asked = [get(), get(), get()].map((each) => each.catch((error: Error) => error.message))
    await settled()
    origin.run(0).reject(new Error('database down'))
    expect(await Promise.all(asked)).toEqual(Array(3).fill('database down'))
    await expect(get()).rejects.toThrow('the origin of "k" failed: database down')
    expect(origin.calls).toBe(1)
    await clock.advance(1_000)
    const next = get()
    await settled()
    expect(origin.calls).toBe(2)
    origin.run(1).resolve(1)
    expect(await next).toBe(1)
    expect(transcript.take()).toEqual([
      'lease.granted',
      'fill.started',
      'fill.failed',
      'failure.shared',
      'lease.granted',
      'fill.started',
      'fill.committed',
    ])
  })
})

describe('a purge', () => {
  it('voids a fill in flight: its caller gets the value, nobody else does', async () => {
    const { origin, get, stampede, transcript } = setUp()
    const early = get()
    await settled()
    await stampede.purge({ key: 'k' })
    const late = get()
    await settled()
    expect(origin.calls).toBe(2)
    origin.run(0).resolve('old')
    expect(await early).toBe('old')
    origin.run(1).resolve('new')
    expect(await late).toBe('new')
    expect(await get()).toBe('new')
    expect(transcript.take()).toContain('fill.fenced')
  })

  it('makes those who joined before it look again', async () => {
    const { origin, get, stampede } = setUp()
    const leader = get()
    const follower = get()
    await settled()
    await stampede.purge({ key: 'k' })
    origin.run(0).resolve('old')
    expect(await leader).toBe('old')
    await settled()
    origin.run(1).resolve('new')
    expect(await follower).toBe('new')
  })

  it('keeps the value for errors when soft', async () => {
    const { origin, get, stampede } = setUp()
    const swr = { staleWhileRevalidateMs: 5_000 }
    const first = get(swr)
    await settled()
    origin.run(0).resolve('old')
    await first
    await stampede.purge({ key: 'k' }, { soft: true })
    expect(await get(swr)).toBe('old')
    await settled()
    origin.run(1).resolve('new')
    await settled()
    expect(await get(swr)).toBe('new')
  })
})

describe('a factory that does not end', () => {
  it('is given up after originTimeoutMs for everybody but its own caller', async () => {
    const { origin, get, clock } = setUp()
    const leader = get({ originTimeoutMs: 3_000 })
    const follower = get({ originTimeoutMs: 3_000 })
    const outcome = follower.catch((error: { code: string }) => error.code)
    await clock.advance(3_000)
    expect(await outcome).toBe('ERR_STAMPEDE_ORIGIN_TIMEOUT')
    origin.run(0).resolve('late')
    expect(await leader).toBe('late')
  })
})

describe('values', () => {
  it('are what JSON makes of them for the first caller too, and cannot be changed', async () => {
    const { stampede } = setUp()
    const make = () => ({ at: new Date(0), list: [1] })
    const first = await stampede.getOrSet('v', make, { ttlMs: 1_000 })
    const second = await stampede.getOrSet('v', make, { ttlMs: 1_000 })
    expect(first).toEqual({ at: '1970-01-01T00:00:00.000Z', list: [1] })
    expect(second).toEqual(first)
    expect(() => second.list.push(2)).toThrow(TypeError)
  })

  it.each([null, false, 0, ''])('may be %o', async (value) => {
    const { stampede } = setUp()
    let calls = 0
    const make = () => {
      calls += 1
      return value
    }
    expect(await stampede.getOrSet('v', make, { ttlMs: 1_000 })).toBe(value)
    expect(await stampede.getOrSet('v', make, { ttlMs: 1_000 })).toBe(value)
    expect(calls).toBe(1)
  })

  it('may be bytes, and each caller gets their own copy', async () => {
    const { stampede } = setUp()
    const make = () => Buffer.from([0, 255])
    const first = await stampede.getOrSet<Buffer>('b', make, { ttlMs: 1_000 })
    first[0] = 9
    expect(await stampede.getOrSet<Buffer>('b', make, { ttlMs: 1_000 })).toEqual(
      Buffer.from([0, 255]),
    )
  })

  it('that JSON cannot say are refused with the fix', async () => {
    const { stampede } = setUp()
    const making = stampede.getOrSet('v', () => undefined, { ttlMs: 1_000 })
    await expect(making).rejects.toMatchObject({ code: 'ERR_STAMPEDE_VALUE' })
    await expect(stampede.getOrSet('w', () => 1n, { ttlMs: 1_000 })).rejects.toThrow('JSON')
  })
})
