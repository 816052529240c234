// Data from Redis is untrusted: a planted or broken record of an idempotency key never lets a
// request run that may have run. Redis also refuses commands, loses its scripts, freezes, or
// evicts. Fields that no version writes, and a server without free memory, are cases of the scripts
// (lua-idempotency.test.ts).

import { createStampede } from '@stampede/core'
import type { Grant, IdempotencyStore } from '@stampede/core/store'
import { systemClock } from '@stampede/core/store'
import { redisStore } from '@stampede/redis'
import fc from 'fast-check'
import { Redis } from 'ioredis'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { countSent } from '../harness/command-trace.ts'
import { redisOfFile } from '../harness/redis-of-file.ts'
import { startProxy, type TcpProxy } from '../harness/tcp-proxy.ts'

type BeginRequest = Parameters<IdempotencyStore['begin']>[1]

const { server, admin } = await redisOfFile()
let opened: IdempotencyStore[] = []

beforeEach(() => admin.flushall())
afterEach(async () => {
  await admin.config('SET', 'maxmemory', '0')
  await Promise.all(opened.map((store) => store.close()))
  opened = []
})

const KEY = 't:4:{=i:k}'
const PRINTS = { exact: 'e', canonical: 'c' }
const DONE = { as: 'completed', frame: Buffer.from('done'), keepMs: 60_000 } as const
const RELEASED = { as: 'released', keepMs: 60_000 } as const
const REQUEST: BeginRequest = {
  token: 'me',
  fingerprints: PRINTS,
  leaseMs: 5_000,
  retentionMs: 60_000,
  maxAttempts: 10,
  keepUncertainMs: 60_000,
  wait: false,
}
const UNAVAILABLE = expect.objectContaining({ code: 'ERR_STAMPEDE_STORE_UNAVAILABLE' })

interface OpenOptions {
  readonly url?: string
  readonly commandTimeoutMs?: number
  readonly woken?: string[]
}

function open({ url = server.url, commandTimeoutMs = 2_000, woken = [] }: OpenOptions = {}) {
  const redis = new Redis(url, { lazyConnect: true })
  const store = redisStore(redis, { prefix: 't', commandTimeoutMs }).idempotency
  store.attach({
    clock: systemClock,
    onWake: (key) => void woken.push(key),
    onSettled: () => {},
    onGap: () => {},
    onBack: () => {},
    onLost: () => {},
    onError: () => {},
  })
  opened.push(store)
  return store
}

const begin = async (store: IdempotencyStore, more: Partial<BeginRequest> = {}) =>
  store.begin('k', { ...REQUEST, ...more })

async function begun(store: IdempotencyStore, more: Partial<BeginRequest> = {}): Promise<Grant> {
  const reply = await begin(store, more)
  if (reply.status !== 'begun') throw new Error(`got ${reply.status}`)
  return reply.grant
}

/** A record in our format, whose lease is over. */
const SOUND = {
  v: '1',
  s: 'running',
  ...PRINTS,
  token: 'dead',
  until: '1',
  fence: '1700000000000000',
  attempt: '1',
  lost: '0',
  recovery: '0',
  created: '1',
  ended: '',
}

describe('a record of an idempotency key', () => {
  it('is taken over if it is valid and its lease is over, which the next tests rely on', async () => {
    await admin.hset(KEY, SOUND)
    expect(await begin(open())).toMatchObject({ status: 'begun', attempt: 2, isRecovery: true })
  })

  it('is a mismatch without fingerprints', async () => {
    const { exact: _, canonical: __, ...rest } = SOUND
    await admin.hset(KEY, rest)
    expect((await begin(open())).status).toBe('mismatch')
  })

  it('is not changed by any operation if it has another layout', async () => {
    await admin.hset(KEY, { ...SOUND, v: '2' })
    const before = await admin.hgetall(KEY)
    const store = open()
    const grant = { key: 'k', token: 'dead', fence: SOUND.fence }
    expect(await store.finish(grant, DONE, PRINTS)).toBe('stale')
    expect(await store.keepStep(grant, 'pay', Buffer.from('x'))).toBe('stale')
    expect(await store.settle('k', DONE, { force: true })).toBe('refused')
    await expect(store.inspect('k')).rejects.toEqual(UNAVAILABLE)
    expect(await admin.hgetall(KEY)).toEqual(before)
  })

  it('can be settled with force and used again if its numbers are invalid', async () => {
    await admin.hset(KEY, { ...SOUND, s: 'x', fence: 'nan', attempt: '-1', lost: 'y' })
    const store = open()
    expect(await store.settle('k', RELEASED, { force: false })).toEqual('refused')
    expect(await store.settle('k', RELEASED, { force: true })).toEqual('settled')
    expect(await begin(store)).toMatchObject({ status: 'begun', attempt: 2 })
  })

  it.each([
    ['a string', () => admin.set(KEY, 'x')],
    ['a list', () => admin.lpush(KEY, 'x')],
    ['a set', () => admin.sadd(KEY, 'x')],
  ])('makes every operation fail if it is %s', async (_, plant) => {
    await plant()
    const store = open()
    const grant = { key: 'k', token: 'me', fence: '5' }
    for (const asked of [
      () => begin(store),
      () => store.renew([grant], 1_000),
      () => store.finish(grant, DONE, PRINTS),
      () => store.keepStep(grant, 'pay', Buffer.from('x')),
      () => store.inspect('k'),
      () => store.settle('k', DONE, { force: true }),
    ]) {
      await expect(asked()).rejects.toEqual(UNAVAILABLE)
    }
  })

  it('is listed as unreadable if it is no hash or has another layout, beside the others', async () => {
    await admin.set(KEY, 'x')
    await admin.hset('t:4:{=i:other}', { ...SOUND, v: '2' })
    await admin.hset('t:4:{=i:sound}', SOUND)
    const { records } = await open().list('', 100)
    const states = records.map(({ key, state }) => [key, state])
    expect(states.sort()).toEqual([
      ['k', 'unreadable'],
      ['other', 'unreadable'],
      ['sound', 'lapsed'],
    ])
    const facts = { attempt: 0, fence: '', leaseForMs: 0, ageMs: 0, keepForMs: 0, steps: [] }
    expect(records.find(({ key }) => key === 'k')).toMatchObject(facts)
  })

  it('is listed without a read of its frame, and by an inspection with one', async () => {
    const { until: _, token: __, ...rest } = SOUND
    await admin.hset(KEY, { ...rest, s: 'completed', frame: 'bytes' })
    const store = open()
    const trace = await server.traceCommands()
    const { records } = await store.list('', 100)
    const reads = (await trace.stop()).filter(({ text }) => text.includes('"frame"'))
    expect([records.length, reads]).toEqual([1, []])
    expect((await store.inspect('k'))?.frame?.toString()).toBe('bytes')
  })

  it('is listed while the breaker is open, as the breaker does not count lists', async () => {
    await admin.hset(KEY, SOUND)
    await admin.hset('t:4:{=i:other}', SOUND)
    const store = open({ commandTimeoutMs: 1_000 })
    await store.inspect('k')
    await server.pause()
    const failed = await Promise.allSettled([1, 2, 3].map(() => store.inspect('k')))
    await server.resume()
    expect(failed.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected'])
    expect((await store.list('', 100)).records).toHaveLength(2)
  })

  it('lets no attempt begin if it has random invalid fields, and causes no unexpected error', async () => {
    const store = open()
    const value = fc.oneof(
      fc.constantFrom('', '0', '1', '2', '-1', 'nan', '1e400', '99999999999999999999', 'running'),
      fc.constantFrom('completed', 'released', 'uncertain', 'me', 'e', 'c'),
      fc.string(),
    )
    const fields = [...Object.keys(SOUND), 'frame', 's:pay', 'w:p', 's:', 'other']
    const planted = fc.dictionary(fc.constantFrom(...fields), value, { minKeys: 1 })
    const seed = Number(process.env.STAMPEDE_SEED) || Math.floor(Math.random() * 2 ** 31)
    console.log(`planted records: STAMPEDE_SEED=${seed}`)
    const property = fc.asyncProperty(planted, fc.boolean(), async (changed, isWhole) => {
      await admin.del(KEY)
      const record: Record<string, string> = isWhole ? { ...SOUND, ...changed } : changed
      await admin.hset(KEY, record)
      await store.inspect('k').catch((error) => expect(error).toEqual(UNAVAILABLE))
      const { status } = await begin(store, { wait: true })
      const isState = ['running', 'released'].includes(record.s ?? '')
      const isSound = record.v === '1' && isState && /^\d{1,16}$/.test(record.fence ?? '')
      if (!isSound) expect(status).not.toBe('begun')
      const grant = { key: 'k', token: 'me', fence: record.fence ?? '' }
      await store.keepStep(grant, 'pay', Buffer.from('x'))
      await store.finish(grant, DONE, PRINTS)
      await store.settle('k', RELEASED, { force: true })
      await store.inspect('k').catch((error) => expect(error).toEqual(UNAVAILABLE))
    })
    await fc.assert(property, { numRuns: 400, seed })
  })
})

describe('the Redis writes of idempotency keys', () => {
  it('have a TTL after each operation', async () => {
    const store = open()
    const ends = async () => {
      expect(await admin.pttl(KEY)).toBeGreaterThan(0)
      expect(await admin.pttl(KEY)).toBeLessThanOrEqual(66_000)
    }
    const grant = await begun(store)
    await ends()
    await begin(open(), { token: 'other', wait: true })
    await ends()
    await store.renew([grant], 5_000)
    await ends()
    await store.keepStep(grant, 'pay', Buffer.from('x'))
    await ends()
    await store.finish(grant, RELEASED, PRINTS)
    await ends()
    await store.settle('k', DONE, { force: true })
    await ends()
    await admin.del(KEY)
    expect(await store.finish(grant, DONE, PRINTS)).toBe('resurrected')
    await ends()
  })

  it('take one command for each of begin, renewal, step, finish and replay', async () => {
    const store = open()
    await begun(store, { token: 'first' })
    const counted = (work: () => Promise<unknown>) => countSent(server, work)
    let grant: Grant | undefined
    await admin.del(KEY)
    expect(await counted(async () => (grant = await begun(store)))).toBe(1)
    const mine = grant as unknown as Grant
    expect(await counted(() => store.renew([mine], 5_000))).toBe(1)
    expect(await counted(() => store.keepStep(mine, 'pay', Buffer.from('x')))).toBe(1)
    expect(await counted(async () => store.finish(mine, DONE, PRINTS))).toBe(1)
    expect(await counted(() => begin(store, { token: 'again' }))).toBe(1)
  })
})

describe('idempotency keys when Redis loses its scripts', () => {
  it('load the scripts again, without an error', async () => {
    const store = open()
    const grant = await begun(store)
    const flush = () => admin.script('FLUSH')
    await flush()
    expect(await store.renew([grant], 5_000)).toEqual([true])
    await flush()
    expect((await begin(store, { token: 'other' })).status).toBe('busy')
    await flush()
    expect(await store.keepStep(grant, 'pay', Buffer.from('x'))).toBe('kept')
    await flush()
    expect(await store.finish(grant, DONE, PRINTS)).toBe('finished')
    await flush()
    expect((await begin(store, { token: 'other' })).status).toBe('completed')
  })
})

describe('idempotency keys on a replica', () => {
  it('begin and finish no attempt, and replay completed ones', async () => {
    const store = open()
    const grant = await begun(store)
    const key = 'done before'
    const other = await store.begin(key, REQUEST)
    if (other.status !== 'begun') throw new Error(`got ${other.status}`)
    await store.finish(other.grant, DONE, PRINTS)
    // A replica of an unreachable master: it keeps its data, and refuses writes.
    await admin.replicaof('127.0.0.1', '1')
    await admin.config('SET', 'replica-serve-stale-data', 'yes')
    try {
      expect((await store.begin(key, { ...REQUEST, token: 'x' })).status).toBe('completed')
      await expect(store.finish(grant, DONE, PRINTS)).rejects.toEqual(UNAVAILABLE)
      const elsewhere = open()
      await expect(elsewhere.begin('fresh', REQUEST)).rejects.toEqual(UNAVAILABLE)
    } finally {
      await admin.replicaof('NO', 'ONE')
    }
    const again = async () => store.finish(grant, DONE, PRINTS)
    await expect.poll(() => again().catch(() => 'away')).toBe('finished')
  })
})

describe('an attempt whose begin had no reply in time', () => {
  /** Long enough for the command to arrive in time, and its reply too late. */
  const DELAY_MS = 200
  let proxy: TcpProxy
  let store: IdempotencyStore
  let witness: IdempotencyStore
  let woken: string[]

  const release = async (token: string) =>
    store.finish({ key: 'k', token, fence: '*' }, RELEASED, PRINTS)
  const state = async () => (await witness.inspect('k'))?.state

  beforeEach(async () => {
    proxy = await startProxy(server.port, server.host)
    woken = []
    store = open({ url: proxy.url, commandTimeoutMs: 300 })
    witness = open({ woken })
    // The first command loads the script.
    await store.finish(await begun(store), RELEASED, PRINTS)
    proxy.delay(DELAY_MS)
    await expect(begin(store, { token: 'unheard' })).rejects.toEqual(UNAVAILABLE)
  })
  afterEach(() => proxy.stop())

  it('is released by its token alone, and waiters are woken', async () => {
    expect((await begin(witness, { token: 'other', wait: true })).status).toBe('busy')
    proxy.delay(0)
    expect(await release('unheard')).toBe('finished')
    expect(await state()).toBe('released')
    await expect.poll(() => woken, { interval: 10 }).toEqual(['k'])
  })

  it('ends by a release that is sent while Redis seems unavailable', async () => {
    const others = ['a', 'b', 'c'].map((key) => store.begin(key, { ...REQUEST, token: key }))
    await Promise.allSettled(others)
    await expect(begin(store)).rejects.toThrow('earlier commands failed')
    await release('unheard').catch(() => {})
    await expect.poll(state, { interval: 10 }).toBe('released')
  })

  it('has no effect on an attempt with another token', async () => {
    proxy.delay(0)
    await release('unheard')
    await begun(witness, { token: 'other' })
    expect(await release('unheard')).toBe('stale')
    expect(await state()).toBe('running')
  })
})

it('an attempt at a recovery is released by its token without a trace', async () => {
  const store = open({})
  await store.finish(await begun(store, { token: 'first' }), RELEASED, PRINTS)
  await admin.hset(KEY, { s: 'running', token: 'dead', until: '1' })
  await begun(store, { token: 'unheard' })
  await store.finish({ key: 'k', token: 'unheard', fence: '*' }, RELEASED, PRINTS)
  expect(await begin(store, { leaseMs: 1 })).toMatchObject({ isRecovery: true })
  await new Promise((resolve) => setTimeout(resolve, 5))
  // One lease ran out before it and one after it: two in a row.
  expect((await begin(store, { token: 'x', maxAttempts: 2 })).status).toBe('uncertain')
})

describe('idempotency keys on a Redis with an eviction policy', () => {
  const warnings: Array<Error & { code?: string }> = []
  const note = (warning: Error) => void warnings.push(warning)
  const ours = () => warnings.filter(({ code }) => code === 'STAMPEDE_EVICTION')
  beforeEach(() => {
    warnings.length = 0
    process.on('warning', note)
  })
  afterEach(async () => {
    process.off('warning', note)
    await admin.config('SET', 'maxmemory-policy', 'noeviction')
  })
  /** The check was sent earlier on the same connection, so it has been answered. */
  const used = async () => {
    await begun(open(), { token: 'used' })
    await new Promise((resolve) => setTimeout(resolve, 50))
  }

  it('warn once, with the policy and the remedy', async () => {
    await admin.config('SET', 'maxmemory', '100mb')
    await admin.config('SET', 'maxmemory-policy', 'allkeys-lru')
    await used()
    await expect.poll(() => ours().length).toBe(1)
    expect(ours()[0]?.name).toBe('StampedeWarning')
    expect(ours()[0]?.message).toMatch(/allkeys-lru.*noeviction.*apart from the cache/)
  })

  it.each([
    ['evicts nothing', '100mb', 'noeviction'],
    ['has no limit', '0', 'allkeys-lru'],
  ])('do not warn if it %s', async (_, limit, policy) => {
    await admin.config('SET', 'maxmemory', limit)
    await admin.config('SET', 'maxmemory-policy', policy)
    await used()
    expect(ours()).toEqual([])
  })

  it('do not warn if they may not read the policy', async () => {
    await admin.config('SET', 'maxmemory', '100mb')
    await admin.config('SET', 'maxmemory-policy', 'allkeys-lru')
    await admin.call('ACL', 'SETUSER', 'blind', 'reset', 'on', '>pw', '~*', '&*', '+@all', '-info')
    const store = open({ url: server.url.replace('//', '//blind:pw@') })
    await expect.poll(() => begin(store).then(({ status }) => status)).toBe('begun')
    expect(ours()).toEqual([])
  })
})

describe('a settled idempotency key', () => {
  it('causes no message of the cache on the same connections', async () => {
    const start = () => {
      const redis = new Redis(server.url, { lazyConnect: true })
      return createStampede({ store: redisStore(redis, { prefix: 't' }) })
    }
    const [stampede, witness] = [start(), start()]
    const purged: string[] = []
    for (const each of [stampede, witness]) {
      each.on('entry.purged', ({ internalKey }) => void purged.push(internalKey))
      await each.getOrSet('x', () => 1, { ttlMs: 60_000 })
    }
    const other = open()
    await begun(other)
    await other.settle('k', DONE, { force: true })
    await stampede.purge({ key: 'x' })
    // The witness has received earlier announcements, too.
    const heard = () => purged.filter((key) => key === 'd:=x')
    await expect.poll(heard).toHaveLength(2)
    expect(purged.filter((key) => key.startsWith('i:') || key === 'k')).toEqual([])
    await witness.close()
    await stampede.close()
  })
})
