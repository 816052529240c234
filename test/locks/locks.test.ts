// Locks on real servers, with real processes and real faults: holders, notifications, waiting times
// and costs.

import { createStampede } from '@stampede/core'
import { type LockStore, systemClock } from '@stampede/core/store'
import { createLocks, Lease } from '@stampede/locks'
import { redisStore } from '@stampede/redis'
import { FaultyLocks, refused, unheard } from '@stampede/testkit'
import { Redis } from 'ioredis'
import { describe, expect, it } from 'vitest'
import { sentByClients } from '../harness/command-trace.ts'
import { type Had, openAdmin, openLocks, startLockFleet } from '../harness/lock-fleet.ts'
import { PATIENT } from '../harness/patient.ts'
import { startRedis } from '../harness/redis-server.ts'
import { startProxy } from '../harness/tcp-proxy.ts'
import { waitUntil } from '../harness/wait-until.ts'

/** A link on which a command arrives within the budget, and its reply after it. */
const LATE_REPLY = { budgetMs: 3_000, oneWayMs: 2_000 }
/** A wait that should not last: a lease of this length, or a waiting time. */
const LONG_MS = 60_000
/** Far less than such a wait, and far more than the stall of a busy machine. */
const SOON_MS = 20_000

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

/**
 * The first duplicate, for commands, uses one URL. The second, which subscribes, uses the other.
 */
function split(commandsUrl: string, subscriberUrl: string): Redis {
  let made = 0
  const client = new Redis(commandsUrl, { lazyConnect: true })
  const duplicate = client.duplicate.bind(client)
  client.duplicate = (options) => {
    made += 1
    const { hostname, port } = new URL(made === 1 ? commandsUrl : subscriberUrl)
    return duplicate({ ...options, host: hostname, port: Number(port) })
  }
  return client
}

/** A fenced write at the data: it refuses a fence below the greatest it has seen. */
class GuardedCell {
  #fence = 0n
  value = ''

  write(fence: bigint, value: string): boolean {
    if (fence < this.#fence) return false
    this.#fence = fence
    this.value = value
    return true
  }
}

const aborted = (lease: Lease): Promise<void> =>
  new Promise((resolve) => {
    if (lease.signal.aborted) resolve()
    lease.signal.addEventListener('abort', () => resolve())
  })

describe('locks on a real Redis', () => {
  it('need one command to acquire and one to release, if the lock is free', async () => {
    await using redis = await startRedis()
    await using a = openLocks(redis.url)
    await a.locks.run('warm', () => {})
    const trace = await redis.traceCommands()
    for (let i = 0; i < 10; i++) await a.locks.run(`job ${i}`, () => {})
    const names = sentByClients(await trace.stop()).map(({ name }) => name)
    expect(names).toEqual(Array(20).fill('evalsha'))
  })

  it('renew each lease by one command after each third of it', async () => {
    const leaseMs = 4_500
    await using redis = await startRedis()
    await using a = openLocks(redis.url, { leaseMs })
    const lease = await a.locks.acquire('job')
    const trace = await redis.traceCommands()
    const begunAt = performance.now()
    await waitUntil('it was renewed twice', async () => {
      const { eval: whole = 0, evalsha = 0 } = await redis.commandStats()
      return whole + evalsha >= 1 + 2
    })
    const names = sentByClients(await trace.stop()).map(({ name }) => name)
    const thirds = (performance.now() - begunAt) / (leaseMs / 3)
    expect(names.slice(0, 2)).toEqual(['eval', 'evalsha'])
    expect(names.length).toBeLessThanOrEqual(thirds + 1)
    expect(await lease.release()).toBe('released')
  })

  it('share two connections with a cache, for any number of locks', async () => {
    await using redis = await startRedis()
    await using admin = openAdmin(redis)
    const client = new Redis(redis.url, { lazyConnect: true })
    const store = redisStore(client, PATIENT)
    const stampede = createStampede({ store })
    const locks = createLocks({ store })
    await stampede.getOrSet('job', () => 1, { ttlMs: 1_000 })
    const leases: Lease[] = []
    for (let i = 0; i < 300; i++) leases.push(await locks.acquire(`job ${i}`))
    const waiting = leases.slice(0, 50).map((lease) => locks.run(lease.key, () => {}))
    await Promise.all(leases.map((lease) => lease.release()))
    await Promise.all(waiting)
    const clients = String(await admin.client.client('LIST'))
      .trim()
      .split('\n')
    // One more connection is the test's own.
    expect(clients).toHaveLength(2 + 1)
    const channels = (await admin.client.pubsub('CHANNELS')) as string[]
    expect(channels).toHaveLength(4)
    await locks.close()
    expect(await stampede.getOrSet('other', () => 2, { ttlMs: 1_000 })).toBe(2)
    await stampede.close()
    await waitUntil('both connections are closed', async () => {
      const left = String(await admin.client.client('LIST')).trim()
      return left.split('\n').length === 1
    })
  })
})

describe('the signal of a lock holder', () => {
  /**
   * Whether the signal aborts before a timer of the test for the same lease. Timers of one process
   * fire in their order, however late.
   */
  async function abortsInTime(lease: Lease, lapses: Promise<unknown>): Promise<boolean> {
    const first = await Promise.race([aborted(lease).then(() => 'aborts'), lapses])
    return first === 'aborts'
  }

  it('aborts within the lease of acquire() when Redis freezes', async () => {
    const leaseMs = 3_000
    await using redis = await startRedis()
    await using a = openLocks(redis.url, { leaseMs })
    await a.locks.run('warm', () => {})
    const askedAt = performance.now()
    const lapses = sleep(leaseMs)
    const lease = await a.locks.acquire('job')
    await redis.pause()
    expect(await abortsInTime(lease, lapses)).toBe(true)
    expect(performance.now() - askedAt).toBeGreaterThan(0.7 * leaseMs)
    expect(lease.signal.reason).toMatchObject({ code: 'ERR_LOCK_LOST' })
    expect(await lease.release()).toBe('lost')
    await redis.resume()
  })

  it("aborts when Redis dies, and release() returns 'unknown' long before a lease ends", async () => {
    const leaseMs = 3_000
    await using redis = await startRedis()
    await using a = openLocks(redis.url, { leaseMs })
    const dying = await a.locks.acquire('dying', { leaseMs: LONG_MS })
    const lapses = sleep(leaseMs)
    const lease = await a.locks.acquire('job')
    await redis.kill()
    const inTime = abortsInTime(lease, lapses)
    const releasedAt = performance.now()
    expect(await dying.release()).toBe('unknown')
    expect(performance.now() - releasedAt).toBeLessThan(SOON_MS)
    expect(await inTime).toBe(true)
  })

  it.each(['FLUSHALL', 'a restart'])(
    'aborts when the lock is lost by %s, and the fence refuses a late write',
    async (loss) => {
      await using redis = await startRedis()
      await using admin = openAdmin(redis)
      await using a = openLocks(redis.url, { leaseMs: 2_000 })
      await using b = openLocks(redis.url)
      const cell = new GuardedCell()
      const old = await a.locks.acquire('job')
      expect(cell.write(old.fence, 'by the first')).toBe(true)
      if (loss === 'FLUSHALL') await admin.client.flushall()
      else await redis.restart()
      let next: Lease | null = null
      await waitUntil('the next has the lock', async () => {
        next = await b.locks.tryAcquire('job').catch(() => null)
        return next !== null
      })
      const { fence } = next as unknown as Lease
      expect(fence).toBeGreaterThan(old.fence)
      expect(cell.write(fence, 'by the second')).toBe(true)
      expect(cell.write(old.fence, 'too late')).toBe(false)
      expect(cell.value).toBe('by the second')
      await aborted(old)
      expect(await old.release()).toBe('lost')
      expect(await (next as unknown as Lease).renew()).toBe(true)
    },
  )

  it('has aborted when a stopped process continues after its lease', async () => {
    await using fleet = await startLockFleet({ size: 2, locks: { leaseMs: 800 } })
    await fleet.warmUp()
    const cell = new GuardedCell()
    const frozen = await fleet.member(0).ask<Had>({ type: 'acquire', as: 'a', key: 'job' })
    fleet.member(0).pause()
    await fleet.begin(1, 'b')
    const next = await fleet.had(1, 'b')
    expect(cell.write(BigInt(next.fence), 'newer')).toBe(true)
    fleet.member(0).resume()
    expect(await fleet.member(0).ask({ type: 'holds', as: 'a' })).toEqual({
      remainingMs: 0,
      aborted: true,
    })
    expect(cell.write(BigInt(frozen.fence), 'late')).toBe(false)
    expect(await fleet.release(0, 'a')).toBe('lost')
    expect(await fleet.member(1).ask({ type: 'holds', as: 'b' })).toMatchObject({ aborted: false })
    expect(await fleet.release(1, 'b')).toBe('released')
  })
})

describe('a killed lock holder', () => {
  it('delays the next waiter by the rest of its lease', async () => {
    await using fleet = await startLockFleet({ size: 2, locks: { leaseMs: 1_000 } })
    await using admin = openAdmin(fleet.redis)
    await fleet.warmUp()
    await fleet.member(0).ask({ type: 'acquire', as: 'a', key: 'job' })
    await fleet.begin(1, 'b')
    await admin.queued('job', 1)
    await fleet.member(0).kill()
    const { until } = await admin.record('job')
    const { fence } = await fleet.had(1, 'b')
    // The fence is the server's time of the grant, in microseconds. No other clock is needed.
    const lateMs = Number(fence) / 1_000 - until
    expect(lateMs).toBeGreaterThanOrEqual(0)
    expect(lateMs).toBeLessThan(SOON_MS)
    expect(await fleet.release(1, 'b')).toBe('released')
  })
})

describe('lock hand-over', () => {
  it('skips dead processes of the queue in one script call', async () => {
    await using fleet = await startLockFleet({ size: 3 })
    await using admin = openAdmin(fleet.redis)
    await fleet.warmUp()
    await using holder = openLocks(fleet.redis.url)
    const lease = await holder.locks.acquire('job')
    await holder.locks.run('warm', () => {})
    for (const index of [0, 1, 2]) {
      await fleet.begin(index, 'waiter')
      await admin.queued('job', index + 1)
    }
    await Promise.all([0, 1].map((index) => fleet.member(index).kill()))
    await waitUntil('Redis knows that they are gone', async () => {
      const channels = (await admin.client.pubsub('CHANNELS', '*:grant:*')) as string[]
      return channels.length === 2
    })
    const trace = await fleet.redis.traceCommands()
    expect(await lease.release()).toBe('released')
    await fleet.had(2, 'waiter')
    const commands = await trace.stop()
    const scripts = sentByClients(commands).filter(({ name }) => name.startsWith('eval'))
    expect(scripts).toHaveLength(1)
    expect(commands.filter(({ name }) => name === 'publish')).toHaveLength(3)
  })

  it('leaves a frozen receiver after a claim of 2 s, not a lease, and it queues again later', async () => {
    const times = { leaseMs: LONG_MS }
    await using fleet = await startLockFleet({ size: 2, locks: times })
    await using admin = openAdmin(fleet.redis)
    await fleet.warmUp()
    await using holder = openLocks(fleet.redis.url, times)
    const lease = await holder.locks.acquire('job')
    for (const index of [0, 1]) {
      await fleet.begin(index, 'waiter')
      await admin.queued('job', index + 1)
    }
    fleet.member(0).pause()
    const releasedAt = performance.now()
    await lease.release()
    const other = await fleet.had(1, 'waiter').finally(() => fleet.member(0).resume())
    expect(performance.now() - releasedAt).toBeLessThan(SOON_MS)
    const late = fleet.had(0, 'waiter')
    await admin.queued('job', 1)
    expect(await fleet.release(1, 'waiter')).toBe('released')
    expect(BigInt((await late).fence)).toBeGreaterThan(BigInt(other.fence))
    expect(await fleet.member(0).ask({ type: 'holds', as: 'waiter' })).toMatchObject({
      aborted: false,
    })
  })

  it('reaches a queued process that never got the reply to its acquire', async () => {
    await using redis = await startRedis()
    await using admin = openAdmin(redis)
    await using a = openLocks(redis.url, { leaseMs: LONG_MS })
    const client = new Redis(redis.url, { lazyConnect: true })
    const faulty = new FaultyLocks(redisStore(client, PATIENT).locks)
    const b = createLocks({ store: { locks: faulty } })
    const lease = await a.locks.acquire('job')
    faulty.next('acquire', unheard)
    await expect(b.acquire('job')).rejects.toMatchObject({ code: 'ERR_LOCK_UNAVAILABLE' })
    const waiting = b.acquire('job')
    await admin.queued('job', 1)
    // Replies come in order, so the second acquire has been answered too.
    await b.tryAcquire('echo')
    const releasedAt = performance.now()
    await lease.release()
    await waiting
    expect(performance.now() - releasedAt).toBeLessThan(SOON_MS)
    await b.close()
    client.disconnect()
  })
})

describe('a subscription for locks', () => {
  it('delays waiters at most until the end of a lease when Redis closes it', async () => {
    const leaseMs = 1_000
    await using fleet = await startLockFleet({ size: 3, locks: { leaseMs } })
    await using admin = openAdmin(fleet.redis)
    await fleet.warmUp()
    await using holder = openLocks(fleet.redis.url)
    const lease = await holder.locks.acquire('job')
    await fleet.crowd(20, { holdMs: 5 })
    await admin.queued('job', 3)
    await admin.client.call('CLIENT', 'KILL', 'TYPE', 'pubsub')
    const releasedAt = Number((await admin.client.time())[0]) * 1_000
    await lease.release()
    for (const seen of [40, 80]) {
      await waitUntil(`${seen / 2} were served`, async () => (await fleet.count()) >= seen, 30_000)
      await admin.client.call('CLIENT', 'KILL', 'TYPE', 'pubsub')
    }
    const passages = await fleet.crowded()
    expect(passages.map(({ released }) => released)).toEqual(Array(60).fill('released'))
    const inside = await fleet.passages()
    const momentsMs = [releasedAt, ...inside.map(({ fence }) => Number(fence) / 1_000)]
    const gaps = momentsMs.slice(1).map((ms, i) => ms - (momentsMs[i] ?? 0))
    expect(Math.max(...gaps)).toBeLessThan(SOON_MS)
  })

  it('delays a waiter at most until the end of a lease when it hangs', async () => {
    const leaseMs = 5_000
    await using redis = await startRedis()
    await using proxy = await startProxy(redis.port)
    await using admin = openAdmin(redis)
    await using a = openLocks(redis.url, { leaseMs })
    await using b = openLocks(split(redis.url, proxy.url), { leaseMs })
    const lease = await a.locks.acquire('job')
    const waiting = b.locks.acquire('job', { waitMs: LONG_MS })
    await admin.queued('job', 1)
    proxy.stall()
    await lease.release()
    const releasedAt = performance.now()
    const had = await waiting
    expect(performance.now() - releasedAt).toBeLessThan(SOON_MS)
    // The stalled message arrives now, and names a grant that is known. So the lock stays with its
    // holder.
    proxy.flow()
    for (let i = 0; i < 10; i++) {
      expect(await a.locks.tryAcquire('job')).toBeNull()
      await sleep(50)
    }
    expect(had.signal.aborted).toBe(false)
    expect(await had.release()).toBe('released')
  })

  it('causes no second holder when it delivers a message late', async () => {
    await using redis = await startRedis()
    await using proxy = await startProxy(redis.port)
    await using admin = openAdmin(redis)
    await using b = openLocks(split(redis.url, proxy.url), {}, { commandTimeoutMs: 3_000 })
    await using c = openLocks(redis.url)
    await b.locks.run('warm', () => {})
    proxy.delay(400)
    const silent = redisStore(new Redis(redis.url, { lazyConnect: true }), PATIENT).locks
    attachDeaf(silent)
    await silent.acquire('job', { token: 'silent', leaseMs: 3_000, queue: false })
    const waiting = b.locks.acquire('job')
    await admin.queued('job', 1)
    const lease = await waiting
    // The message of the same grant needs 400 ms more.
    for (let i = 0; i < 16; i++) {
      expect(await c.locks.tryAcquire('job')).toBeNull()
      await sleep(50)
    }
    expect(lease.signal.aborted).toBe(false)
    expect(await lease.release()).toBe('released')
    await silent.close()
  })

  it('loses no wake-up while it opens', async () => {
    await using redis = await startRedis()
    await using proxy = await startProxy(redis.port)
    proxy.delay(100)
    await using a = openLocks(redis.url, { leaseMs: LONG_MS })
    await using b = openLocks(split(redis.url, proxy.url))
    const lease = await a.locks.acquire('job')
    const askedAt = performance.now()
    const waiting = b.locks.acquire('job')
    await sleep(150)
    await lease.release()
    await waiting
    expect(performance.now() - askedAt).toBeLessThan(SOON_MS)
  })

  it('is not needed for polling, if the server forbids SUBSCRIBE', async () => {
    await using redis = await startRedis()
    await using admin = openAdmin(redis)
    await admin.client.acl(
      'SETUSER',
      'quiet',
      'on',
      '>pw',
      '~*',
      'resetchannels',
      '+@all',
      '-subscribe',
    )
    const url = redis.url.replace('//', '//quiet:pw@')
    await using a = openLocks(url, { wait: 'poll', leaseMs: LONG_MS })
    await using b = openLocks(url, { wait: 'poll' })
    const lease = await a.locks.acquire('job')
    const waiting = b.locks.acquire('job')
    await waitUntil('the other has asked', async () => {
      const { evalsha = 0 } = await redis.commandStats()
      return evalsha >= 3
    })
    const releasedAt = performance.now()
    expect(await lease.release()).toBe('released')
    expect((await waiting).fence).toBeGreaterThan(lease.fence)
    expect(performance.now() - releasedAt).toBeLessThan(SOON_MS)
    const { publish = 0 } = await redis.commandStats()
    expect(publish).toBe(0)
  })

  it('delays waiters at most until the end of the lease if the server forbids SUBSCRIBE', async () => {
    await using redis = await startRedis()
    await using admin = openAdmin(redis)
    await admin.client.acl('SETUSER', 'quiet', 'on', '>pw', '~*', '&*', '+@all', '-subscribe')
    const leaseMs = 1_000
    await using a = openLocks(redis.url, { leaseMs })
    const url = redis.url.replace('//', '//quiet:pw@')
    await using b = openLocks(url, { leaseMs })
    const lease = await a.locks.acquire('job')
    const waiting = b.locks.acquire('job')
    await admin.queued('job', 1)
    const releasedAt = performance.now()
    await lease.release()
    await waiting
    expect(performance.now() - releasedAt).toBeLessThan(SOON_MS)
  })
})

describe('locks on a faulty server', () => {
  it('report no error while Redis loses its scripts every 10 ms', async () => {
    await using fleet = await startLockFleet({ size: 2 })
    await using admin = openAdmin(fleet.redis)
    await fleet.warmUp()
    const flushing = setInterval(() => void admin.client.script('FLUSH'), 10)
    const toil = fleet.members.map((each) =>
      each.ask<string[]>({ type: 'toil', key: 'job', ms: 600, rounds: 6 }),
    )
    const results = await Promise.all(toil).finally(() => clearInterval(flushing))
    expect(results).toEqual([[], []])
  })

  it('refuse a new lock when the server is full, but renew and release the locks held before', async () => {
    await using redis = await startRedis()
    await using admin = openAdmin(redis)
    await using a = openLocks(redis.url, { leaseMs: 4_500 })
    await using b = openLocks(redis.url, { leaseMs: 4_500 })
    const freed = await a.locks.acquire('freed')
    const kept = await a.locks.acquire('kept')
    const waiting = b.locks.acquire('freed', { waitMs: 20_000 }).catch((error: unknown) => error)
    await admin.queued('freed', 1)
    await admin.client.config('SET', 'maxmemory', '1')
    await expect(b.locks.tryAcquire('new')).rejects.toMatchObject({
      code: 'ERR_LOCK_UNAVAILABLE',
      message: expect.stringContaining('OOM'),
    })
    const { token } = await admin.record('freed')
    expect(await freed.release()).toBe('released')
    expect((await admin.record('freed')).token).not.toBe(token)
    const { until } = await admin.record('kept')
    await waitUntil('it is renewed', async () => (await admin.record('kept')).until > until)
    expect(kept.signal.aborted).toBe(false)
    expect(await kept.release()).toBe('released')
    await admin.client.config('SET', 'maxmemory', '0')
    // The hand-over needs no more memory than the release freed. A repeated acquire may be refused
    // meanwhile.
    const outcome = await waiting
    if (outcome instanceof Lease) await outcome.release()
    await b.locks.run('freed', () => {})
  })

  it.each([
    ['READONLY', ['REPLICAOF', '127.0.0.1', '1']],
    ['MASTERDOWN', ['CONFIG', 'SET', 'replica-serve-stale-data', 'no']],
    ['NOREPLICAS', ['CONFIG', 'SET', 'min-replicas-to-write', '3']],
    ['BUSY', ['CONFIG', 'SET', 'busy-reply-threshold', '20']],
  ])(
    'are unavailable, not busy, when the server replies %s, and held leases last to their end',
    async (code, command) => {
      await using redis = await startRedis()
      await using admin = openAdmin(redis)
      await using a = openLocks(redis.url, { leaseMs: 20_000 })
      const lease = await a.locks.acquire('held')
      if (code === 'MASTERDOWN') await admin.client.call('REPLICAOF', '127.0.0.1', '1')
      const [name = '', ...args] = command
      await admin.client.call(name, ...args)
      const blocking = new Redis(redis.url, { maxRetriesPerRequest: 0 })
      if (code === 'BUSY') {
        const loop = "local t = redis.call('TIME')[1] while redis.call('TIME')[1] - t < 60 do end"
        blocking.eval(loop, 0).catch(() => {})
        await waitUntil('the server is busy', () =>
          admin.client.ping().then(
            () => false,
            (error: Error) => error.message.startsWith('BUSY'),
          ),
        )
      }
      for (const asked of [a.locks.tryAcquire('job'), a.locks.acquire('job')]) {
        await expect(asked).rejects.toMatchObject({
          code: 'ERR_LOCK_UNAVAILABLE',
          message: expect.stringContaining(code),
        })
      }
      expect(lease.signal.aborted).toBe(false)
      expect(await lease.release()).toBe('unknown')
      if (code === 'BUSY') await admin.client.script('KILL')
      blocking.disconnect()
    },
  )

  it.each(['inf', 'nan', 'x', '-5', '1e300', '9007199254740993'])(
    'grant rising fences or none when a record has %s in place of its fence',
    async (planted) => {
      await using redis = await startRedis()
      await using admin = openAdmin(redis)
      await using a = openLocks(redis.url)
      await admin.client.hset(admin.nameOf('job'), { fence: planted })
      const fences: bigint[] = []
      for (let i = 0; i < 3; i++) {
        const outcome = await Promise.race([
          a.locks.acquire('job').catch((error: { code?: string }) => error.code),
          sleep(SOON_MS).then(() => 'pending'),
        ])
        if (outcome instanceof Lease) {
          fences.push(outcome.fence)
          await outcome.release()
        } else expect(outcome).toBe('ERR_LOCK_UNAVAILABLE')
      }
      expect(new Set(fences).size).toBe(fences.length)
      expect(fences).toEqual([...fences].sort((x, y) => (x < y ? -1 : 1)))
    },
  )

  it('fail at once when the server forbids scripts', async () => {
    await using redis = await startRedis()
    await using admin = openAdmin(redis)
    await admin.client.acl('SETUSER', 'weak', 'on', '>pw', '~*', '&*', '+@all', '-eval', '-evalsha')
    await using a = openLocks(redis.url.replace('//', '//weak:pw@'))
    const askedAt = performance.now()
    await expect(a.locks.acquire('job', { waitMs: LONG_MS })).rejects.toMatchObject({
      code: 'ERR_LOCK_UNAVAILABLE',
      message: expect.stringMatching(/permission/),
    })
    expect(performance.now() - askedAt).toBeLessThan(SOON_MS)
  })

  it('still work when the server forbids PUBLISH, but delay waiters by the claim', async () => {
    await using redis = await startRedis()
    await using admin = openAdmin(redis)
    await admin.client.acl('SETUSER', 'mute', 'on', '>pw', '~*', '&*', '+@all', '-publish')
    const url = redis.url.replace('//', '//mute:pw@')
    await using a = openLocks(url, { leaseMs: 1_000 })
    await using b = openLocks(url, { leaseMs: 1_000 })
    expect(await (await a.locks.acquire('alone')).release()).toBe('released')
    const lease = await a.locks.acquire('job')
    const waiting = b.locks.acquire('job')
    await admin.queued('job', 1)
    const releasedAt = performance.now()
    expect(await lease.release()).toBe('unknown')
    expect((await waiting).fence).toBeGreaterThan(lease.fence)
    expect(performance.now() - releasedAt).toBeLessThan(SOON_MS)
  })
})

describe('locks after a lost reply', () => {
  it('free the key before the lease ends, if the reply to an acquire was lost', async () => {
    await using redis = await startRedis()
    await using proxy = await startProxy(redis.port)
    await using admin = openAdmin(redis)
    await using a = openLocks(
      proxy.url,
      { leaseMs: LONG_MS },
      { commandTimeoutMs: LATE_REPLY.budgetMs },
    )
    await using b = openLocks(redis.url)
    await a.locks.run('warm', () => {})
    proxy.delay(LATE_REPLY.oneWayMs)
    const outcome = a.locks.tryAcquire('job').catch((error: unknown) => error)
    await admin.isHeld('job')
    expect(await outcome).toMatchObject({ code: 'ERR_LOCK_UNAVAILABLE' })
    await admin.isFree('job', SOON_MS)
    expect(await b.locks.tryAcquire('job')).not.toBeNull()
  })

  it('free the key before the lease ends, if the connection broke during an acquire', async () => {
    await using redis = await startRedis()
    await using proxy = await startProxy(redis.port)
    await using admin = openAdmin(redis)
    await using a = openLocks(proxy.url, { leaseMs: LONG_MS })
    await a.locks.run('warm', () => {})
    proxy.delay(1_000)
    const outcome = a.locks.acquire('job').catch((error: unknown) => error)
    await admin.isHeld('job')
    proxy.drop()
    proxy.delay(0)
    expect(await outcome).toMatchObject({ code: 'ERR_LOCK_UNAVAILABLE' })
    await admin.isFree('job', SOON_MS)
  })

  it('keep the lease and renew it again, if the reply to a renewal was lost', async () => {
    await using redis = await startRedis()
    await using proxy = await startProxy(redis.port)
    await using admin = openAdmin(redis)
    await using a = openLocks(proxy.url, { leaseMs: 9_000 })
    const lease = await a.locks.acquire('job')
    proxy.delay(1_000)
    const renewed = async () => {
      const { until } = await admin.record('job')
      await waitUntil('it is renewed', async () => (await admin.record('job')).until > until)
    }
    await renewed()
    proxy.drop()
    proxy.delay(0)
    await renewed()
    expect(lease.signal.aborted).toBe(false)
    expect(await lease.release()).toBe('released')
  })
})

describe('a queued request for a lock whose reply was lost', () => {
  it('leaves no place in the queue and no lock after the next release', async () => {
    await using redis = await startRedis()
    await using proxy = await startProxy(redis.port)
    await using admin = openAdmin(redis)
    await using a = openLocks(
      proxy.url,
      { leaseMs: LONG_MS },
      { commandTimeoutMs: LATE_REPLY.budgetMs },
    )
    await using b = openLocks(redis.url)
    await a.locks.run('warm', () => {})
    const held = await b.locks.acquire('job')
    proxy.delay(LATE_REPLY.oneWayMs)
    await expect(a.locks.acquire('job')).rejects.toMatchObject({ code: 'ERR_LOCK_UNAVAILABLE' })
    proxy.delay(0)
    await admin.queued('job', 1)
    const next = b.locks.acquire('job')
    const trace = await redis.traceCommands()
    await held.release()
    await next
    // Both processes released the lock. Otherwise the claim of the process that left would end.
    expect(new Set(sentByClients(await trace.stop()).map(({ sender }) => sender)).size).toBe(2)
    await admin.queued('job', 0)
  })
})

describe('acquire()', () => {
  it('frees the lock if a frozen Redis grants it after the time budget', async () => {
    await using redis = await startRedis()
    await using admin = openAdmin(redis)
    await using a = openLocks(redis.url, { leaseMs: LONG_MS })
    await using b = openLocks(redis.url)
    for (const { locks } of [a, b]) await locks.run('warm', () => {})
    await waitUntil('the connections are there', async () => {
      const channels = (await admin.client.pubsub('CHANNELS', '*:grant:*')) as string[]
      return channels.length === 2
    })
    await redis.pause()
    await expect(a.locks.tryAcquire('job')).rejects.toMatchObject({ code: 'ERR_LOCK_UNAVAILABLE' })
    await redis.resume()
    const isFree = async () => (await b.locks.tryAcquire('job')) !== null
    await waitUntil('the key is free', isFree, SOON_MS)
  })

  it.each(['free', 'held'])(
    'leaves no lock and no place in the queue if it is aborted before the reply (lock: %s)',
    async (state) => {
      await using redis = await startRedis()
      await using proxy = await startProxy(redis.port)
      await using admin = openAdmin(redis)
      await using a = openLocks(proxy.url, { leaseMs: LONG_MS })
      await using b = openLocks(redis.url, { leaseMs: LONG_MS })
      await a.locks.run('warm', () => {})
      const held = state === 'held' ? await b.locks.acquire('job') : undefined
      proxy.delay(1_000)
      const abort = new AbortController()
      const waiting = a.locks.acquire('job', { signal: abort.signal })
      const outcome = waiting.catch((error: unknown) => error)
      abort.abort()
      expect(await outcome).toMatchObject({ code: 'ERR_LOCK_ABORTED' })
      if (held === undefined) {
        await admin.isHeld('job')
        await admin.isFree('job', SOON_MS)
      } else {
        await admin.queued('job', 1)
        await admin.queued('job', 0)
        expect((await admin.record('job')).places).toEqual([])
        expect(await held.release()).toBe('released')
      }
      proxy.delay(0)
      expect(await b.locks.tryAcquire('job')).not.toBeNull()
    },
  )
})

describe('release()', () => {
  it('frees a lost lock for the next waiter of the same process', async () => {
    await using redis = await startRedis()
    await using other = openLocks(redis.url)
    const client = new Redis(redis.url, { lazyConnect: true })
    const faulty = new FaultyLocks(redisStore(client, PATIENT).locks)
    const locks = createLocks({ store: { locks: faulty }, leaseMs: 1_000, maxHoldMs: 300 })
    for (let i = 0; i < 6; i++) faulty.next('renew', refused)
    const first = await locks.acquire('job')
    const second = locks.acquire('job')
    const third = locks.acquire('job')
    await aborted(first)
    // The lease is over here, and almost over for the store. The release frees it for the next
    // waiter.
    expect(await first.release()).toBe('lost')
    const lease = await second
    expect(await other.locks.tryAcquire('job')).toBeNull()
    await lease.release()
    const releasedAt = performance.now()
    await (await third).release()
    expect(performance.now() - releasedAt).toBeLessThan(SOON_MS)
    await locks.close()
    client.disconnect()
  })
})

function attachDeaf(store: LockStore): void {
  const ignore = () => {}
  store.attach({
    clock: systemClock,
    onGrant: ignore,
    onGap: ignore,
    onLost: ignore,
    onError: ignore,
  })
}
