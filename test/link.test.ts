// What a store on Redis does at the moments in which its connection goes and comes, with a clock that stands still.

import { groupOf, type StampedeStore } from '@stampede/core'
import { ManualClock } from '@stampede/core/testing'
import { redisStore } from '@stampede/redis'
import { Redis } from 'ioredis'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { names } from '../packages/redis/src/keys.ts'
import { redisOfFile } from './harness/redis-of-file.ts'
import { waitUntil } from './harness/wait-until.ts'

const LEASE_MS = 60_000

/** Goes on within a turn of the event loop, as for a process that was frozen. */
class JumpingClock extends ManualClock {
  jumpedMs = 0

  override now(): number {
    return super.now() + this.jumpedMs
  }
}

const { server, admin } = await redisOfFile()
let client: Redis
let clock: JumpingClock
let store: StampedeStore

beforeEach(async () => {
  await admin.flushall()
  clock = new JumpingClock()
  client = new Redis(server.url, { lazyConnect: true })
  store = redisStore(client)
  const ignore = () => {}
  const purges = { onPurge: ignore, onMark: ignore, onExtend: ignore, onForget: ignore }
  const doubts = { onWake: ignore, onGap: ignore, onLost: ignore, onError: ignore }
  store.attach({ clock, ...purges, ...doubts })
  await lookUp('warm')
})
afterEach(async () => {
  await admin.acl('SETUSER', 'default', 'allkeys')
  await store.close()
})

const lookUp = (key: string) => store.lookup(key, { token: `of ${key}`, leaseMs: LEASE_MS })

describe('a connection that was lost', () => {
  it('and is back is used at once, however many failed meanwhile', async () => {
    await admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
    await waitUntil('the circuit is open', async () => {
      const failures = await Promise.allSettled(['a', 'b', 'c'].map(lookUp))
      return failures.every(({ status }) => status === 'rejected')
    })
    await waitUntil('a look-up is answered', () =>
      lookUp('k').then(
        ({ status }) => status === 'leased',
        () => false,
      ),
    )
  })
})

describe('a look-up that was answered, and cannot be told whether it was purged', () => {
  it('gives back the lease that it was given', async () => {
    const { record } = names('stampede')
    const readable = [record('k'), record(groupOf('k'))].map((name) => `~${name}`)
    await admin.acl('SETUSER', 'default', 'resetkeys', ...readable)
    const asked = lookUp('k')
    // It was confirmed when it was asked, and is not any more when the answer comes.
    clock.jumpedMs = 60_000
    await expect(asked).rejects.toMatchObject({ code: 'ERR_STAMPEDE_STORE_UNAVAILABLE' })
    await waitUntil('nobody has the lease', async () => {
      const [fence, until] = await admin.hmget(record('k'), 'fence', 'until')
      return fence !== null && until === null
    })
  })
})
