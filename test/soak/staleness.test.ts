// The bound of the README: once a purge has resolved, no process serves an older entry for longer
// than 5 seconds. Each member of one fleet has its own trouble with Redis, and the same purge is
// for all.

import { setTimeout as sleep } from 'node:timers/promises'
import { createStampede, type PurgeTarget } from '@stampede/core'
import { CONFIRMED_FOR_MS } from '@stampede/core/store'
import { redisStore } from '@stampede/redis'
import { Redis } from 'ioredis'
import { describe, expect, it } from 'vitest'
import { type CachedFleet, startCachedFleet } from '../harness/cached-fleet.ts'
import type { FleetMember } from '../harness/fleet.ts'
import { ask } from '../harness/load.ts'
import { type RedisServer, startRedis } from '../harness/redis-server.ts'
import { startProxy, type TcpProxy } from '../harness/tcp-proxy.ts'

/** The trouble of a member: started before the purge, and ended after it. */
interface Trouble {
  readonly name: string
  readonly bus?: 'subscribers'
  before?(proxy: TcpProxy, member: FleetMember): void
  after?(proxy: TcpProxy, member: FleetMember): Promise<void> | void
}

const TROUBLES: readonly Trouble[] = [
  { name: 'none' },
  {
    name: 'the bus connection is reset again and again',
    bus: 'subscribers',
    before: (proxy) => proxy.drop(),
    async after(proxy) {
      for (let n = 0; n < 10; n++) {
        await sleep(200)
        proxy.drop()
      }
    },
  },
  {
    name: 'the bus is 3 s late',
    bus: 'subscribers',
    before: (proxy) => proxy.delay(3_000),
  },
  {
    name: 'the bus is cut off without a word',
    bus: 'subscribers',
    before: (proxy) => proxy.stall(),
  },
  {
    name: 'Redis is cut off without a word',
    before: (proxy) => proxy.stall(),
  },
  {
    name: 'Redis is cut off, and comes back',
    before: (proxy) => proxy.stall(),
    async after(proxy) {
      await sleep(2_000)
      proxy.flow()
    },
  },
  {
    name: 'the process is frozen, and goes on',
    before: (_, member) => member.pause(),
    async after(_, member) {
      await sleep(6_000)
      member.resume()
    },
  },
]

const TARGETS: ReadonlyArray<readonly [string, PurgeTarget]> = [
  ['a tag', { tag: 'pages' }],
  ['a key', { key: '/page' }],
  ['everything', { all: true }],
]

/** A response that was sent just in time arrives a little later. */
const ON_THE_WAY_MS = 300

/** Long enough to detect a response that comes too late. */
const WATCHED_MS = CONFIRMED_FOR_MS + 2_500

describe('the old response after a purge', () => {
  it.each(TARGETS)(
    'is gone everywhere within five seconds: %s, also after the log was trimmed meanwhile',
    async (_, target) => {
      const redis = await startRedis()
      const proxies = await Promise.all(
        TROUBLES.map(({ bus }) =>
          startProxy(redis.port, redis.host, bus === undefined ? {} : { affects: bus }),
        ),
      )
      await using fleet = await startCachedFleet({
        redis,
        size: TROUBLES.length,
        redisUrl: proxies.map(({ url }) => url).join(','),
        cache: { ttlMs: 600_000, jitter: 0, tags: ['pages'] },
      })
      try {
        const lateMs = await watchPurge(fleet, redis, proxies, target)
        const report = Object.fromEntries(TROUBLES.map(({ name }, i) => [name, lateMs[i]]))
        for (const [name, ms] of Object.entries(report)) {
          expect(ms, `${name}: ${JSON.stringify(report)}`).toBeLessThanOrEqual(
            CONFIRMED_FOR_MS + ON_THE_WAY_MS,
          )
        }
        expect(report.none).toBeLessThanOrEqual(1_000)
      } finally {
        await Promise.all(proxies.map((proxy) => proxy.stop()))
      }
    },
  )
})

/** For each member: how long after the purge it still served the old response. */
async function watchPurge(
  fleet: CachedFleet,
  redis: RedisServer,
  proxies: readonly TcpProxy[],
  target: PurgeTarget,
): Promise<number[]> {
  const { origin, members } = fleet
  origin.answer('/page', { body: 'old' })
  // Twice, because the second response comes from memory.
  for (const url of [...fleet.urls('/page'), ...fleet.urls('/page')]) {
    expect(await ask(url)).toMatchObject({ status: 200, body: 'old' })
  }
  expect(origin.calls('/page')).toBe(1)
  const each = members.map((member, i) => ({
    member,
    proxy: proxies[i] as TcpProxy,
    trouble: TROUBLES[i] as Trouble,
  }))
  for (const { trouble, proxy, member } of each) trouble.before?.(proxy, member)

  const purger = createStampede({ store: redisStore(new Redis(redis.url, { lazyConnect: true })) })
  origin.answer('/page', { body: 'new' })
  await purger.purge(target)
  const purgedAt = performance.now()
  await trimLog(redis)
  const after = each.map(({ trouble, proxy, member }) => trouble.after?.(proxy, member))
  const lateMs = await Promise.all(members.map(({ url }) => lastOld(`${url}/page`, purgedAt)))
  await Promise.all(after)
  await purger.close()
  return lateMs
}

/** Requests until the old response no longer comes. The last old one counts. */
async function lastOld(url: string, purgedAt: number): Promise<number> {
  let last = 0
  while (performance.now() < purgedAt + WATCHED_MS) {
    const { status, body } = await ask(url)
    expect(status).toBe(200)
    if (body === 'old') last = performance.now() - purgedAt
    await sleep(25)
  }
  return last
}

/** The log no longer has the purge. */
async function trimLog(redis: RedisServer): Promise<void> {
  const admin = new Redis(redis.url)
  for (const key of await admin.keys('*')) {
    if ((await admin.type(key)) === 'stream') await admin.xtrim(key, 'MAXLEN', 0)
  }
  admin.disconnect()
}
