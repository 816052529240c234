// Data from Redis is untrusted: planted or broken records are a miss, and never more than that.
// Redis also refuses some commands.

import { createStampede, type Stampede } from '@stampede/core'
import { forgeFrame, keyDigest, turnBit } from '@stampede/core/testing'
import { redisStore } from '@stampede/redis'
import { Redis } from 'ioredis'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { PATIENT } from '../harness/patient.ts'
import { withLease, withLife } from '../harness/record-life.ts'
import { redisOfFile } from '../harness/redis-of-file.ts'

const { server, admin } = await redisOfFile()
let open: Stampede[] = []

beforeEach(() => admin.flushall())
afterEach(async () => {
  await Promise.all(open.map((stampede) => stampede.close()))
  open = []
})

function stampede(options: object = {}, user: object = {}): Stampede {
  const redis = new Redis(server.url, { lazyConnect: true, ...user })
  redis.on('error', () => {})
  const made = createStampede({ store: redisStore(redis, { prefix: 't', ...PATIENT, ...options }) })
  open.push(made)
  return made
}

const KEY = 't:4:{=d:=k}'
const get = (from: Stampede, value = 'made') => from.getOrSet('k', () => value, { ttlMs: 60_000 })

describe('a planted record', () => {
  it.each([
    ['a string', () => admin.set(KEY, 'x')],
    ['a list', () => admin.lpush(KEY, 'x')],
    ['an empty hash', () => admin.hset(KEY, 'other', 'x')],
  ])('is a miss if it is %s', async (_, plant) => {
    await plant()
    expect(await get(stampede())).toBe('made')
    expect(await get(stampede(), 'other')).toBe('made')
  })

  // A position after every purge.
  const MADE = { p: Number.MAX_SAFE_INTEGER, d: 0, t: [] }
  const HEAD = { ...MADE, s: 200, h: [['x-a', 'b']], a: 0, v: [] }
  const OF_DATA = JSON.stringify(MADE)
  const digest = keyDigest('d:=k')
  const frame = (kind: number, head: string, body: string) =>
    forgeFrame(head, { kind, body, digest })
  const sound = frame(2, OF_DATA, '"x"')
  it.each([
    ['random bytes', Buffer.from([1, 2, 3])],
    ['no bytes', Buffer.alloc(0)],
    ['another layout version', Buffer.concat([Buffer.from([0x53, 9]), sound.subarray(2)])],
    ['a truncated frame', sound.subarray(0, -1)],
    ['a frame with one changed bit', turnBit(sound, 8 * sound.length - 9)],
    ['a frame of another key', forgeFrame(OF_DATA, { kind: 2, body: '"x"' })],
    ['broken JSON', frame(2, OF_DATA, '{"a":')],
    ['JSON nested too deep', frame(2, OF_DATA, '['.repeat(200_000))],
    ['a response under a key of a value', frame(1, JSON.stringify(HEAD), 'x')],
    ['a broken head', frame(2, '{', '"x"')],
    ['a head without a position', frame(2, '{"d":0,"t":[]}', '"x"')],
    ['a value older than the purge log', frame(2, '{"p":0,"d":0,"t":[]}', '"x"')],
  ])('is a miss and is replaced if it holds %s', async (_, bytes) => {
    await plantFrame(bytes)
    expect(await get(stampede())).toBe('made')
    expect(await get(stampede(), 'other')).toBe('made')
  })

  it('is a hit if it is valid, which shows that the test can plant records', async () => {
    await plantFrame(frame(2, OF_DATA, '"planted"'))
    expect(await get(stampede())).toBe('planted')
  })

  async function plantFrame(bytes: Buffer): Promise<void> {
    const now = Date.now()
    const times = { made: now, fresh: now + 60_000, swr: 0, sie: 0 }
    await admin.hset(KEY, withLease(withLife({ stored: '5', fence: '5', ...times, frame: bytes })))
  }

  it.each(['made', 'fresh', 'swr', 'sie', 'until', 'fence', 'pass', 'retry'])(
    'delays a caller only for a moment, with few commands, if %s is invalid',
    async (field) => {
      for (const nonsense of ['abc', '1e400', '-1e400', 'nan', '-5', '99999999999999999999']) {
        // A failure that is shared until then would be valid. Its time is cut to a day.
        if (field === 'retry' && Number(nonsense) > 0) continue
        await admin.flushall()
        const now = Date.now()
        const times = { made: now, fresh: now - 10, swr: 0, sie: 0, fence: '5' }
        const lease = { token: 'dead', until: now - 10 }
        const fields = withLife({ stored: '5', ...times, ...lease, [field]: nonsense })
        await admin.hset(KEY, withLease(fields))
        await admin.config('RESETSTAT')
        const asked = stampede().getOrSet('k', () => 'made', { ttlMs: 1_000, waitMs: 300 })
        expect(await asked, nonsense).toBe('made')
        const [, calls = '0'] =
          /cmdstat_eval:calls=(\d+)/.exec(await admin.info('commandstats')) ?? []
        const [, more = '0'] =
          /cmdstat_evalsha:calls=(\d+)/.exec(await admin.info('commandstats')) ?? []
        expect(Number(calls) + Number(more), nonsense).toBeLessThan(25)
      }
    },
  )
})

describe("options of the user's client", () => {
  it.each([
    ['stringNumbers', { stringNumbers: true }],
    ['another database', { db: 3 }],
    ['enableAutoPipelining', { enableAutoPipelining: true }],
    ['enableOfflineQueue: false', { enableOfflineQueue: false }],
  ])('change nothing: %s', async (_, options) => {
    const [one, two] = [stampede({}, options), stampede({}, options)]
    expect(await get(one)).toBe('made')
    expect(await get(two, 'other')).toBe('made')
    expect(await get(two, 'other')).toBe('made')
    expect(two.stats()).toMatchObject({ hits: { l1: 1, l2: 1 } })
  })
})

describe('a cache on a Redis that refuses commands', () => {
  const acl = (name: string, ...rules: string[]) =>
    admin.call('ACL', 'SETUSER', name, 'reset', 'on', '>secret', '~*', '+@all', ...rules)

  it('tries SUBSCRIBE again until it is allowed, and then drops its copies', async () => {
    await acl('deaf', '&*', '-subscribe')
    const deaf = stampede({}, { username: 'deaf', password: 'secret' })
    const other = stampede()
    expect(await get(deaf)).toBe('made')
    await acl('deaf', '&*')
    await other.purge({ key: 'k' })
    await expect.poll(() => get(deaf, 'new')).toBe('new')
  })

  it('rejects a purge whose message is refused, because other processes may not know of it', async () => {
    await acl('mute', 'resetchannels')
    const mute = stampede({}, { username: 'mute', password: 'secret' })
    expect(await get(mute)).toBe('made')
    await expect(mute.purge({ key: 'k' })).rejects.toThrow(/PUBLISH is refused/)
    expect(await get(mute, 'new')).toBe('new')
  })

  it('keeps working in other processes if one process may not read', async () => {
    await acl('blind', '&*', '-hmget')
    const one = stampede()
    expect(await get(one)).toBe('made')
    const blind = stampede({}, { username: 'blind', password: 'secret' })
    expect(await get(blind, 'its own')).toBe('its own')
    expect(await get(stampede(), 'again')).toBe('made')
  })

  it('loses no lease if Redis has no free memory', async () => {
    const one = stampede()
    const two = stampede()
    await get(one)
    await one.purge({ key: 'k' })
    const filling = one.getOrSet(
      'k',
      async () => {
        await admin.config('SET', 'maxmemory', '1')
        return 'filled'
      },
      { ttlMs: 60_000, leaseMs: 60_000 },
    )
    expect(await filling).toBe('filled')
    await admin.config('SET', 'maxmemory', '0')
    const startedAt = performance.now()
    await two.getOrSet('k', () => 'again', { ttlMs: 60_000 })
    expect(performance.now() - startedAt).toBeLessThan(20_000)
  })
})
