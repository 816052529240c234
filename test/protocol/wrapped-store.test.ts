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
  await stampede.close()
})
