// getOrSetMany(keys) gives what keys.map(getOrSet) gives: the same results, frames and fences, for
// random calls, purges, failures of single keys and times.

import fc from 'fast-check'
import { expect, it } from 'vitest'
import { createStampede } from '../index.ts'
import { ManualClock, settled } from '../testing/index.ts'
import { FaultyStore, refuse } from '../testing/store-doubles.ts'

const KEYS = ['a', 'b', 'c', 'd', 'e']
type Made = 'value' | 'error' | 'map' | 'same'

const some = fc.uniqueArray(fc.constantFrom(...KEYS), { minLength: 1 })
const STEP = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('get' as const),
      keys: some,
      made: fc.array(fc.constantFrom<Made>('value', 'value', 'value', 'error', 'map', 'same'), {
        minLength: KEYS.length,
        maxLength: KEYS.length,
      }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('purge' as const), keys: some }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('set' as const), keys: some }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('pass' as const), ms: fc.nat(1_500) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('away' as const), away: fc.boolean() }) },
)
type Step = typeof STEP extends fc.Arbitrary<infer S> ? S : never
const POLICY = {
  ttlMs: 500,
  staleWhileRevalidateMs: 400,
  staleIfErrorMs: 900,
  keepMs: 2_000,
  jitter: 0,
}

/** Runs the steps. `many`: by the methods for many keys. Returns all that can be seen. */
async function run(steps: readonly Step[], many: boolean): Promise<unknown[]> {
  const clock = new ManualClock()
  const store = new FaultyStore()
  const stampede = createStampede({ store, clock, failureBackoffMs: 1 })
  const cache = stampede.cache('n', POLICY)
  const seen: unknown[] = []
  const error = (key: string) => new Error(`no ${key}`)
  const textOf = (reason: unknown) => (reason as Error).message.slice(0, 60)
  for (const [number, step] of steps.entries()) {
    if (step.do === 'pass') await clock.advance(step.ms)
    if (step.do === 'away') store.always = step.away ? refuse : undefined
    if (step.do === 'purge') {
      if (many) await cache.deleteMany(step.keys).catch(() => {})
      else await Promise.allSettled(step.keys.map((key) => cache.delete(key)))
    }
    if (step.do === 'set') {
      const value = `set ${number}`
      if (many) await cache.setMany(step.keys.map((key) => [key, value])).catch(() => {})
      else await Promise.allSettled(step.keys.map((key) => cache.set(key, value)))
    }
    if (step.do === 'get') {
      const madeOf = (key: string) => step.made[KEYS.indexOf(key)]
      const results = new Map<string, unknown>()
      if (many) {
        const asked = cache.getOrSetMany<unknown>(
          step.keys,
          (keys, { previous, notModified, fail }) => {
            const values = new Map<string, unknown>()
            for (const key of keys) {
              const made = madeOf(key)
              if (made === 'error') fail(key, error(key))
              else if (made === 'same' && previous.has(key)) notModified(key)
              else values.set(key, made === 'map' ? new Map() : `${key} ${number}`)
            }
            return values
          },
        )
        const { values = new Map(), errors = new Map() } = await asked.then(
          (all) => ({ values: all, errors: new Map() }),
          (reason) => reason,
        )
        for (const key of step.keys) {
          if (values.has(key)) results.set(key, values.get(key))
          else results.set(key, textOf(errors.get(key)))
        }
      } else {
        const asked = step.keys.map((key) =>
          cache.getOrSet<unknown>(key, ({ previous, notModified }) => {
            const made = madeOf(key)
            if (made === 'error') throw error(key)
            if (made === 'same' && previous) return notModified()
            return made === 'map' ? new Map() : `${key} ${number}`
          }),
        )
        for (const [i, result] of (await Promise.allSettled(asked)).entries())
          results.set(
            step.keys[i] as string,
            result.status === 'fulfilled' ? result.value : textOf(result.reason),
          )
      }
      seen.push([...results])
    }
    await settled()
    const fault = store.always
    store.always = undefined
    for (const key of KEYS) {
      const reply = await store.lookup(`d:=n:${key}`, { token: '', leaseMs: 0 })
      const stored = 'stored' in reply ? reply.stored : undefined
      seen.push([key, reply.status, stored && { ...stored, frame: String(stored.frame) }])
    }
    store.always = fault
  }
  await stampede.close()
  return seen
}

it('gives the results, frames and fences of one call for each key', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(STEP, { maxLength: 12 }), async (steps) => {
      expect(await run(steps, true)).toEqual(await run(steps, false))
    }),
    { numRuns: 150 },
  )
}, 120_000)
