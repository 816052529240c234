// No server listens at the address of Redis: each failed operation names the reason of the failed
// connection.

import { createStampede, type Stampede, type StampedeEvent } from '@stampede/core'
import { createLocks, type Locks } from '@stampede/locks'
import { redisStore } from '@stampede/redis'
import { Cluster, Redis } from 'ioredis'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { freePort } from '../harness/free-port.ts'

let port: number
let stampede: Stampede
let locks: Locks
let failures: unknown[]

/** More failures than the breaker allows before it opens. */
const TRIES = 5

function refused(of: string) {
  const why = `: not connected: connect ECONNREFUSED 127.0.0.1:${port}`
  const message = expect.stringMatching(new RegExp(`^(${of})${why}$`))
  const cause = { cause: { code: 'ECONNREFUSED' } }
  return { code: 'ERR_STAMPEDE_STORE_UNAVAILABLE', message, cause }
}

beforeEach(async () => {
  port = await freePort()
  const store = redisStore(new Redis({ port, host: '127.0.0.1', lazyConnect: true }))
  failures = []
  stampede = createStampede({ store })
  stampede.on('store.failed', ({ operation, error }: StampedeEvent & { type: 'store.failed' }) => {
    if (operation !== 'connect' && operation !== 'subscribe') failures.push(error)
  })
  locks = createLocks({ store })
})
afterEach(async () => {
  await locks.close()
  await stampede.close()
})

describe('the error of an operation without a Redis', () => {
  it('names the connection failure for a lookup, also when the circuit breaker is open', async () => {
    for (let i = 0; i < TRIES; i++) {
      expect(await stampede.getOrSet(`k${i}`, () => 'made', { ttlMs: 1_000 })).toBe('made')
    }
    expect(failures).toHaveLength(TRIES)
    for (const error of failures)
      expect(error).toMatchObject(refused('redis lookup|redis read-purges'))
  })

  it('names the connection failure for a purge', async () => {
    await expect(stampede.purge({ key: 'k' })).rejects.toMatchObject(refused('redis purge'))
    await expect(stampede.purge({ tag: 't' })).rejects.toMatchObject(refused('redis append-purge'))
  })

  it('names the connection failure for a lock, in its cause', async () => {
    for (let i = 0; i < TRIES; i++) {
      await expect(locks.tryAcquire('job')).rejects.toMatchObject({
        code: 'ERR_LOCK_UNAVAILABLE',
        cause: refused('redis acquire-lock'),
      })
    }
  })

  it('names the connection failure for a Cluster', async () => {
    const nodes = [{ port, host: '127.0.0.1' }]
    const store = redisStore(new Cluster(nodes, { lazyConnect: true }))
    const clustered = createStampede({ store })
    const purged = clustered.purge({ tag: 't' })
    await expect(purged).rejects.toMatchObject(refused('redis append-purge'))
    await clustered.close()
  })
})
