// The cases of test/http/CASES.md that need processes and a Redis. The fleets have one member of
// each platform (Express 5 and 4, Koa 3 and 2, node:http), and share their entries.

import { createStampede } from '@stampede/core'
import { redisStore } from '@stampede/redis'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { plantings } from '../contracts/http/plantings.ts'
import { frameworks } from '../harness/apps.ts'
import {
  type CachedFleet,
  type CachedFleetOptions,
  startCachedFleet,
} from '../harness/cached-fleet.ts'
import type { FleetMember } from '../harness/fleet.ts'
import { type Answer, ask, burst } from '../harness/load.ts'
import { createGate } from '../harness/origin.ts'
import { PATIENT } from '../harness/patient.ts'
import { type RedisServer, startRedis } from '../harness/redis-server.ts'
import { startProxy, type TcpProxy } from '../harness/tcp-proxy.ts'

const PLATFORMS = ['express', 'express4', 'koa', 'koa2', 'node']
const BUDGET_MS = 250

interface Stats {
  readonly fills: { readonly fenced: number }
}

const start = (options: CachedFleetOptions = {}) =>
  startCachedFleet({ framework: PLATFORMS.join(), size: PLATFORMS.length, ...options })

const bodies = (answers: readonly Answer[]) => new Set(answers.map(({ body }) => body))

/** A member reports each event once. Read the earlier ones first. */
async function told(member: Pick<FleetMember, 'ask'>, event: string): Promise<void> {
  await expect
    .poll(async () => (await member.ask<string[]>({ type: 'events' })).includes(event), {
      interval: 10,
    })
    .toBe(true)
}

function expectServed(answers: readonly Answer[], withinMs = 20_000): void {
  expect(answers.filter(({ status }) => status !== 200)).toEqual([])
  expect(Math.max(...answers.map(({ latencyMs }) => latencyMs))).toBeLessThan(withinMs)
}

/** Fills a page through one process and reads it in the others. Only Redis can carry it. */
async function expectSharedAgain(fleet: CachedFleet): Promise<void> {
  let n = 0
  const isShared = async () => {
    n += 1
    const answers: Answer[] = []
    for (const url of fleet.urls(`/again/${n}`)) answers.push(await ask(url))
    return bodies(answers).size === 1
  }
  await expect.poll(isShared, { timeout: 40_000, interval: 100 }).toBe(true)
}

/** One fleet for all tests of a suite, because most of their time is the start of processes. */
function shared(options: CachedFleetOptions): { readonly fleet: CachedFleet } {
  let fleet: CachedFleet | undefined
  beforeAll(async () => {
    fleet = await start(options)
  })
  // Every member that was not killed must end by itself, in time, without output.
  afterAll(() => fleet?.[Symbol.asyncDispose]())
  return {
    get fleet() {
      if (fleet === undefined) throw new Error('The fleet did not start')
      return fleet
    },
  }
}

describe('a fleet of all platforms', () => {
  const LEASE_MS = 600
  const suite = shared({
    size: PLATFORMS.length + 1,
    cache: { ttlMs: 60_000, leaseMs: LEASE_MS },
  })
  beforeAll(() => suite.fleet.warmUp())

  it('runs the origin once in all for 100 cold requests to each process, with any leader', async () => {
    const { fleet } = suite
    const gate = createGate()
    fleet.origin.answer('/cold', { gate })
    const asked = burst(fleet.urls('/cold'), 600)
    await fleet.origin.arrived('/cold')
    gate.open()
    expect(bodies(await asked)).toEqual(new Set(['/cold #1']))
    expect(fleet.origin.calls('/cold')).toBe(1)
  })

  it('runs a handler once that takes longer than its lease, with any leader', async () => {
    const { fleet } = suite
    const paths = PLATFORMS.map((platform) => `/slow/${platform}`)
    for (const path of paths) fleet.origin.answer(path, { delayMs: 2 * LEASE_MS })
    const asked = paths.map(async (path, index) => {
      const leading = ask(fleet.member(index).url + path)
      await fleet.origin.arrived(path)
      return [await leading, ...(await burst(fleet.urls(path), 12))]
    })
    for (const [i, answers] of (await Promise.all(asked)).entries()) {
      expect(bodies(answers)).toEqual(new Set([`${paths[i]} #1`]))
    }
  })

  it('removes a purged entry from the memory of every process', async () => {
    const { fleet } = suite
    for (const [index, member] of fleet.members.entries()) {
      const path = `/purged/${index}`
      await burst(fleet.urls(path), 12)
      await member.ask({ type: 'purge', key: path })
      await expect
        .poll(async () => bodies(await burst(fleet.urls(path), 6)), { interval: 5 })
        .toEqual(new Set([`${path} #2`]))
    }
  })

  it('refuses the commit of a process frozen past its lease, on each platform', async () => {
    const { fleet } = suite
    for (const [index, platform] of PLATFORMS.entries()) {
      const late = fleet.member(index)
      const gate = createGate()
      const path = `/frozen/${platform}`
      fleet.origin.answer(path, ({ number }) =>
        number === 1 ? { body: 'late', gate } : { body: 'newer' },
      )
      const answered = ask(late.url + path)
      await fleet.origin.arrived(path)
      late.pause()
      expect((await ask(fleet.member(index + 1).url + path)).body).toBe('newer')
      gate.open()
      late.resume()
      expect((await answered).body).toBe('late')
      expect(bodies(await burst(fleet.urls(path), 12))).toEqual(new Set(['newer']))
      expect((await late.ask<Stats>({ type: 'stats' })).fills.fenced).toBe(1)
    }
  })

  it('continues within a lease when the leader is killed, on each platform in turn', async () => {
    const { fleet } = suite
    const last = fleet.member(PLATFORMS.length)
    for (const [index, platform] of PLATFORMS.entries()) {
      const gate = createGate()
      const path = `/killed/${platform}`
      fleet.origin.answer(path, ({ number }) => (number === 1 ? { gate } : { body: 'filled' }))
      await last.ask({ type: 'events' })
      const lost = ask(fleet.member(index).url + path)
      await fleet.origin.arrived(path)
      const waiting = burst(fleet.urls(path).slice(index + 1), 30)
      await told(last, 'wait.started')
      const killedAt = performance.now()
      await fleet.member(index).kill()
      expect(bodies(await waiting)).toEqual(new Set(['filled']))
      expect(performance.now() - killedAt, platform).toBeLessThan(20_000)
      gate.open()
      expect((await lost).status).toBe(0)
      expect(fleet.origin.calls(path)).toBe(2)
    }
  })
})

describe('a fleet of all platforms without L1', () => {
  const suite = shared({ stampede: { l1: { maxBytes: 0 } } })
  let admin: Redis
  beforeAll(async () => {
    await suite.fleet.warmUp()
    admin = new Redis(suite.fleet.redis.url)
  })
  afterAll(() => admin.disconnect())

  it('runs the handler of each key once or twice more when Redis loses everything under load', async () => {
    const { fleet } = suite
    const urls = ['/x', '/y', '/z'].flatMap((path) => fleet.urls(path))
    expectServed(await burst(urls, 150))
    const during = burst(urls, 300)
    await admin.flushall()
    expectServed(await during)
    expectServed(await burst(urls, 150))
    for (const path of ['/x', '/y', '/z']) {
      // The process may fill before it notices the lost purge history. That entry is outdated too.
      expect(fleet.origin.calls(path)).toBeGreaterThanOrEqual(2)
      expect(fleet.origin.calls(path)).toBeLessThanOrEqual(3)
    }
  })

  it('treats any broken record of a page as a miss, and sends none of its headers', async () => {
    const { fleet } = suite
    const member = fleet.member(0)
    await member.ask({ type: 'events' })
    await ask(`${member.url}/page`)
    await told(member, 'fill.committed')
    const [key = ''] = await admin.keys('*/page}')
    const record = await admin.hgetallBuffer(key)
    const { broken, wellFormed } = plantings(Buffer.from(record.frame ?? ''))
    for (const [what, bytes] of Object.entries(broken)) {
      for (const { url, ...each } of fleet.members) {
        await each.ask({ type: 'events' })
        await admin.del(key)
        if (bytes === undefined) await admin.set(key, 'a string')
        else await admin.hset(key, { ...record, frame: bytes })
        // The planted frame is not served from Redis, nor from memory on the second request.
        const answers = [await ask(`${url}/page`), await ask(`${url}/page`)]
        const [first] = answers
        for (const { status, headers, body } of answers) {
          expect(body, what).toMatch(/^\/page #\d+$/)
          expect([status, headers['set-cookie'], headers['x-planted']], what).toEqual([
            200,
            undefined,
            undefined,
          ])
        }
        // The client has its response before the entry is stored.
        if (/stored/.test(String(first?.headers['cache-status'])))
          await told(each, 'fill.committed')
      }
    }
    // A well-formed frame is served, so the planting itself works.
    await admin.del(key)
    await admin.hset(key, { ...record, frame: wellFormed })
    for (const url of fleet.urls('/page')) {
      expect((await ask(url)).headers['x-planted']).toBe('fine')
    }
  })
})

describe('a fleet of all platforms on a faulty Redis', () => {
  let redis: RedisServer
  let proxy: TcpProxy
  let fleet: CachedFleet
  beforeAll(async () => {
    redis = await startRedis()
    proxy = await startProxy(redis.port, redis.host)
    const store = { commandTimeoutMs: BUDGET_MS }
    fleet = await start({ originDelayMs: 50, store, redisUrl: proxy.url })
  })
  afterAll(async () => {
    await fleet[Symbol.asyncDispose]()
    await Promise.all([proxy.stop(), redis.stop()])
  })
  const quick = () => {
    // Data under way stays late.
    proxy.drop()
    proxy.delay(0)
  }
  const states: ReadonlyArray<readonly [string, () => unknown, () => unknown]> = [
    // No command ran before: the connections are open, but no script was loaded.
    ['is gone before the first request', () => redis.kill(), () => redis.restart()],
    ['answers half a minute late', () => proxy.delay(30_000), quick],
    ['is frozen', () => redis.pause(), () => redis.resume()],
    ['is killed', () => redis.kill(), () => redis.restart()],
  ]
  it.each(states)(
    'spends at most one budget, and runs the origin once per process, when Redis %s',
    async (what, begin, end) => {
      const path = `/${what.replaceAll(' ', '-')}`
      await begin()
      expectServed(await burst(fleet.urls(path), 100))
      expect(fleet.origin.calls(path)).toBe(PLATFORMS.length)
      await end()
      await expectSharedAgain(fleet)
    },
  )
})

describe('processes of every platform', () => {
  it('agree on ages and lifetimes when their clocks are five seconds apart', async () => {
    await using redis = await startRedis()
    let runs = 0
    const apps = await Promise.all(
      frameworks.map(async (framework, i) => {
        const skewMs = (i - 2) * 5_000
        const clock = {
          now: () => performance.now() + skewMs,
          wallNow: () => Date.now() + skewMs,
          setTimer(delayMs: number, callback: () => void) {
            const handle = setTimeout(callback, delayMs).unref()
            return { cancel: () => clearTimeout(handle) }
          },
        }
        const store = redisStore(new Redis(redis.url, { lazyConnect: true }), PATIENT)
        const stampede = createStampede({ store, clock })
        const options = { stampede, ttlMs: 1_000, jitter: 0, key: () => 'page' }
        const app = await framework.start(options as object, () => ({ body: `run ${++runs}` }))
        return { app, stampede }
      }),
    )
    try {
      const first = new Set<string>()
      const startedAt = performance.now()
      for (const { app } of apps) {
        const { body, headers } = await ask(app.url)
        first.add(body)
        if (headers.age !== undefined) expect(['0', '1']).toContain(headers.age)
      }
      if (performance.now() - startedAt < 1_000) expect(first).toEqual(new Set(['run 1']))
      for (const { app } of apps) {
        await expect.poll(async () => (await ask(app.url)).body).not.toBe('run 1')
      }
    } finally {
      await Promise.all(apps.map(({ app }) => app[Symbol.asyncDispose]()))
      await Promise.all(apps.map(({ stampede }) => stampede.close()))
    }
  })
})
