// A call of a Redis store that is not open is refused in a later turn of the event loop, also
// without a promise, so that a caller has finished its own step before it hears of the refusal.

import { createStampede, type StampedeStore } from '@stampede/core'
import { redisStore } from '@stampede/redis'
import { Redis } from 'ioredis'
import { describe, expect, it } from 'vitest'
import { PATIENT } from '../harness/patient.ts'
import { redisOfFile } from '../harness/redis-of-file.ts'

const { server } = await redisOfFile()
const newStore = (): StampedeStore =>
  redisStore(new Redis(server.url, { lazyConnect: true }), PATIENT)

const grant = { key: 'd:k', token: 't', fence: '1' }
const lifetimes = {
  ...{ freshMs: 1_000, staleWhileRevalidateMs: 0, staleIfErrorMs: 0, keepMs: 0 },
  physicalMs: 2_000,
}
const CALLS: ReadonlyArray<readonly [name: 'lookup' | 'commit', args: readonly unknown[]]> = [
  ['lookup', ['d:k', { leaseMs: 1_000 }]],
  ['commit', [grant, new Uint8Array(3), lifetimes, false]],
  // A frame that is too large for Redis ends the lease instead.
  ['commit', [grant, new Uint8Array(5 * 1024 * 1024), lifetimes, false]],
]

describe.each([
  ['was never passed to createStampede', async () => newStore()],
  [
    'was closed',
    async () => {
      const store = newStore()
      await createStampede({ store }).close()
      return store
    },
  ],
])('a store that %s', (_, start) => {
  it.each(CALLS)('refuses %s in a later turn', async (name, args) => {
    const store = await start()
    const order: string[] = []
    const refused = new Promise<unknown>((resolve) => {
      const reject = (error: unknown): void => {
        order.push('refused')
        resolve(error)
      }
      const { direct } = store[name] as { direct?: (...args: unknown[]) => void }
      if (direct === undefined) throw new Error(`${name} has no twin`)
      Reflect.apply(direct, store, [...args, { resolve: reject, reject }])
      order.push('returned')
    })
    expect(await refused).toMatchObject({ code: 'ERR_STAMPEDE_STORE_UNAVAILABLE' })
    expect(order).toEqual(['returned', 'refused'])
    const promise = Reflect.apply(store[name] as () => Promise<unknown>, store, args)
    await expect(promise).rejects.toMatchObject({ code: 'ERR_STAMPEDE_STORE_UNAVAILABLE' })
  })
})
