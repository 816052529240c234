// A tracer or a test replaces a method of the Redis store by a function that has all properties of
// the method. The cache has to call this function.

import { createStampede } from '@stampede/core'
import { redisStore } from '@stampede/redis'
import { Redis } from 'ioredis'
import { expect, it } from 'vitest'
import { PATIENT } from '../harness/patient.ts'
import { redisOfFile } from '../harness/redis-of-file.ts'

const { server } = await redisOfFile()

it.each(['lookup', 'commit'] as const)('a copy of the method %s is called', async (name) => {
  const store = redisStore(new Redis(server.url, { lazyConnect: true }), PATIENT)
  const method: unknown = store[name]
  if (typeof method !== 'function') throw new Error(name)
  let calls = 0
  const copy = (...args: unknown[]): unknown => {
    calls += 1
    return Reflect.apply(method, store, args)
  }
  Object.assign(store, { [name]: Object.assign(copy, { ...method }) })
  const stampede = createStampede({ store })
  expect(await stampede.getOrSet(name, () => 1, { ttlMs: 60_000 })).toBe(1)
  await expect.poll(() => calls).toBeGreaterThan(0)
  const keys = Array.from({ length: 70 }, (_, i) => `${name} ${i}`)
  const cache = stampede.cache('wrapped', { ttlMs: 60_000 })
  calls = 0
  const values = new Map(keys.map((key) => [key, key]))
  expect(await cache.getOrSetMany(keys, () => values)).toEqual(values)
  await expect.poll(() => calls).toBeGreaterThanOrEqual(keys.length)
  await cache.setMany(values)
  expect(await cache.getMany(keys)).toEqual(values)
  await stampede.close()
})

it('a store without `together` has a command for each key', async () => {
  const own = redisStore(new Redis(server.url, { lazyConnect: true }), PATIENT)
  // A wrapper of an app, as a proxy with its own list of methods.
  const store = new Proxy(own, {
    get(target, name) {
      if (name === 'together') return undefined
      const value: unknown = Reflect.get(target, name)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
  const stampede = createStampede({ store, l1: { maxEntries: 0 } })
  const cache = stampede.cache('alone', { ttlMs: 60_000 })
  const values = new Map(Array.from({ length: 70 }, (_, i) => [`k${i}`, i]))
  expect(await cache.getOrSetMany([...values.keys()], () => values)).toEqual(values)
  await expect.poll(() => stampede.stats().fills.committed).toBe(70)
  expect(await cache.getMany([...values.keys()])).toEqual(values)
  await cache.setMany(values)
  await cache.deleteMany([...values.keys()])
  expect(await cache.getMany([...values.keys()])).toEqual(new Map())
  await stampede.close()
})
