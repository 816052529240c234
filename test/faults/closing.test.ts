// close() of a Stampede on Redis while a slow fill runs: its waiters in this process get the result
// of the fill, and another process may fill the key at once.

import { createStampede, type Stampede } from '@stampede/core'
import { ManualClock, ScriptedOrigin } from '@stampede/core/testing'
import { redisStore } from '@stampede/redis'
import { Redis } from 'ioredis'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { PATIENT } from '../harness/patient.ts'
import { type RedisServer, startRedis } from '../harness/redis-server.ts'

let server: RedisServer
let open: Stampede[] = []
beforeAll(async () => {
  server = await startRedis()
})
afterEach(async () => {
  await Promise.all(open.map((stampede) => stampede.close()))
  open = []
})
afterAll(() => server.stop())

const LONG = { ttlMs: 60_000, originTimeoutMs: 60_000, waitMs: 60_000, leaseMs: 60_000 }

function processOn(clock?: ManualClock) {
  const redis = new Redis(server.url, { lazyConnect: true })
  const stampede = createStampede({ store: redisStore(redis, PATIENT), ...(clock && { clock }) })
  const origin = new ScriptedOrigin<string>()
  open.push(stampede)
  return { stampede, origin, get: (key: string) => stampede.getOrSet(key, origin.factory, LONG) }
}

describe('close() during a slow fill on Redis', () => {
  it.each([
    [1_000, 'is stored'],
    [2_600, 'is not stored'],
  ])('lets one run of %d ms serve all waiters, and its value %s', async (tookMs, isStored) => {
    const clock = new ManualClock()
    const { stampede, origin, get } = processOn(clock)
    const key = `page${tookMs}`
    const asked = Array.from({ length: 200 }, () => get(key))
    await expect.poll(() => origin.calls).toBe(1)
    const closed = stampede.close()
    let isClosed = false
    void closed.then(() => (isClosed = true))
    const end = async () => {
      origin.run(0).resolve('slow')
      expect(new Set(await Promise.all(asked))).toEqual(new Set(['slow']))
    }
    await clock.advance(Math.min(tookMs, 2_010))
    if (tookMs < 2_000) await end()
    await expect.poll(() => clock.advance(10).then(() => isClosed)).toBe(true)
    if (tookMs > 2_000) await end()
    expect(origin.calls).toBe(1)
    // The lease has ended, so another process does not wait for it.
    const other = processOn()
    const value = other.get(key)
    if (isStored === 'is not stored') {
      await expect.poll(() => other.origin.calls).toBe(1)
      other.origin.run(0).resolve('own')
    }
    expect(await value).toBe(isStored === 'is stored' ? 'slow' : 'own')
  })

  it('lets one run serve all waiters whose key another process fills', async () => {
    const filler = processOn()
    const first = filler.get('shared')
    await expect.poll(() => filler.origin.calls).toBe(1)
    const clock = new ManualClock()
    const { stampede, origin, get } = processOn(clock)
    const isWaiting = new Promise<void>((resolve) => stampede.on('wait.started', () => resolve()))
    const asked = Array.from({ length: 50 }, () => get('shared'))
    await isWaiting
    const closed = stampede.close()
    await clock.advance(2_010)
    await closed
    await expect.poll(() => origin.calls).toBe(1)
    origin.run(0).resolve('own')
    expect(new Set(await Promise.all(asked))).toEqual(new Set(['own']))
    filler.origin.run(0).resolve('value')
    expect(await first).toBe('value')
    expect(origin.calls).toBe(1)
  })
})
