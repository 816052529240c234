// A commit that Redis runs late: the entry would count as new at that moment, although its value is
// older than its lifetime.

import { createStampede, type Stampede } from '@stampede/core'
import { redisStore } from '@stampede/redis'
import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { createGate } from '../harness/origin.ts'
import { redisOfFile } from '../harness/redis-of-file.ts'

type RedisClient = Parameters<typeof redisStore>[0]

const TTL_MS = 250
const BUDGET_MS = 100

const { server, admin } = await redisOfFile()
beforeEach(() => admin.flushall())
afterEach(() => server.resume())

function open(client: RedisClient, commandTimeoutMs = BUDGET_MS) {
  const store = redisStore(client, { commandTimeoutMs })
  const stampede = createStampede({ store })
  onTestFinished(() => stampede.close())
  return stampede
}

const CLIENTS: Array<readonly [string, (url: string) => RedisClient]> = [
  ['ioredis', (url) => new Redis(url, { lazyConnect: true })],
  ['node-redis', (url) => createClient({ url })],
]

describe.each(CLIENTS)('a commit by %s', (_, connect) => {
  it('writes nothing if Redis is stopped before it and continues after four lifetimes', async () => {
    const [filler, other] = [open(connect(server.url)), open(connect(server.url))]
    const policy = { ttlMs: TTL_MS, jitter: 0 }
    for (const each of [filler, other]) await each.getOrSet('warm', async () => 1, policy)
    const [begun, gate] = [createGate(), createGate()]
    const make = async () => ({ madeAt: performance.now() })
    const filling = filler.getOrSet(
      'k',
      async () => {
        const value = await make()
        begun.open()
        await gate.opened
        return value
      },
      policy,
    )
    await begun.opened
    await server.pause()
    gate.open()
    const { madeAt } = await filling
    while (performance.now() < madeAt + 4 * TTL_MS) {
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
    const resumedAt = performance.now()
    await server.resume()
    for (const each of [filler, other, filler]) {
      const served = await each.getOrSet('k', make, policy)
      expect(served.madeAt).toBeGreaterThan(resumedAt)
    }
  })

  it('is repeated with the rest of the lifetime, and with a deadline of its own', async () => {
    // Long enough for a busy machine to send a command in it.
    const [filler, other] = [1, 2].map(() => open(connect(server.url), 2_000)) as [
      Stampede,
      Stampede,
    ]
    const policy = { ttlMs: 60_000 }
    for (const each of [filler, other]) await each.getOrSet('warm', async () => 1, policy)
    const events: string[] = []
    const filled = filler.getOrSet(
      'k',
      async () => {
        await server.pause()
        // The commit of `warm` has its reply by now, so its event is not among these.
        filler.on('store.failed', ({ operation, error }) => {
          events.push(`${operation} ${error}`)
          // The first commit had no reply within its budget. Redis continues for the second one.
          void server.resume()
        })
        filler.on('fill.committed', () => events.push('committed'))
        return 'value'
      },
      policy,
    )
    expect(await filled).toBe('value')
    const both = [expect.stringContaining('commit'), 'committed']
    await expect.poll(() => events).toEqual(both)
    expect(await other.getOrSet('k', async () => 'other', policy)).toBe('value')
  })
})
