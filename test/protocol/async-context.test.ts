// Replies of Redis come in the async context of any request. Each factory still runs in that of its
// own call, because it may take a tenant, a user or a transaction from it.

import { AsyncLocalStorage } from 'node:async_hooks'
import { createStampede, type Stampede } from '@stampede/core'
import { redisStore } from '@stampede/redis'
import { Redis } from 'ioredis'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { PATIENT } from '../harness/patient.ts'
import { redisOfFile } from '../harness/redis-of-file.ts'

const { server, admin } = await redisOfFile()
const tenants = new AsyncLocalStorage<string>()
const NAMES = ['a', 'b', 'c']
const OPTIONS = { ttlMs: 60_000, staleWhileRevalidateMs: 60_000, jitter: 0 }

let stampede: Stampede
beforeEach(async () => {
  await admin.flushall()
  const store = redisStore(new Redis(server.url, { lazyConnect: true }), PATIENT)
  stampede = createStampede({ store })
})
afterEach(() => stampede.close())

const ask = () =>
  Promise.all(
    NAMES.map((name) =>
      tenants.run(name, () =>
        stampede.getOrSet(name, async () => tenants.getStore() ?? 'none', OPTIONS),
      ),
    ),
  )

describe('calls of getOrSet in one turn', () => {
  it('run their factories in their own async contexts while the store connects', async () => {
    expect(await ask()).toEqual(NAMES)
  })

  it('run their factories in their own async contexts over a used connection', async () => {
    await stampede.getOrSet('first', () => 1, OPTIONS)
    expect(await ask()).toEqual(NAMES)
  })

  it('refresh stale values in their own async contexts', async () => {
    await ask()
    await expect.poll(() => stampede.stats().fills.committed).toBe(3)
    const refreshed = NAMES.map((name) => `refreshed by ${name}`)
    for (const key of NAMES) await stampede.purge({ key }, { soft: true })
    const again = NAMES.map((name) =>
      tenants.run(`refreshed by ${name}`, () =>
        stampede.getOrSet(name, async () => tenants.getStore() ?? 'none', OPTIONS),
      ),
    )
    expect(await Promise.all(again)).toEqual(NAMES)
    await expect.poll(ask).toEqual(refreshed)
  })
})
