// `skip(value)`: the caller gets the value, and nothing is stored. Two processes on one store.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createStampede, type FactoryContext, type Stampede } from '../index.ts'
import { ScriptedOrigin, settled } from '../testing/index.ts'
import {
  a,
  b,
  beginTwo,
  clock,
  end,
  outcome,
  stores,
  transcript,
} from '../testing/resolve-bench.ts'
import { refuse } from '../testing/store-doubles.ts'

const OPTIONS = { ttlMs: 1_000, jitter: 0 }
const SWR = { ...OPTIONS, staleWhileRevalidateMs: 60_000 }

/** The value that a run returns, to store or to skip. */
type Made = string | { readonly skip: string; readonly skipMs?: number }

let origin: ScriptedOrigin<Made>
beforeEach(() => {
  beginTwo()
  origin = new ScriptedOrigin()
})
afterEach(end)

async function factory({ skip }: FactoryContext): Promise<string> {
  const made = await origin.factory()
  return typeof made === 'string' ? made : skip(made.skip, made.skipMs)
}

/** Calls getOrSet. The value appears in `now` when it is there. */
const get = (from: Stampede, options: object = OPTIONS): { now: unknown } =>
  outcome(from.getOrSet('k', factory, { ...OPTIONS, ...options }))

async function run(index: number, made: Made): Promise<void> {
  await origin.run(index).resolve(made)
}

/** Stores `value` in both processes. */
async function stored(value: string, options: object): Promise<void> {
  const first = get(a, options)
  await settled()
  await run(origin.calls - 1, value)
  get(b, options)
  await settled()
  expect(first.now).toBe(value)
  transcript.take()
}

describe('a skipped value', () => {
  it('goes to the leader and to calls of its process that wait, and is not stored', async () => {
    const asked = [get(a), get(a), get(a)]
    await settled()
    expect(origin.calls).toBe(1)
    await run(0, { skip: 'partial' })
    expect(asked.map(({ now }) => now)).toEqual(['partial', 'partial', 'partial'])
    expect(transcript.take()).toEqual(['a: lease.granted', 'a: fill.started', 'a: fill.skipped'])
    expect(await a.cache('x', OPTIONS).get('y')).toBe(undefined)
    expect(a.stats()).toMatchObject({
      fills: { started: 1, skipped: 1, committed: 0, passed: 0 },
      misses: 3,
    })
    const next = get(a)
    await settled()
    await run(1, 'whole')
    expect(next.now).toBe('whole')
    expect(get(b)).toBeDefined()
    await settled()
    expect(origin.calls).toBe(2)
  })

  it('makes each waiting process run its own factory at once, one per process', async () => {
    const inA = [get(a), get(a)]
    await settled()
    const inB = [get(b), get(b)]
    await settled()
    expect(origin.calls).toBe(1)
    await run(0, { skip: 'of a' })
    expect(origin.calls).toBe(2)
    const again = [get(a), get(a)]
    await settled()
    // Process b has the lease, and process a runs its factory without one.
    expect(origin.calls).toBe(3)
    expect(transcript.take().slice(-2)).toEqual(['b: fill.started', 'a: fill.started unleased'])
    await run(1, { skip: 'of b' })
    await run(2, { skip: 'of a, again' })
    expect([...inA, ...inB, ...again].map(({ now }) => now)).toEqual([
      ...['of a', 'of a', 'of b', 'of b'],
      ...['of a, again', 'of a, again'],
    ])
  })

  it('ends with a stored value, and otherwise after skipMs', async () => {
    get(a)
    await settled()
    await run(0, { skip: 'partial', skipMs: 5_000 })
    await clock.advance(4_999)
    get(a)
    get(b)
    await settled()
    expect(origin.calls).toBe(3)
    await run(1, { skip: 'partial', skipMs: 1 })
    await run(2, { skip: 'partial', skipMs: 1 })
    await clock.advance(1)
    get(a)
    const inB = get(b)
    await settled()
    expect(origin.calls).toBe(4)
    await run(3, 'whole')
    expect(inB.now).toBe('whole')
  })

  it('lets the next process lead if skipMs is 0', async () => {
    get(a)
    await settled()
    const inB = get(b)
    await settled()
    await run(0, { skip: 'partial', skipMs: 0 })
    get(a)
    await settled()
    expect(origin.calls).toBe(2)
    await run(1, 'whole')
    expect(inB.now).toBe('whole')
  })

  it('leaves a stale value as it is, and the next refresh begins after skipMs', async () => {
    await stored('old', SWR)
    await clock.advance(1_500)
    expect(get(a, SWR)).toBeDefined()
    await settled()
    expect(origin.calls).toBe(2)
    await run(1, { skip: 'partial', skipMs: 3_000 })
    expect(transcript.take()).toContain('a: fill.skipped')
    for (const each of [a, b, a, b]) {
      const asked = get(each, SWR)
      await settled()
      expect(asked.now).toBe('old')
    }
    await clock.advance(2_999)
    get(a, SWR)
    get(b, SWR)
    await settled()
    expect(origin.calls).toBe(2)
    await clock.advance(1)
    const asked = get(b, SWR)
    await settled()
    expect(asked.now).toBe('old')
    expect(origin.calls).toBe(3)
    await run(2, 'new')
    // The stale copy of process a is served once more, and looked up again.
    get(a, SWR)
    await settled()
    const inA = get(a, SWR)
    await settled()
    expect(inA.now).toBe('new')
  })

  it('leaves an older value in place of errors, in each process', async () => {
    const options = { staleIfErrorMs: 60_000 }
    await stored('old', options)
    await clock.advance(1_500)
    const first = get(a, options)
    await settled()
    await run(1, { skip: 'partial' })
    expect(first.now).toBe('partial')
    const [inA, inB] = [get(a, options), get(b, options)]
    await settled()
    for (const index of [2, 3]) origin.run(index).reject(new Error('down'))
    await settled()
    expect([inA.now, inB.now]).toEqual(['old', 'old'])
  })

  it('leaves an older value as `previous` of the next run', async () => {
    const seen: unknown[] = []
    const cache = a.cache('n', { ...OPTIONS, keepMs: 60_000 })
    for (let i = 0; i < 3; i++) {
      await cache.getOrSet('k', ({ previous, skip }) => {
        seen.push(previous?.value)
        return i === 1 ? skip('partial') : 'old'
      })
      await clock.advance(1_000)
    }
    expect(seen).toEqual([undefined, 'old', 'old'])
  })

  it('does not go to waiters that came after a purge, by key or by tag', async () => {
    for (const target of [{ key: 'k' }, { tag: 'other' }]) {
      const runs = origin.calls
      const before = get(a)
      await settled()
      await b.purge(target)
      const after = get(a)
      await settled()
      await run(runs, { skip: 'from before', skipMs: 0 })
      expect(before.now).toBe('from before')
      expect(after.now).toBe('pending')
      await run(runs + 1, { skip: 'from after', skipMs: 0 })
      expect(after.now).toBe('from after')
    }
  })

  it('needs no store', async () => {
    const alone = createStampede({ clock })
    const load = (made: Made) =>
      alone.getOrSet('k', ({ skip }) => (typeof made === 'string' ? made : skip(made.skip)), SWR)
    expect(await load({ skip: 'partial' })).toBe('partial')
    expect(await load('old')).toBe('old')
    await clock.advance(1_500)
    expect(await load({ skip: 'partial' })).toBe('old')
    await settled()
    expect(await load('new')).toBe('old')
    await clock.advance(1_000)
    expect(await load('new')).toBe('old')
    await settled()
    expect(await load('newer')).toBe('new')
    await alone.close()
  })

  it('ends its lease if the store refuses the command', async () => {
    get(a)
    await settled()
    stores.a.next('pass', refuse)
    await run(0, { skip: 'partial' })
    expect(transcript.take()).toContain('a: store.failed pass')
    const inB = get(b)
    await settled()
    await run(1, 'whole')
    expect(inB.now).toBe('whole')
  })

  it('is what callers would get if it were stored: frozen, or of the serializer', async () => {
    const value = await a.getOrSet('k', ({ skip }) => skip({ at: new Date(0) }), OPTIONS)
    expect(value).toEqual({ at: '1970-01-01T00:00:00.000Z' })
    expect(Object.isFrozen(value)).toBe(true)
    const serializer = { serialize: String, deserialize: (bytes: Buffer) => bytes.toString() }
    const texts = a.cache('texts', { ...OPTIONS, serializer })
    expect(await texts.getOrSet('k', ({ skip }) => skip(7))).toBe('7')
  })

  it('can be skipped by a wrapped function, through `this`', async () => {
    const cache = a.cache('n', OPTIONS)
    let runs = 0
    const load = cache.wrap(
      function (name: string) {
        runs += 1
        this.skip('not this one')
        return this.skip(`${name} ${runs}`)
      },
      { key: (name) => name },
    )
    expect([await load('x'), await load('x')]).toEqual(['x 1', 'x 2'])
    expect(await cache.get('x')).toBe(undefined)
  })
})

describe('skip', () => {
  const rejection = (made: (context: FactoryContext) => unknown) =>
    a.getOrSet('k', made, OPTIONS).catch((error: { code: string; message: string }) => error)

  it.each([-1, 60_001, 0.5, '1'])('rejects a skipMs of %j', async (skipMs) => {
    const error = await rejection(({ skip }) => skip(1, skipMs as number))
    expect(error).toMatchObject({
      code: 'ERR_STAMPEDE_OPTION',
      message: expect.stringMatching(/^skip: skipMs: received .* from 0 to 60000$/),
    })
  })

  it('rejects a value that cannot be returned, and the result of another call', async () => {
    expect(await rejection(({ skip }) => skip(new Map()))).toMatchObject({
      code: 'ERR_STAMPEDE_VALUE',
    })
    const nested = ({ skip }: FactoryContext) => a.getOrSet('other', () => skip(1), OPTIONS)
    expect(await rejection(nested)).toMatchObject({
      code: 'ERR_STAMPEDE_VALUE',
      message: 'getOrSet("other"): skip() of another call was returned',
    })
  })

  it('is named by the error of a ttlMs function that returns 0', async () => {
    const failing = a.getOrSet('k', () => 1, { ttlMs: () => 0 })
    await expect(failing).rejects.toThrow(
      /^getOrSet\.ttlMs\(\): received 0; to store nothing, return skip\(value\) from the factory$/,
    )
  })
})
