// No leaks: after a hundred thousand keys and all kinds of outages, a process has the same memory
// and handles as before.

import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { assertCleanExit, type Fleet, type FleetMember, startFleet } from '../harness/fleet.ts'
import { type LeftBehind, leftBehind } from '../harness/left-behind.ts'
import { type RedisServer, startRedis } from '../harness/redis-server.ts'
import { askRedis } from '../harness/redis-wire.ts'
import { startProxy, type TcpProxy } from '../harness/tcp-proxy.ts'
import { waitUntil } from '../harness/wait-until.ts'

const KEYS = 100_000
const WARM_UP = 10_000
const MIB = 1024 * 1024
/** Measured: 2 MiB, mostly compiled code. */
const MOST_GROWTH = 4 * MIB
/** Fewer objects of a class than one per thousand keys. */
const STRAY = 95
/**
 * Node keeps the largest number of HTTP parsers for later connections. Each has its arrays and
 * functions.
 */
const POOLED: Readonly<Record<string, number>> = { HTTPParser: 250, Array: 500, Function: 1_000 }

/** The possible ends of a use: `<use>: <result>`. */
const ENDS =
  /^(value|shared value|page|order|job|lock|purge): (done|HTTP (200|500|503|504)|ECONNRESET|the origin failed|ERR_(LOCK|STAMPEDE)_[A-Z_]+)$/
const TROUBLES = [
  'value: the origin failed',
  'value: ERR_STAMPEDE_ORIGIN_TIMEOUT',
  'page: ECONNRESET',
  'page: HTTP 500',
  'order: HTTP 503',
  'job: ERR_STAMPEDE_STORE_UNAVAILABLE',
  'lock: ERR_LOCK_UNAVAILABLE',
  'purge: ERR_STAMPEDE_STORE_UNAVAILABLE',
]

interface Census {
  /** Number of objects by class. */
  readonly kinds: Record<string, number>
  /** Entries of all Maps and Sets together. */
  readonly entries: number
  readonly largest: readonly string[]
  readonly listeners: readonly number[]
  readonly onSignal: number
  readonly resources: Record<string, number>
  readonly bytes: number
}

interface Stats {
  readonly active: Record<string, number>
  readonly unleased: Record<string, number>
  readonly idempotency: Record<string, number>
  readonly l1: { readonly entries: number }
}

type Tally = Record<string, number>
type Fault = (redis: RedisServer, proxy: TcpProxy) => Promise<unknown>

const FAULTS: readonly Fault[] = [
  async () => {},
  async (_, proxy) => {
    for (let n = 0; n < 10; n++) {
      proxy.drop()
      await sleep(100)
    }
  },
  async (redis) => {
    await redis.pause()
    await sleep(1_500)
    await redis.resume()
  },
  async (redis) => {
    await redis.kill()
    await sleep(500)
    await redis.restart()
  },
  async (_, proxy) => {
    proxy.stall()
    await sleep(1_500)
    proxy.flow()
  },
  async (_, proxy) => {
    proxy.delay(40)
    await sleep(1_000)
    proxy.delay(0)
  },
  (redis) => askRedis(redis, 'FLUSHALL'),
  (redis) => askRedis(redis, 'CLIENT KILL TYPE pubsub'),
  async (_, proxy) => {
    await proxy.refuse()
    proxy.drop()
    await sleep(700)
    await proxy.accept()
  },
  async (redis) => {
    await askRedis(redis, 'SCRIPT FLUSH')
    await askRedis(redis, 'CONFIG SET maxmemory 1')
    await sleep(700)
    await askRedis(redis, 'CONFIG SET maxmemory 0')
  },
]

describe(`a process that has used ${KEYS} keys while Redis was unavailable in every way`, () => {
  let redis: RedisServer
  let proxy: TcpProxy
  let fleet: Fleet
  let member: FleetMember
  const tally: Tally = {}
  let before: Census
  let left: LeftBehind
  let after: Census

  /** One part of the keys for each fault, which begins in the middle of the part. */
  async function use(from: number, count: number): Promise<void> {
    const part = count / FAULTS.length
    for (const [i, fault] of FAULTS.entries()) {
      const begin = from + i * part
      const working = member.ask<Tally>({ type: 'work', from: begin, to: begin + part }, 120_000)
      const [results] = await Promise.all([working, sleep(100).then(() => fault(redis, proxy))])
      for (const [name, times] of Object.entries(results)) tally[name] = (tally[name] ?? 0) + times
    }
  }

  /** Nothing is under way, and no lease is held. */
  async function quiet(): Promise<LeftBehind> {
    await waitUntil('nothing is under way', async () => {
      const stats = await member.ask<Stats[]>({ type: 'stats' })
      return stats.every(({ active, unleased, idempotency: { running, unstored } }) =>
        [active, unleased, { running, unstored }].every((each) =>
          Object.values(each).every((n) => n === 0),
        ),
      )
    })
    await waitUntil('every lease is over', async () => (await leftBehind(redis)).held.length === 0)
    return leftBehind(redis)
  }

  /** Redis is emptied, so no memory may keep any of its entries. */
  async function forgotten(): Promise<void> {
    await askRedis(redis, 'FLUSHALL')
    proxy.drop()
    await waitUntil('memory is empty', async () => {
      const stats = await member.ask<Stats[]>({ type: 'stats' })
      return stats.every(({ l1 }) => l1.entries === 0)
    })
  }

  const takeCensus = () => member.ask<Census>({ type: 'census' }, 60_000)

  beforeAll(async () => {
    redis = await startRedis()
    proxy = await startProxy(redis.port)
    const entry = new URL('../harness/servers/leak-app.mjs', import.meta.url)
    fleet = await startFleet({ size: 1, entry, env: { REDIS_URL: proxy.url } })
    member = fleet.members[0] as FleetMember
    // The process keeps a thousand recently used keys.
    await member.ask({ type: 'work', from: 0, to: 1_500, only: 'purge' }, 60_000)
    // It also keeps two thousand recently used URLs.
    await member.ask({ type: 'work', from: 200_000, to: 202_100, only: 'page' }, 60_000)
    await use(1, WARM_UP)
    await quiet()
    await forgotten()
    before = await settled(takeCensus)
    await use(1 + WARM_UP, KEYS)
    left = await quiet()
    await forgotten()
    after = await settled(takeCensus)
  }, 300_000)
  afterAll(async () => {
    await fleet?.stop()
    await Promise.all([proxy?.stop(), redis?.stop()])
  })

  it('got only expected results for these keys, and each listed failure at least once', () => {
    expect(Object.values(tally).reduce((a, b) => a + b)).toBe(WARM_UP + KEYS)
    expect(Object.keys(tally).filter((name) => !ENDS.test(name))).toEqual([])
    // The run had events: each of these is an outage, a refusal, a bad origin or a client that
    // left.
    for (const name of TROUBLES) expect(tally[name], name).toBeGreaterThan(0)
  })

  it('left in Redis no lease, and no record without a TTL except the purge log', () => {
    const history = ['log', 'marks', 'meta'].map((name) => `leaks:4:{purges}:${name}`)
    expect(left).toMatchObject({ held: [], lasting: history })
  })

  it('has no more objects of any kind than before, and no more entries in its maps', () => {
    const grown = Object.entries(after.kinds).filter(([kind, count]) => {
      return count > (before.kinds[kind] ?? 0) + (POOLED[kind] ?? STRAY)
    })
    expect(grown.map(([kind, count]) => `${kind}: ${before.kinds[kind]}, then ${count}`)).toEqual(
      [],
    )
    expect(after.entries, after.largest.join('\n')).toBeLessThan(before.entries + STRAY)
  })

  it('has the same sockets, handles and listeners as before', () => {
    expect(after.resources).toEqual(before.resources)
    expect(after.listeners).toEqual(before.listeners)
    expect([before.onSignal, after.onSignal]).toEqual([0, 0])
  })

  it(`has grown by less than ${MOST_GROWTH / MIB} MiB, ${Math.round(MOST_GROWTH / KEYS)} bytes a key`, async ({
    annotate,
  }) => {
    await annotate(JSON.stringify({ tally, left, before, after }))
    expect(after.bytes - before.bytes).toBeLessThan(MOST_GROWTH)
  })

  it('ends by itself, without output', async () => {
    await assertCleanExit(member)
  })
})

/** Repeats until no more resources end, such as a returned lease or a closing socket. */
async function settled(take: () => Promise<Census>): Promise<Census> {
  for (let last = await take(); ; ) {
    await sleep(2_500)
    const next = await take()
    const kinds = ['Timeout', 'Promise', 'Socket', 'AbortSignal']
    if (kinds.every((kind) => (next.kinds[kind] ?? 0) >= (last.kinds[kind] ?? 0))) return next
    last = next
  }
}
