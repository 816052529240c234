// What one process alone has to mind: memory. The contract is run by test/idempotency-stores.test.ts.

import { describe, expect, it } from 'vitest'
import { ManualClock } from '../testing/index.ts'
import { MemoryIdempotency } from './memory-idempotency.ts'

const MIB = 1024 * 1024
const FINGERPRINTS = { exact: 'e', canonical: '' }

function setUp() {
  const clock = new ManualClock()
  const store = new MemoryIdempotency()
  const ignore = () => {}
  const hooks = { onWake: ignore, onSettled: ignore, onGap: ignore, onLost: ignore }
  store.attach({ ...hooks, clock, onError: ignore })
  const begin = async (key: string) => {
    const reply = await store.begin(key, {
      token: key,
      fingerprints: FINGERPRINTS,
      leaseMs: 1_000,
      retentionMs: 60_000,
      onLeaseExpired: 'takeover',
      maxAttempts: 3,
      keepUncertainMs: 60_000,
      wait: false,
    })
    if (reply.status !== 'begun') throw new Error(reply.status)
    return reply.grant
  }
  const complete = async (key: string, frame: Uint8Array) =>
    store.finish(await begin(key), { as: 'completed', frame, keepMs: 60_000 }, FINGERPRINTS)
  return { clock, store, begin, complete }
}

describe('what is remembered in this process', () => {
  it('is bounded in bytes: nothing new begins, nothing is forgotten, until some has expired', async () => {
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

  it('has room again when an operator settles a large answer away', async () => {
    const { store, begin, complete } = setUp()
    await complete('a', new Uint8Array(256 * MIB))
    await expect(begin('b')).rejects.toThrow('bytes are remembered')
    await store.settle('a', { as: 'released', keepMs: 60_000 }, { force: true })
    expect(await begin('b')).toMatchObject({ key: 'b' })
  })
})
