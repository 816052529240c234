// Cases that the contract in @stampede/testkit lacks: two tokens of one process in the queue.

import { describe, expect, it } from 'vitest'
import type { Grant } from '../ports/grant.ts'
import { ManualClock, settled } from '../testing/index.ts'
import { MemoryLocks } from './memory-locks.ts'

function setUp() {
  const clock = new ManualClock()
  const store = new MemoryLocks()
  const granted: Grant[] = []
  const ignore = () => {}
  store.attach({
    clock,
    onGrant: (grant) => void granted.push(grant),
    onGap: ignore,
    onLost: ignore,
    onError: ignore,
  })
  const acquire = (token: string, queue: boolean) =>
    store.acquire('k', { token, leaseMs: 1_000, queue })
  return { clock, store, granted, acquire }
}

describe('a lock in memory', () => {
  it('is handed over under the token of the release, not under an earlier token of the process', async () => {
    const { store, granted, acquire } = setUp()
    const reply = await acquire('holder', false)
    if (reply.status !== 'granted') throw new Error(reply.status)
    expect((await acquire('earlier', true)).status).toBe('busy')
    const released = await store.release(reply.grant, { token: 'now', leaseMs: 1_000 })
    expect(released).toMatchObject({ status: 'released', granted: { grant: { token: 'now' } } })
    await settled()
    expect(granted).toEqual([])
  })

  it('goes to the queued token when the holder dies, and not to a token outside of the queue', async () => {
    const { clock, granted, acquire } = setUp()
    await acquire('dead', false)
    await acquire('queued', true)
    await clock.advance(1_000)
    expect((await acquire('overtaker', false)).status).toBe('busy')
    await settled()
    expect(granted).toMatchObject([{ key: 'k', token: 'queued' }])
  })
})
