// Scripts in lua/, called directly on a real server: their fields, messages, TTLs and limits. The
// store contracts (packages/testkit) test the replies that a store passes on. Scripts for
// idempotency keys are in lua-idempotency.test.ts. States that need time to pass are written into
// the record by hand.

import { readdirSync, readFileSync } from 'node:fs'
import { beforeEach, describe, expect, it } from 'vitest'
import * as generated from '../../packages/redis/src/protocol/scripts.generated.ts'
import {
  type Arguments,
  allHeard,
  cached,
  cachedFields,
  FUTURE,
  fieldsOf,
  group,
  key,
  listener,
  PAST,
  record,
  redis,
  scriptsOfFile,
  serverMs,
  span,
  statusOf,
  tests,
  whenFull,
  without,
} from '../harness/lua-scripts.ts'

scriptsOfFile()

const { acquireLock, commit, endLease, leaveQueue, lookupOrLease } = generated
const { purge, releaseLock, renew, renewEntry } = generated

const KEEP_MS = 60_000
const CLAIM_MS = 2_000
const TRUST = 1
/** The life of a group, as it stands in `variants` of its record and in `group` of its variants. */
const LIFE = 'begun 5 0'
/** The same life after a soft purge. */
const SOFTENED = 'begun 5 1'
const OTHER_LIVES = ['other 5 0', 'begun 6 0', 'other 9 0']
/** Whether the record is that of a variant, with a record of its group beside it. */
let isVariant = false

const run = (script: generated.Script, args: Arguments, client = redis): Promise<unknown> => {
  const inGroup = isVariant || script === commit
  const keys = script.keys === 1 || !inGroup ? [key] : [key, group]
  return client.eval(script.source, keys.length, ...keys, ...args)
}

describe('the scripts', () => {
  it('are those of lua/, each with tests', () => {
    const folder = new URL('../../lua/', import.meta.url)
    const files = readdirSync(folder).filter((file) => file.endsWith('.lua'))
    const scripts = Object.values(generated).map(({ name, keys }) => `${name}-${keys}.lua`)
    expect(scripts.sort()).toEqual(files.sort())
    for (const { name, keys, source } of Object.values(generated)) {
      expect(readFileSync(new URL(`${name}-${keys}.lua`, folder), 'utf8')).toBe(source)
    }
    expect(scripts).toHaveLength(21)
  })
})

describe('acquire-lock', () => {
  const acquire = (token: string, { leaseMs = 5_000, process = '' } = {}) =>
    run(acquireLock, [token, leaseMs, process, KEEP_MS])

  it('replies GRANTED for a free lock: the token, the end, and a fence of whole microseconds', async () => {
    const before = await serverMs()
    const [status, now, fence, forMs] = (await acquire('t')) as [string, number, string, number]
    expect([status, forMs]).toEqual(['GRANTED', 5_000])
    expect(fence).toMatch(/^\d{16}$/)
    expect(now).toBeGreaterThanOrEqual(before)
    expect(Math.floor(Number(fence) / 1_000)).toBe(now)
    expect(await fieldsOf()).toEqual({ token: 't', until: span(now, 5_000), fence })
    expect(await redis.pttl(key)).toBeGreaterThan(KEEP_MS)
  })

  it('replies GRANTED with a fence above every earlier one, also after the clock was set back', async () => {
    const ahead = '8999999999999999'
    await record({ fence: ahead })
    expect(await acquire('t')).toEqual(['GRANTED', expect.any(Number), '9000000000000000', 5_000])
  })

  it('replies BUSY for at most one more lease after the clock was set back during the lease', async () => {
    const hour = 3_600_000
    await record({ token: 'other', until: span((await serverMs()) + hour, 4_000), fence: '7' })
    const [status, now, , forMs] = (await acquire('t')) as [string, number, string, number]
    expect([status, forMs]).toEqual(['BUSY', 4_000])
    expect((await fieldsOf()).until).toBe(span(now, 4_000))
    const [again, later, , leftMs] = (await acquire('t')) as [string, number, string, number]
    expect([again, leftMs]).toEqual(['BUSY', now + 4_000 - later])
  })

  it('replies BUSY without shortening the TTL of the record', async () => {
    await acquire('holder', { leaseMs: 600_000 })
    await acquire('t', { leaseMs: 1_000, process: 'p' })
    expect(await redis.pttl(key)).toBeGreaterThan(600_000)
  })

  it('replies OVERDUE for a free lock if other processes are queued, so that none is overtaken', async () => {
    await record({ fence: '7', 'q:0': 't1 5000 p1', 'p:p1': 0, head: 0, tail: 1 })
    expect(await acquire('t')).toEqual(['OVERDUE', expect.any(Number), '7', 0, ''])
  })
})

describe('release-lock', () => {
  interface Given {
    fence?: string
    overdue?: 0 | 1
    trust?: 0 | 1
    again?: readonly [process: string, token: string, leaseMs: number]
    client?: typeof redis
  }
  const release = (token: string, given: Given = {}) => {
    const { fence = '7', overdue = 0, trust = TRUST, again = ['', '', 0], client = redis } = given
    const channels = `grant ${tests} `
    const fixed = [token, fence, overdue, 'the key', channels, CLAIM_MS, trust]
    return run(releaseLock, [...fixed, ...again, KEEP_MS], client)
  }
  const held = (queue: readonly string[] = []) => {
    const places = queue.flatMap((process, i) => [
      [`q:${i}`, `t-${process} 5000 ${process}`],
      [`p:${process}`, i],
    ])
    const ends = queue.length === 0 ? {} : { head: 0, tail: queue.length }
    return record({ token: 't', until: FUTURE, fence: '7', ...Object.fromEntries(places), ...ends })
  }
  const listenAs = (process: string) => listener.subscribe(`grant ${tests} ${process}`)

  it('replies LOST to a caller that wants to end an expired lease, if the lease is not over', async () => {
    await held()
    expect(await release('t', { overdue: 1 })).toEqual(['LOST', expect.any(Number), '', 0])
    expect(await fieldsOf()).toMatchObject({ token: 't' })
  })

  it('replies RELEASED and grants the lock to the head of the queue by a message; the next stays', async () => {
    await held(['p1', 'p2'])
    await listenAs('p1')
    const [status, now, ...rest] = (await release('t')) as [string, number, string, number]
    expect([status, ...rest]).toEqual(['RELEASED', '', CLAIM_MS])
    const { fence, ...fields } = await fieldsOf()
    const until = span(now, CLAIM_MS)
    expect(fields).toEqual({
      token: 't-p1',
      until,
      head: '1',
      tail: '2',
      'q:1': 't-p2 5000 p2',
      'p:p2': '1',
    })
    expect(Number(fence)).toBeGreaterThan(7)
    expect(await allHeard()).toEqual([
      `grant ${tests} p1 t-p1 ${fence} ${now + CLAIM_MS} ${now} the key`,
    ])
  })

  it('replies RELEASED and skips processes of the queue that no longer exist', async () => {
    await held(['dead1', 'dead2', 'p3'])
    await listenAs('p3')
    expect(await release('t')).toEqual(['RELEASED', expect.any(Number), '', CLAIM_MS])
    expect(await fieldsOf()).toMatchObject({ token: 't-p3', head: '3' })
    expect(await allHeard()).toHaveLength(1)
  })

  it('replies RELEASED without a successor if no process of the queue exists any more', async () => {
    await held(['dead1', 'dead2'])
    expect(await statusOf(release('t'))).toBe('RELEASED')
    expect(Object.keys(await fieldsOf())).toEqual(['fence'])
  })

  it('replies RELEASED and skips a gap in the queue', async () => {
    await held(['gone', 'p2'])
    await redis.hdel(key, 'q:0', 'p:gone')
    await listenAs('p2')
    await release('t')
    expect(await fieldsOf()).toMatchObject({ token: 't-p2', head: '2' })
  })

  it('replies RELEASED and grants to a process without subscribers if receivers are not counted', async () => {
    await held(['p1', 'p2'])
    expect(await release('t', { trust: 0 })).toEqual(['RELEASED', expect.any(Number), '', CLAIM_MS])
    expect(await fieldsOf()).toMatchObject({ token: 't-p1', head: '1' })
  })

  it("replies RELEASED with a fence above the holder's, also after the clock was set back", async () => {
    await held()
    await record({ fence: '8999999999999999' })
    const reply = await release('t', { fence: '*', again: ['me', 't2', 1_500] })
    expect(reply).toMatchObject({ 0: 'RELEASED', 2: '9000000000000000' })
  })

  it('replies RELEASED without a successor if the grant cannot be written, and sends no message', async () => {
    await held(['p1'])
    await listenAs('p1')
    const client = await without('hset')
    const again = ['me', 't2', 1_500] as const
    expect(await release('t', { client, again })).toEqual(['RELEASED', expect.any(Number), '', 0])
    client.disconnect()
    expect((await fieldsOf()).token).toBeUndefined()
    expect(await allHeard()).toEqual([])
  })
})

describe('leave-queue', () => {
  const leave = (process: string) => run(leaveQueue, [process])
  const queued = (...processes: string[]) =>
    record({
      head: 0,
      tail: processes.length,
      ...Object.fromEntries(
        processes.flatMap((p, i) => [
          [`q:${i}`, `t 5000 ${p}`],
          [`p:${p}`, i],
        ]),
      ),
    })

  it('replies ABSENT for a process that is not in the queue', async () => {
    await queued('p1')
    expect(await leave('p2')).toBe('ABSENT')
    expect(await fieldsOf()).toMatchObject({ 'p:p1': '0', tail: '1' })
  })

  it('replies LEFT and deletes the record after the last process', async () => {
    await queued('p1', 'p2')
    expect(await leave('p2')).toBe('LEFT')
    expect(await fieldsOf()).toEqual({ head: '0', tail: '1', 'q:0': 't 5000 p1', 'p:p1': '0' })
  })

  it('replies LEFT with a gap if other processes are queued later', async () => {
    await queued('p1', 'p2')
    expect(await leave('p1')).toBe('LEFT')
    expect(await fieldsOf()).toEqual({ head: '0', tail: '2', 'q:1': 't 5000 p2', 'p:p2': '1' })
  })
})

const extend = (script: generated.Script) => run(script, ['t', '7', 5_000, KEEP_MS])

describe.each([
  ['renew', renew, record],
  ['renew-entry', renewEntry, cached],
] as const)('%s', (_, script, plant) => {
  it('replies RENEWED without a shorter TTL of the record', async () => {
    await plant({ token: 't', fence: '7', until: FUTURE })
    await redis.pexpire(key, 10 * KEEP_MS)
    expect(await extend(script)).toBe('RENEWED')
    expect(await redis.pttl(key)).toBeGreaterThan(9 * KEEP_MS)
  })

  it('replies RENEWED on a server without free memory', async () => {
    await plant({ token: 't', fence: '7', until: PAST })
    expect(await whenFull(() => extend(script))).toBe('RENEWED')
  })
})

describe('renew-entry on a variant', () => {
  it('replies RENEWED, extends the record of the group, and creates none', async () => {
    isVariant = true
    try {
      await cached({ token: 't', fence: '7', until: PAST })
      expect(await extend(renewEntry)).toBe('RENEWED')
      expect(await redis.exists(group)).toBe(0)
      await redis.hset(group, 'variants', LIFE)
      await redis.pexpire(group, 1_000)
      expect(await extend(renewEntry)).toBe('RENEWED')
      expect(await redis.pttl(group)).toBeGreaterThan(KEEP_MS)
    } finally {
      isVariant = false
    }
  })
})

/** The parts of a reply to a lookup: five values, those of the entry, its frame and the failure. */
function partsOf(raw: unknown): unknown[] {
  const [text, frame, failure] = Array.isArray(raw) ? raw : [raw]
  const [status, now, grant, forMs, fence, ...times] = String(text).split(' ')
  const entry = times.length > 0 ? [...times.map(Number), frame ?? null] : []
  const found = fence === '0' ? '' : fence
  return [status, Number(now), grant === '0' ? '' : grant, Number(forMs), found, failure, ...entry]
}

describe('lookup-or-lease', () => {
  interface Given {
    leaseMs?: number
    known?: string
    outdated?: string
    soft?: 0 | 1
    told?: 0 | 1
    like?: string
  }
  const look = async (token: string, given: Given = {}) => {
    const { leaseMs = 5_000, known = '', outdated = '', soft = 0 } = given
    const { told = 1, like = '' } = given
    const plain = [token, leaseMs, KEEP_MS, 'me', told]
    const rest = [known, outdated, soft, like]
    const lookup = rest.some((each) => each !== '' && each !== 0) ? [...plain, ...rest] : plain
    return partsOf(await run(lookupOrLease, lookup))
  }
  const entry = async (freshInMs: number, rest: Record<string, string | number> = {}) => {
    const now = await serverMs()
    const times = { made: now - 1_000, fresh: now + freshInMs, swr: 3_000, sie: 9_000, keep: 0 }
    await cached({ frame: 'bytes', stored: '5', fence: '5', ...times, ...rest })
  }

  it('replies LEASED although another token has the lease, if the clock was set back meanwhile', async () => {
    const later = (await serverMs()) + 60_000
    await cached({ token: 'other', until: span(later, 5_000), fence: '7' })
    expect(await statusOf(look('t'))).toBe('LEASED')
    expect(await cachedFields()).toMatchObject({ token: 't' })
  })

  it('replies LEASED despite a PASS mark or a failure, if the clock was set back meanwhile', async () => {
    const later = (await serverMs()) + 60_000
    await cached({ pass: span(later, 5_000), retry: span(later, 1_000), failure: 'why' })
    expect(await statusOf(look('t'))).toBe('LEASED')
  })

  it('replies LEASED for an entry from the future, and drops it', async () => {
    const later = (await serverMs()) + 60_000
    await entry(5_000, { made: later, fresh: later + 2_000 })
    const reply = (await look('t')) as unknown[]
    expect([reply[0], reply[4]]).toEqual(['LEASED', ''])
    expect((await cachedFields()).frame).toBeUndefined()
  })

  it('replies LEASED with a fence above every earlier one, also after the clock was set back', async () => {
    await cached({ fence: '8999999999999999' })
    expect(((await look('t')) as unknown[])[2]).toBe('9000000000000000')
  })

  it('replies LEASED and replaces a key of another type', async () => {
    await redis.set(key, 'in our way')
    expect(await statusOf(look('t'))).toBe('LEASED')
    expect(await redis.type(key)).toBe('hash')
  })

  it('replies STALE without a new moment for an entry that was stale before the soft purge', async () => {
    await entry(-1_000)
    const { fresh } = await cachedFields()
    expect(await statusOf(look('t', { outdated: '5', soft: 1 }))).toBe('STALE')
    expect((await cachedFields()).fresh).toBe(fresh)
  })

  it('replies FRESH while another token has the lease, and registers no waiter', async () => {
    await entry(5_000, { token: 'other', until: FUTURE })
    const before = await cachedFields()
    const reply = (await look('t')) as unknown[]
    expect([reply[0], reply[2]]).toEqual(['FRESH', ''])
    expect(await cachedFields()).toEqual(before)
  })

  it('fails if there is no memory for a lease', async () => {
    await expect(whenFull(() => look('t'))).rejects.toThrow(/OOM/)
  })

  it('replies PASS without a grant while another token has the lease, and registers no waiter', async () => {
    await cached({ pass: (await serverMs()) + 4_000, token: 't', until: FUTURE, fence: '7' })
    const [status, , grant] = (await look('other')) as unknown[]
    expect([status, grant]).toEqual(['PASS', ''])
    expect(Object.keys(await cachedFields()).sort()).toEqual(['fence', 'pass', 'token', 'until'])
  })

  it('replies STALE without a grant while another token refreshes the entry', async () => {
    const until = (await serverMs()) + 4_000
    await entry(-1_000, { token: 'other', until, fence: '6' })
    const reply = (await look('t')) as unknown[]
    expect([reply[0], reply[2], reply[3]]).toEqual(['STALE', '', until - Number(reply[1])])
    expect(await cachedFields()).toMatchObject({ 'w:me': '', token: 'other' })
  })

  it('replies BUSY while another token fills, and registers the waiter', async () => {
    const until = (await serverMs()) + 4_000
    await cached({ token: 'other', until, fence: '6' })
    const [status, now, grant, forMs, fence] = (await look('t')) as unknown[]
    expect([status, grant, forMs, fence]).toEqual(['BUSY', '', until - Number(now), '6'])
    expect((await cachedFields())['w:me']).toBe('t')
    await look('t', { told: 0 })
    expect((await cachedFields())['w:me']).toBe('')
  })

  it('replies PASS, FAILED and BUSY for at most a day, whatever value was planted', async () => {
    const day = 86_400_000
    await cached({ pass: FUTURE })
    expect((await look('t')) as unknown[]).toMatchObject({ 0: 'PASS', 3: day })
    await cached({ pass: 0, retry: FUTURE, failure: 'why' })
    expect((await look('t')) as unknown[]).toMatchObject({ 0: 'FAILED', 3: day })
    await cached({ retry: 0, token: 'other', until: FUTURE, fence: '6' })
    expect((await look('t')) as unknown[]).toMatchObject({ 0: 'BUSY', 3: day })
  })

  describe('on a variant', () => {
    beforeEach(() => {
      isVariant = true
      return () => {
        isVariant = false
      }
    })

    const variant = (freshInMs: number, rest: Record<string, string | number> = {}) =>
      entry(freshInMs, { group: LIFE, ...rest })
    const begun = (variants = LIFE) => redis.hset(group, { variants })

    it('replies LEASED without a record, and starts a life of its group, named by token and fence', async () => {
      const [status, , fence] = (await look('t')) as unknown[]
      expect(status).toBe('LEASED')
      expect(await redis.hgetall(group)).toEqual({ variants: `t ${fence} 0` })
      expect(await cachedFields()).toMatchObject({ group: `t ${fence} 0` })
      expect(await redis.pttl(group)).toBeGreaterThan(KEEP_MS)
    })

    it('replies LEASED and replaces a record of its group that has another type', async () => {
      await variant(5_000)
      await redis.set(group, 'in our way')
      const [status, , fence, , entryFence] = (await look('t')) as unknown[]
      expect([status, entryFence]).toEqual(['LEASED', ''])
      expect(await redis.hgetall(group)).toEqual({ variants: `t ${fence} 0` })
    })

    it('replies BUSY to a caller that only reads when the record of its group has another type', async () => {
      await variant(5_000)
      await redis.set(group, 'in our way')
      expect(await statusOf(look('t', { leaseMs: 0 }))).toBe('BUSY')
      expect(await redis.exists(key, group)).toBe(0)
    })

    it('replies LEASED in another life each time, also to the same token after a purge', async () => {
      const lives = new Set<string | null>()
      for (let i = 0; i < 5; i++) {
        expect(await statusOf(look('t'))).toBe('LEASED')
        lives.add(await redis.hget(group, 'variants'))
        await redis.del(group)
      }
      expect(lives.size).toBe(5)
    })

    it.each(OTHER_LIVES)('replies LEASED when its group is in another life: %s', async (life) => {
      for (const of of [{ group: LIFE }, {}]) {
        await redis.del(key)
        await entry(5_000, of)
        await begun(life)
        const [status, , fence, , entryFence] = (await look('t')) as unknown[]
        expect([status, entryFence]).toEqual(['LEASED', ''])
        expect(Number(fence)).toBeGreaterThan(7)
        const { token, until, ...left } = await cachedFields()
        expect(left).toEqual({ group: life, fence })
      }
    })

    it.each<[string, Record<string, string>]>([
      ['is missing', {}],
      ['has no life', { fence: '3' }],
    ])('replies LEASED and starts a life when the record of its group %s', async (_, fields) => {
      for (const of of [{ group: LIFE }, {}]) {
        await redis.del(key, group)
        await entry(5_000, of)
        if (Object.keys(fields).length > 0) await redis.hset(group, fields)
        const [status, , fence, , entryFence] = (await look('t')) as unknown[]
        expect([status, entryFence]).toEqual(['LEASED', ''])
        expect(await redis.hgetall(group)).toEqual({ ...fields, variants: `t ${fence} 0` })
        expect(await redis.pttl(group)).toBeGreaterThan(KEEP_MS)
      }
    })

    it.each(['x', '', '5', '9'.repeat(30)])(
      'replies LEASED when its group has nonsense as its life: %s',
      async (nonsense) => {
        await variant(5_000)
        await begun(nonsense)
        expect(await statusOf(look('t'))).toBe('LEASED')
        await redis.del(key)
        await entry(5_000)
        expect(await statusOf(look('t'))).toBe('LEASED')
      },
    )

    it('replies LEASED despite a lease or PASS mark from before the purge', async () => {
      await begun('other 9 0')
      for (const before of [{ token: 'other', until: FUTURE }, { pass: FUTURE }]) {
        await redis.del(key)
        await cached({ fence: '5', group: LIFE, ...before })
        expect(await statusOf(look('t'))).toBe('LEASED')
      }
    })

    it('replies LEASED with a fence above every one of the variant, also in another life of its group', async () => {
      const ahead = '8999999999999998'
      for (const variants of [LIFE, 'other 9 0']) {
        await redis.del(key)
        await cached({ fence: ahead, group: LIFE })
        await begun(variants)
        expect(((await look('t')) as unknown[])[2]).toBe('8999999999999999')
      }
    })

    it('replies LEASED after a soft purge during a fill, whose commit will be refused', async () => {
      await cached({ token: 'other', until: FUTURE, fence: '7', group: LIFE })
      await begun(SOFTENED)
      expect(await statusOf(look('t'))).toBe('LEASED')
      expect(await cachedFields()).toMatchObject({ group: SOFTENED })
    })

    it('replies BUSY to a caller that only reads when the record of its group is missing', async () => {
      await variant(5_000)
      expect(await look('', { leaseMs: 0 })).toMatchObject([
        'BUSY',
        expect.any(Number),
        '',
        0,
        '',
        undefined,
      ])
      expect(await redis.exists(group)).toBe(0)
    })

    it('replies STALE after a soft purge of its group, also when the clock was set back', async () => {
      await variant(5_000)
      await begun(`begun 5 ${(await serverMs()) + 4_000}`)
      expect(await statusOf(look('t'))).toBe('STALE')
    })

    it('replies STALE to later callers, too, after a soft purge of its group', async () => {
      await variant(5_000)
      await begun(`begun 5 ${await serverMs()}`)
      expect(await statusOf(look('', { leaseMs: 0 }))).toBe('STALE')
      const [status, , fence] = (await look('t')) as unknown[]
      expect([status, fence]).toEqual(['STALE', expect.stringMatching(/^\d{16}$/)])
      // The lease belongs to the present `variants`. The entry does not.
      expect(await statusOf(look('other'))).toBe('STALE')
      expect(await statusOf(look('', { leaseMs: 0 }))).toBe('STALE')
    })

    it('replies STALE only since the moment of the soft purge', async () => {
      await variant(5_000)
      await begun(`begun 5 ${(await serverMs()) - 3_500}`)
      // `swr` is 3 s, so the entry is in its stale-if-error window only.
      expect(await statusOf(look('t'))).toBe('LEASED')
    })

    it('replies FRESH if no purge of its group came since the commit', async () => {
      for (const variants of [LIFE, SOFTENED]) {
        await variant(5_000, { stored: '7', fence: '7', group: variants })
        await begun(variants)
        expect(await statusOf(look('t'))).toBe('FRESH')
      }
    })
  })
})

describe('commit', () => {
  const send = (token: string, fence: string, frame = 'bytes', notAfter = 0, waitedMs = 0) => {
    const terms = `${fence} ${notAfter} ${waitedMs} 7000 1000 2000 3000 4000 ${token}`
    return run(commit, [terms, frame, 'k', `wake ${tests} `]) as Promise<[string, number]>
  }
  const write = async (...args: Parameters<typeof send>) => (await send(...args))[0]

  const variant = (fields: Record<string, string | number>) => cached({ group: LIFE, ...fields })
  beforeEach(() => void redis.hset(group, 'variants', LIFE))

  it('replies FENCED when a later grant or a purge has raised the fence', async () => {
    expect(await write('t', '7')).toBe('FENCED')
    await variant({ token: 't', fence: '8' })
    expect(await write('t', '7')).toBe('FENCED')
    expect(await cachedFields()).toEqual({ group: LIFE, token: 't', fence: '8' })
  })

  it.each<[string, Record<string, string>]>([
    ...OTHER_LIVES.map((life): [string, Record<string, string>] => [
      `is in another life (${life})`,
      { variants: life },
    ]),
    ['was purged softly since', { variants: SOFTENED }],
    ['is missing', {}],
    ['has no life', { fence: '3' }],
    ['has nonsense as its life', { variants: 'x' }],
  ])('replies FENCED when the record of its group %s', async (_, fields) => {
    await variant({ token: 't', fence: '7' })
    await redis.del(group)
    if (Object.keys(fields).length > 0) await redis.hset(group, fields)
    expect(await write('t', '7')).toBe('FENCED')
    expect((await cachedFields()).frame).toBeUndefined()
    expect(await redis.hgetall(group)).toEqual(fields)
  })

  it("replies COMMITTED and extends the TTL of the group's record, which it never shortens", async () => {
    await variant({ token: 't', fence: '7' })
    await redis.pexpire(group, 1_000)
    expect(await write('t', '7')).toBe('COMMITTED')
    expect(await redis.pttl(group)).toBeGreaterThan(5_000)
    await redis.pexpire(group, 60_000)
    await variant({ token: 't', fence: '7' })
    expect(await write('t', '7')).toBe('COMMITTED')
    expect(await redis.pttl(group)).toBeGreaterThan(50_000)
  })

  it('replies COMMITTED and shortens the TTL of a record only if it has no variants', async () => {
    for (const [fields, least] of [
      [{ variants: '3' }, 50_000],
      [{}, 0],
    ] as const) {
      await redis.del(key)
      await variant({ token: 't', fence: '7', ...fields })
      await redis.pexpire(key, 60_000)
      expect(await write('t', '7')).toBe('COMMITTED')
      const left = await redis.pttl(key)
      expect(left).toBeGreaterThan(least)
      expect(left).toBeLessThanOrEqual(least === 0 ? 7_000 : 60_000)
    }
  })

  it('replies FENCED when the variant, its group or both name no life', async () => {
    for (const [of, ofGroup] of [
      [{}, {}],
      [{}, { variants: LIFE }],
      [{ group: LIFE }, {}],
    ]) {
      await redis.del(key, group)
      await cached({ token: 't', fence: '7', ...of })
      await redis.hset(group, { other: '', ...ofGroup })
      expect(await write('t', '7')).toBe('FENCED')
    }
  })

  it('replies LATE after the deadline, writes nothing, and keeps the lease and the waiters', async () => {
    await variant({ token: 't', fence: '7', until: span(FUTURE, 1), 'w:p': '' })
    const before = await cachedFields()
    const [status, now] = await send('t', '7', 'bytes', PAST)
    expect(status).toBe('LATE')
    expect(now).toBeGreaterThan(PAST)
    expect(await cachedFields()).toEqual(before)
    expect(await allHeard()).toEqual([])
    expect(await write('t', '7', 'bytes', FUTURE)).toBe('COMMITTED')
    // The first commit was made, so the repeated one is not late.
    expect(await write('t', '7', 'bytes', PAST)).toBe('COMMITTED')
  })

  it('counts the lifetimes from before the wait of the command in its process', async () => {
    await variant({ token: 't', fence: '7' })
    const [, now] = await send('t', '7', 'bytes', FUTURE, 400)
    const [, made, fresh] = String(await redis.hget(key, 'life'))
      .split(' ')
      .map(Number)
    expect([made, fresh]).toEqual([now - 400, now + 600])
  })

  it('replies COMMITTED, writes the entry, ends the lease, and wakes all waiters', async () => {
    await listener.subscribe(`wake ${tests} me`)
    await variant({ token: 't', until: FUTURE, fence: '7', retry: 1, failure: 'x', 'w:me': '' })
    expect(await write('t', '7')).toBe('COMMITTED')
    const { made, fresh, ...fields } = await cachedFields()
    const times = { swr: '2000', sie: '3000', keep: '4000' }
    expect(fields).toEqual({ group: LIFE, frame: 'bytes', stored: '7', fence: '7', ...times })
    expect(Number(fresh) - Number(made)).toBe(1_000)
    expect(await redis.pttl(key)).toBeGreaterThan(5_000)
    expect(await allHeard()).toEqual([`wake ${tests} me k`])
  })

  it('replies COMMITTED and sends the entry to each waiter under its token, if it asked for it', async () => {
    await listener.subscribe(`wake ${tests} me`, `wake ${tests} you`)
    await variant({ token: 't', until: FUTURE, fence: '7', 'w:me': 'mine', 'w:you': 'yours' })
    expect(await write('t', '7')).toBe('COMMITTED')
    const { made } = await cachedFields()
    const told = (name: string) => `\0${name} 7 ${made} 1000 2000 3000 4000 1\nkbytes`
    const heard = [`wake ${tests} me ${told('mine')}`, `wake ${tests} you ${told('yours')}`]
    expect((await allHeard()).sort()).toEqual(heard)
    await variant({ token: 't', until: FUTURE, fence: '8', 'w:me': '' })
    expect(await write('t', '8')).toBe('COMMITTED')
    expect((await allHeard()).at(-1)).toBe(`wake ${tests} me k`)
  })

  it('replies COMMITTED without sending a frame over 16 KiB, or more than 1 MiB in total', async () => {
    await listener.psubscribe(`wake ${tests} *`)
    const sizes: number[] = []
    listener.on('pmessage', (_pattern, _channel, message: string) => sizes.push(message.length))
    const waiters = Object.fromEntries(Array.from({ length: 70 }, (_, i) => [`w:p${i}`, `t${i}`]))
    for (const [fence, length] of [
      ['7', 16 * 1024 + 1],
      ['8', 16 * 1024],
    ] as const) {
      sizes.length = 0
      await variant({ token: 't', until: FUTURE, fence, ...waiters })
      expect(await write('t', fence, 'x'.repeat(length))).toBe('COMMITTED')
      await expect.poll(() => sizes).toHaveLength(70)
      const sent = sizes.filter((size) => size > 1)
      expect(sent).toHaveLength(fence === '7' ? 0 : 63)
    }
  })
})

describe('end-lease', () => {
  const end = (token: string, fence: string, passMs = 0, backoffMs = 0, flag = 0) =>
    run(endLease, [token, fence, passMs, backoffMs, 'why', 'k', `wake ${tests} `, flag])

  it('replies ENDED without a result, and keeps the PASS mark', async () => {
    await cached({ token: 't', fence: '7', until: FUTURE, pass: FUTURE })
    expect(await end('t', '7')).toBe('ENDED')
    expect(await cachedFields()).toEqual({ fence: '7', pass: String(FUTURE) })
  })

  it('replies FIRST and keeps the entry for errors and revalidation, if the holder wants it', async () => {
    const now = await serverMs()
    const entry = { frame: 'bytes', stored: '5', made: now - 9_000, fresh: now + 5_000 }
    const lease = { token: 't', fence: '7', until: FUTURE }
    await cached({ ...lease, ...entry, swr: 7_000, sie: 1_000, keep: 60_000 })
    expect(await end('t', '7', 4_000, 0, 2)).toBe('FIRST')
    const kept = await cachedFields()
    expect(kept).toMatchObject({
      frame: 'bytes',
      stored: '5',
      swr: '0',
      sie: '7000',
      keep: '60000',
    })
    expect(Number(kept.fresh)).toBeLessThan(now + 5_000)
    const reply = await run(lookupOrLease, ['u', 5_000, 1_000, 'me', 0])
    expect(String(reply)).toMatch(/^LEASED .*,bytes/)
    const [, , fence = ''] = String(reply).split(' ')
    expect(await end('u', fence, 4_000, 0, 2)).toBe('ENDED')
    expect(await cachedFields()).not.toHaveProperty('frame')
  })

  it('replies ENDED as the second one in a row, also after a lookup that took the lease', async () => {
    await cached({ token: 't', fence: '7', until: FUTURE })
    expect(await end('t', '7', 4_000, 0, 1)).toBe('FIRST')
    const [status, , fence] = String(await run(lookupOrLease, ['u', 5_000, 1_000, 'me', 0])).split(
      ' ',
    )
    expect(status).toBe('LEASED')
    expect(await end('u', fence ?? '', 4_000, 0, 1)).toBe('ENDED')
    expect(String(await run(lookupOrLease, ['v', 0, 1_000, 'me', 0]))).toMatch(/^PASS /)
  })
})

describe('purge', () => {
  const drop = (soft: 0 | 1, client = redis) => run(purge, [soft, 'k', `wake ${tests} `], client)
  const listenToAll = () => listener.subscribe(`wake ${tests} me`)

  it('replies PURGED for a key with variants on a server without free memory', async () => {
    await cached({ variants: LIFE, fence: '7' })
    expect(await whenFull(() => drop(0))).toBe('PURGED')
    expect(await redis.exists(key)).toBe(0)
  })

  it('replies PURGED for each soft purge of variants, with a later moment each time', async () => {
    await cached({ variants: LIFE })
    const before = await serverMs()
    expect(await drop(1)).toBe('PURGED')
    const first = (await cachedFields()).variants ?? ''
    expect(first).toMatch(/^begun 5 \d{13}$/)
    expect(Number(first.split(' ')[2])).toBeGreaterThanOrEqual(before)
    for (const at of ['8999999999999', '9'.repeat(15), '9'.repeat(17), '9'.repeat(400)]) {
      // The clock was set back, or a number was planted.
      const variants = `begun 5 ${at}`
      await cached({ variants })
      expect(await drop(1)).toBe('PURGED')
      expect((await cachedFields()).variants, at).not.toBe(variants)
    }
    await cached({ variants: 'begun 5 8999999999999' })
    expect(await drop(1)).toBe('PURGED')
    expect((await cachedFields()).variants).toBe('begun 5 9000000000000')
  })

  it.each(['x', '', '5'])(
    'replies PURGED for a soft purge of a group with nonsense as its life: %s',
    async (variants) => {
      await cached({ variants })
      expect(await drop(1)).toBe('PURGED')
      expect((await cachedFields()).variants).not.toBe(variants)
    },
  )

  it('replies PURGED for a soft purge with a greater fence, also after the clock was set back', async () => {
    await cached({ fence: '8999999999999998' })
    expect(await drop(1)).toBe('PURGED')
    expect((await cachedFields()).fence).toBe('8999999999999999')
  })

  it('replies PURGED for a soft purge on a server without free memory', async () => {
    await listenToAll()
    await cached({ frame: 'bytes', stored: '5', fence: '7', token: 'a', fresh: FUTURE, 'w:me': '' })
    expect(await whenFull(() => drop(1))).toBe('PURGED')
    const { fence, fresh, token, 'w:me': waiter } = await cachedFields()
    expect([token, waiter]).toEqual([undefined, undefined])
    expect(Number(fence)).toBeGreaterThan(7)
    expect(Number(fresh)).toBeLessThanOrEqual(await serverMs())
    expect(await allHeard()).toEqual([`wake ${tests} me k`])
  })
})
