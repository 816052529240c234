// The limit of idempotency keys that memoryStore keeps.

import { memoryStore } from '@stampede/core'
import { ManualClock } from '@stampede/core/testing'
import { describe, expect, it } from 'vitest'

describe('memoryStore with its largest number of idempotency keys', () => {
  it('forgets no key to make room, and refuses new keys until some have expired', async () => {
    const { idempotency: store } = memoryStore()
    const manual = new ManualClock()
    const ignore = () => {}
    const hooks = { onWake: ignore, onSettled: ignore, onGap: ignore, onLost: ignore }
    store.attach({ ...hooks, clock: manual, onBack: ignore, onError: ignore })
    const begin = async (key: string, retentionMs = 60_000) =>
      store.begin(key, {
        token: key,
        fingerprints: { exact: 'e', canonical: '' },
        leaseMs: 1_000,
        retentionMs,
        maxAttempts: 3,
        keepUncertainMs: 60_000,
        wait: false,
      })
    const first = await begin('first')
    for (let i = 1; i < 100_000; i++) await begin(`${i}`, i < 90_000 ? 60_000 : 10_000)
    await expect(begin('one more')).rejects.toMatchObject({
      code: 'ERR_STAMPEDE_STORE_UNAVAILABLE',
    })
    // Stored keys are still replayed.
    expect(await begin('first')).toEqual(first)
    await manual.advance(5_000)
    expect(await begin('1')).toMatchObject({ status: 'begun', attempt: 2 })
    await expect(begin('one more')).rejects.toThrow('100000 keys or')
    await manual.advance(5_000)
    for (let i = 0; i < 10_000; i++) await begin(`new ${i}`)
    await expect(begin('one more')).rejects.toThrow('100000 keys or')
    expect(await begin('2')).toMatchObject({ status: 'begun', attempt: 2 })
  })
})
