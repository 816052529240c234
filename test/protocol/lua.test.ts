// Every reply of every script in lua/, produced by a direct call on a real server: without the line that gives
// it, its test fails. Those of idempotency keys are in lua-idempotency.test.ts. States are written into the record
// by hand where time would have to pass.

import { readdirSync, readFileSync } from 'node:fs'
import { beforeEach, describe, expect, it } from 'vitest'
import * as generated from '../../packages/redis/src/protocol/scripts.generated.ts'
import {
  type Arguments,
  allHeard,
  FUTURE,
  fieldsOf,
  group,
  key,
  listener,
  PAST,
  record,
  redis,
  serverMs,
  span,
  statusOf,
  tests,
  whenFull,
  without,
} from '../harness/lua-scripts.ts'

const { acquireLock, commit, endLease, leaveQueue, lookupOrLease, purge, releaseLock, renew } =
  generated

const KEEP_MS = 60_000
const CLAIM_MS = 2_000
const TRUST = 1
/** A life of a group, as it stands in `variants` of its record and `group` of its variants. */
const LIFE = 'begun 5 0'
/** The same, after a soft purge. */
const SOFTENED = 'begun 5 1'
const OTHER_LIVES = ['other 5 0', 'begun 6 0', 'other 9 0']
/** Whether the record is of a variant, and its group another. */
let isVariant = false

const run = (script: generated.Script, args: Arguments, client = redis): Promise<unknown> => {
  const inGroup = isVariant || script === commit
  const keys = script.keys === 1 || !inGroup ? [key] : [key, group]
  return client.eval(script.source, keys.length, ...keys, ...args)
}

describe('the scripts', () => {
  it('are what lua/ says, each of them tested below, in lua-purges.test.ts or in lua-idempotency.test.ts', () => {
    const folder = new URL('../../lua/', import.meta.url)
    const files = readdirSync(folder).filter((file) => file.endsWith('.lua'))
    const scripts = Object.values(generated).map(({ name, keys }) => `${name}-${keys}.lua`)
    expect(scripts.sort()).toEqual(files.sort())
    for (const { name, keys, source } of Object.values(generated)) {
      expect(readFileSync(new URL(`${name}-${keys}.lua`, folder), 'utf8')).toBe(source)
    }
    expect(scripts).toHaveLength(15)
  })
})

describe('acquire-lock', () => {
  const acquire = (token: string, { leaseMs = 5_000, process = '', notAfter = 0 } = {}) =>
    run(acquireLock, [token, leaseMs, process, notAfter, KEEP_MS])

  it('LATE after the moment up to which it was wanted: nothing is done', async () => {
    const reply = await acquire('t', { notAfter: (await serverMs()) - 1 })
    expect(reply).toEqual(['LATE', expect.any(Number), '', 0])
    expect(await fieldsOf()).toEqual({})
  })

  it('GRANTED before that moment', async () => {
    const reply = await acquire('t', { notAfter: (await serverMs()) + 10_000 })
    expect(reply).toEqual(['GRANTED', expect.any(Number), expect.any(String), 5_000])
  })

  it('GRANTED when it is free: the token, the end, and a fence in whole microseconds', async () => {
    const before = await serverMs()
    const [status, now, fence, forMs] = (await acquire('t')) as [string, number, string, number]
    expect([status, forMs]).toEqual(['GRANTED', 5_000])
    expect(fence).toMatch(/^\d{16}$/)
    expect(now).toBeGreaterThanOrEqual(before)
    expect(Math.floor(Number(fence) / 1_000)).toBe(now)
    expect(await fieldsOf()).toEqual({ token: 't', until: span(now, 5_000), fence })
    expect(await redis.pttl(key)).toBeGreaterThan(KEEP_MS)
  })

  it('GRANTED above every earlier fence, also when the clock was set back', async () => {
    const ahead = '8999999999999999'
    await record({ fence: ahead })
    expect(await acquire('t')).toEqual(['GRANTED', expect.any(Number), '9000000000000000', 5_000])
  })

  it('GRANTED again to the token that has it: the same fence, and the time that is left', async () => {
    const until = (await serverMs()) + 4_000
    await record({ token: 't', until, fence: '7' })
    const [status, now, fence, forMs] = (await acquire('t', { leaseMs: 9_000 })) as unknown[]
    expect([status, fence]).toEqual(['GRANTED', '7'])
    expect(forMs).toBe(until - Number(now))
    expect((await fieldsOf()).until).toBe(String(until))
  })

  it('GRANTED anew to the token that had it, when its lease is over: a greater fence', async () => {
    await record({ token: 't', until: PAST, fence: '7' })
    const [status, , fence, forMs] = (await acquire('t')) as unknown[]
    expect([status, forMs]).toEqual(['GRANTED', 5_000])
    expect(Number(fence)).toBeGreaterThan(7)
  })

  it('BUSY while another has it: for how long at most', async () => {
    const until = (await serverMs()) + 4_000
    await record({ token: 'other', until, fence: '7' })
    const [status, now, fence, forMs] = (await acquire('t')) as unknown[]
    expect([status, fence, forMs]).toEqual(['BUSY', '7', until - Number(now)])
    expect(await fieldsOf()).toEqual({ token: 'other', until: String(until), fence: '7' })
  })

  it('BUSY for one lease more, once, when the clock was set back during the lease', async () => {
    const hour = 3_600_000
    await record({ token: 'other', until: span((await serverMs()) + hour, 4_000), fence: '7' })
    const [status, now, , forMs] = (await acquire('t')) as [string, number, string, number]
    expect([status, forMs]).toEqual(['BUSY', 4_000])
    expect((await fieldsOf()).until).toBe(span(now, 4_000))
    const [again, later, , leftMs] = (await acquire('t')) as [string, number, string, number]
    expect([again, leftMs]).toEqual(['BUSY', now + 4_000 - later])
  })

  it('BUSY with a place in the queue, one for each process, under its last name', async () => {
    await record({ token: 'other', until: FUTURE, fence: '7' })
    for (const [token, process] of [
      ['t1', 'p1'],
      ['t2', 'p2'],
      ['t3', 'p1'],
    ] as const) {
      expect(await statusOf(acquire(token, { process }))).toBe('BUSY')
    }
    expect(await fieldsOf()).toMatchObject({
      'q:0': 't3 5000 p1',
      'q:1': 't2 5000 p2',
      'p:p1': '0',
      'p:p2': '1',
      head: '0',
      tail: '2',
    })
  })

  it('BUSY does not shorten the life of the record: a short wait for a long lease', async () => {
    await acquire('holder', { leaseMs: 600_000 })
    await acquire('t', { leaseMs: 1_000, process: 'p' })
    expect(await redis.pttl(key)).toBeGreaterThan(600_000)
  })

  it('OVERDUE when the lease is over and others queue: whose it was', async () => {
    await record({ token: 'dead', until: PAST, fence: '7', 'q:0': 't1 5000 p1', 'p:p1': 0 })
    await record({ head: 0, tail: 1 })
    expect(await acquire('t')).toEqual(['OVERDUE', expect.any(Number), '7', 0, 'dead'])
    expect(await fieldsOf()).toMatchObject({ token: 'dead', fence: '7' })
  })

  it('OVERDUE also when nobody has it and others queue: nobody is overtaken', async () => {
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

  it('LOST when another has it', async () => {
    await held()
    expect(await release('other')).toEqual(['LOST', expect.any(Number), '', 0])
    expect(await release('t', { fence: '6' })).toEqual(['LOST', expect.any(Number), '', 0])
    expect(await fieldsOf()).toMatchObject({ token: 't', fence: '7' })
  })

  it('LOST on behalf of a holder whose lease is not over', async () => {
    await held()
    expect(await release('t', { overdue: 1 })).toEqual(['LOST', expect.any(Number), '', 0])
    expect(await fieldsOf()).toMatchObject({ token: 't' })
  })

  it('RELEASED on behalf of a holder whose lease is over', async () => {
    await held()
    await record({ until: PAST })
    expect(await release('t', { overdue: 1 })).toEqual(['RELEASED', expect.any(Number), '', 0])
    expect(await fieldsOf()).toEqual({ fence: '7' })
  })

  it('RELEASED to nobody: only the fence is remembered', async () => {
    await held()
    expect(await release('t')).toEqual(['RELEASED', expect.any(Number), '', 0])
    expect(await fieldsOf()).toEqual({ fence: '7' })
  })

  it('RELEASED by the token alone', async () => {
    await held()
    expect(await statusOf(release('t', { fence: '*' }))).toBe('RELEASED')
  })

  it('RELEASED to the head of the queue, who is told; the next stays', async () => {
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

  it('RELEASED past those who are not there any more, in the same step', async () => {
    await held(['dead1', 'dead2', 'p3'])
    await listenAs('p3')
    expect(await release('t')).toEqual(['RELEASED', expect.any(Number), '', CLAIM_MS])
    expect(await fieldsOf()).toMatchObject({ token: 't-p3', head: '3' })
    expect(await allHeard()).toHaveLength(1)
  })

  it('RELEASED to nobody when all are gone', async () => {
    await held(['dead1', 'dead2'])
    expect(await statusOf(release('t'))).toBe('RELEASED')
    expect(Object.keys(await fieldsOf())).toEqual(['fence'])
  })

  it('RELEASED over a gap in the queue', async () => {
    await held(['gone', 'p2'])
    await redis.hdel(key, 'q:0', 'p:gone')
    await listenAs('p2')
    await release('t')
    expect(await fieldsOf()).toMatchObject({ token: 't-p2', head: '2' })
  })

  it('RELEASED to a process that nobody seems to hear, where receivers are not counted', async () => {
    await held(['p1', 'p2'])
    expect(await release('t', { trust: 0 })).toEqual(['RELEASED', expect.any(Number), '', CLAIM_MS])
    expect(await fieldsOf()).toMatchObject({ token: 't-p1', head: '1' })
  })

  it('RELEASED with a fence to the process that queued again, when nobody else did', async () => {
    await held()
    const reply = await release('t', { again: ['me', 't2', 1_500] })
    const [status, now, fence, forMs] = reply as [string, number, string, number]
    expect([status, forMs]).toEqual(['RELEASED', 1_500])
    expect(Number(fence)).toBeGreaterThan(7)
    expect(await fieldsOf()).toMatchObject({ token: 't2', fence, until: span(now, 1_500) })
    expect(await redis.pttl(key)).toBeGreaterThan(KEEP_MS)
  })

  it('RELEASED with a fence above that of the holder, also when the clock was set back', async () => {
    await held()
    await record({ fence: '8999999999999999' })
    const reply = await release('t', { fence: '*', again: ['me', 't2', 1_500] })
    expect(reply).toMatchObject({ 0: 'RELEASED', 2: '9000000000000000' })
  })

  it('RELEASED to another, and queued again behind it', async () => {
    await held(['p1'])
    await listenAs('p1')
    const reply = await release('t', { again: ['me', 't2', 1_500] })
    expect(reply).toEqual(['RELEASED', expect.any(Number), '', CLAIM_MS])
    expect(await fieldsOf()).toMatchObject({ token: 't-p1', 'q:1': 't2 1500 me', 'p:me': '1' })
  })

  it('RELEASED with a fence to the process that queued again, under its new name', async () => {
    await held(['me'])
    const [status, , fence] = (await release('t', { again: ['me', 't2', 1_500] })) as unknown[]
    expect(status).toBe('RELEASED')
    expect(await fieldsOf()).toMatchObject({ token: 't2', fence })
    expect(Object.keys(await fieldsOf()).filter((field) => /^[qp]:/.test(field))).toEqual([])
  })

  it('RELEASED to nobody where the next may not be written down: nobody is told of what is not so', async () => {
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

  it('ABSENT when it is not in the queue', async () => {
    await queued('p1')
    expect(await leave('p2')).toBe('ABSENT')
    expect(await fieldsOf()).toMatchObject({ 'p:p1': '0', tail: '1' })
  })

  it('LEFT, with no trace of the last one', async () => {
    await queued('p1', 'p2')
    expect(await leave('p2')).toBe('LEFT')
    expect(await fieldsOf()).toEqual({ head: '0', tail: '1', 'q:0': 't 5000 p1', 'p:p1': '0' })
  })

  it('LEFT, with a gap where others come behind', async () => {
    await queued('p1', 'p2')
    expect(await leave('p1')).toBe('LEFT')
    expect(await fieldsOf()).toEqual({ head: '0', tail: '2', 'q:1': 't 5000 p2', 'p:p2': '1' })
  })
})

describe('renew', () => {
  const extend = (token: string, fence: string) => run(renew, [token, fence, 5_000, KEEP_MS])

  it('LOST when another has it, or nobody', async () => {
    expect(await extend('t', '7')).toBe('LOST')
    await record({ token: 't', fence: '7', until: PAST })
    expect(await extend('other', '7')).toBe('LOST')
    expect(await extend('t', '6')).toBe('LOST')
    expect(await fieldsOf()).toEqual({ token: 't', fence: '7', until: String(PAST) })
  })

  it('RENEWED from now on, also when it had run out', async () => {
    await record({ token: 't', fence: '7', until: PAST })
    const before = await serverMs()
    expect(await extend('t', '7')).toBe('RENEWED')
    expect(parseInt((await fieldsOf()).until ?? '', 10)).toBeGreaterThanOrEqual(before + 5_000)
    expect(await redis.pttl(key)).toBeGreaterThan(KEEP_MS)
  })

  it('RENEWED does not shorten the life of the record', async () => {
    await record({ token: 't', fence: '7', until: FUTURE })
    await redis.pexpire(key, 10 * KEEP_MS)
    await extend('t', '7')
    expect(await redis.pttl(key)).toBeGreaterThan(9 * KEEP_MS)
  })

  it('RENEWED on a server that is full', async () => {
    await record({ token: 't', fence: '7', until: PAST })
    expect(await whenFull(() => extend('t', '7'))).toBe('RENEWED')
  })

  it('RENEWED keeps the record of its group alive, and makes none where there is none', async () => {
    isVariant = true
    try {
      await record({ token: 't', fence: '7', until: PAST })
      expect(await extend('t', '7')).toBe('RENEWED')
      expect(await redis.exists(group)).toBe(0)
      await redis.hset(group, 'variants', LIFE)
      await redis.pexpire(group, 1_000)
      expect(await extend('t', '7')).toBe('RENEWED')
      expect(await redis.pttl(group)).toBeGreaterThan(KEEP_MS)
    } finally {
      isVariant = false
    }
  })
})

describe('lookup-or-lease', () => {
  interface Given {
    leaseMs?: number
    known?: string
    outdated?: string
    soft?: 0 | 1
    early?: 0 | 1
    notAfter?: number
    told?: 0 | 1
    like?: string
  }
  const look = (token: string, given: Given = {}) => {
    const { leaseMs = 5_000, known = '', outdated = '', soft = 0, early = 0, notAfter = 0 } = given
    const { told = 1, like = '' } = given
    const plain = [token, leaseMs, 'me', notAfter, KEEP_MS, told]
    const rest = [known, outdated, soft, early, like]
    const lookup = rest.some((each) => each !== '' && each !== 0) ? [...plain, ...rest] : plain
    return run(lookupOrLease, lookup)
  }
  const entry = async (freshInMs: number, rest: Record<string, string | number> = {}) => {
    const now = await serverMs()
    const times = { made: now - 1_000, fresh: now + freshInMs, swr: 3_000, sie: 9_000, keep: 0 }
    await record({ frame: 'bytes', stored: '5', fence: '5', ...times, ...rest })
  }

  it('LATE after the moment up to which it was wanted: nothing is done', async () => {
    const reply = await look('t', { notAfter: (await serverMs()) - 1 })
    expect(reply).toEqual(['LATE', expect.any(Number)])
    expect(await fieldsOf()).toEqual({})
  })

  it('LEASED before that moment', async () => {
    expect(await statusOf(look('t', { notAfter: (await serverMs()) + 10_000 }))).toBe('LEASED')
  })

  it('LEASED when nothing is there', async () => {
    const [status, now, fence, ...rest] = (await look('t')) as unknown[]
    expect(status).toBe('LEASED')
    expect(rest).toEqual([0, '', ''])
    expect(await fieldsOf()).toEqual({ token: 't', fence, until: span(Number(now), 5_000) })
    expect(await redis.pttl(key)).toBeGreaterThan(KEEP_MS)
  })

  it('LEASED although another was, when the clock was set back before that', async () => {
    const later = (await serverMs()) + 60_000
    await record({ token: 'other', until: span(later, 5_000), fence: '7' })
    expect(await statusOf(look('t'))).toBe('LEASED')
    expect(await fieldsOf()).toMatchObject({ token: 't' })
  })

  it('LEASED although it is not shareable or failed, when the clock was set back before that', async () => {
    const later = (await serverMs()) + 60_000
    await record({ pass: span(later, 5_000), retry: span(later, 1_000), failure: 'why' })
    expect(await statusOf(look('t'))).toBe('LEASED')
  })

  it('LEASED when the entry was made after now: it is dropped, for its age is not known', async () => {
    const later = (await serverMs()) + 60_000
    await entry(5_000, { made: later, fresh: later + 2_000 })
    const reply = (await look('t')) as unknown[]
    expect([reply[0], reply[4]]).toEqual(['LEASED', ''])
    expect((await fieldsOf()).frame).toBeUndefined()
  })

  it('LEASED again to the token that has it', async () => {
    await record({ token: 't', until: FUTURE, fence: '7' })
    const [status, , fence] = (await look('t')) as unknown[]
    expect([status, fence]).toEqual(['LEASED', '7'])
  })

  it('LEASED above every earlier fence, also when the clock was set back', async () => {
    await record({ fence: '8999999999999999' })
    expect(((await look('t')) as unknown[])[2]).toBe('9000000000000000')
  })

  it('LEASED with the entry that may stand in for an error', async () => {
    await entry(-5_000)
    const reply = (await look('t')) as unknown[]
    expect(reply[0]).toBe('LEASED')
    expect(reply.slice(4, 5)).toEqual(['5'])
    expect(reply[11]).toBe('bytes')
  })

  it('LEASED without an entry that is past all use', async () => {
    await entry(-10_000)
    const reply = (await look('t')) as unknown[]
    expect(reply[0]).toBe('LEASED')
    expect(reply.slice(4)).toEqual(['', ''])
  })

  it('LEASED instead of what is no record of ours', async () => {
    await redis.set(key, 'in our way')
    expect(await statusOf(look('t'))).toBe('LEASED')
    expect(await redis.type(key)).toBe('hash')
  })

  it('LEASED with an entry that is past its windows and kept to be compared', async () => {
    await entry(-10_000, { keep: 20_000 })
    const reply = (await look('t')) as unknown[]
    expect([reply[0], reply[4], reply[10], reply[11]]).toEqual(['LEASED', '5', 20_000, 'bytes'])
  })

  it('LEASED instead of an entry that the caller must not use', async () => {
    await entry(5_000)
    expect(await statusOf(look('t', { outdated: '4' }))).toBe('FRESH')
    const reply = (await look('t', { outdated: '5' })) as unknown[]
    expect([reply[0], reply[4]]).toEqual(['LEASED', ''])
    const left = Object.keys(await fieldsOf())
    for (const field of ['frame', 'stored']) expect(left).not.toContain(field)
  })

  it('BUSY instead of an entry that the caller must not use, while another fills it', async () => {
    await entry(5_000, { token: 'other', until: FUTURE, fence: '7' })
    expect(await statusOf(look('t', { outdated: '5' }))).toBe('BUSY')
    expect(await fieldsOf()).toMatchObject({ token: 'other', fence: '7' })
  })

  it('STALE where the caller says that it is, from now on and for everybody', async () => {
    await entry(5_000)
    const before = await serverMs()
    expect(await statusOf(look('t', { outdated: '5', soft: 1 }))).toBe('STALE')
    const fresh = Number((await fieldsOf()).fresh)
    expect(fresh).toBeGreaterThanOrEqual(before)
    expect(fresh).toBeLessThanOrEqual(await serverMs())
    expect(await statusOf(look('', { leaseMs: 0 }))).toBe('STALE')
  })

  it('STALE since it was, where the caller says that it is', async () => {
    await entry(-1_000)
    const { fresh } = await fieldsOf()
    expect(await statusOf(look('t', { outdated: '5', soft: 1 }))).toBe('STALE')
    expect((await fieldsOf()).fresh).toBe(fresh)
  })

  it('FRESH with the frame and its times', async () => {
    await entry(5_000)
    const reply = (await look('t')) as unknown[]
    expect(reply.slice(0, 1)).toEqual(['FRESH'])
    expect(reply.slice(2, 5)).toEqual(['', 0, '5'])
    expect(Number(reply[6])).toBeGreaterThanOrEqual(1_000)
    expect(Number(reply[7])).toBeGreaterThan(3_000)
    expect(reply.slice(8)).toEqual([3_000, 9_000, 0, 'bytes'])
  })

  it('FRESH without the frame for a caller that has it, and with all the times', async () => {
    await entry(5_000)
    const reply = (await look('t', { known: '5' })) as unknown[]
    expect([reply[0], reply[4]]).toEqual(['FRESH', '5'])
    expect(Number(reply[7])).toBeGreaterThan(3_000)
    expect(reply.slice(8)).toEqual([3_000, 9_000, 0, null])
  })

  it('FRESH with the frame for a caller that has another', async () => {
    await entry(5_000)
    const reply = (await look('t', { known: '4' })) as unknown[]
    expect([reply[4], reply[11]]).toEqual(['5', 'bytes'])
  })

  it('FRESH with a grant for the one who is to refresh it early', async () => {
    await entry(5_000)
    const reply = (await look('t', { early: 1 })) as unknown[]
    expect(reply[0]).toBe('FRESH')
    const { token, fence } = await fieldsOf()
    expect([token, fence]).toEqual(['t', reply[2]])
    expect(((await look('t', { early: 1 })) as unknown[])[2]).toBe(fence)
  })

  it.each<[string, Record<string, string | number>, Given]>([
    ['another refreshes it', { token: 'other', until: FUTURE }, {}],
    ['that failed just now', { retry: FUTURE, failure: 'why' }, {}],
    ['the caller only reads', {}, { leaseMs: 0 }],
  ])('FRESH without a grant where %s, and nobody is registered', async (_, fields, given) => {
    await entry(5_000, fields)
    const before = await fieldsOf()
    const reply = (await look('t', { early: 1, ...given })) as unknown[]
    expect([reply[0], reply[2]]).toEqual(['FRESH', ''])
    expect(await fieldsOf()).toEqual(before)
  })

  it('FRESH without a grant on a server that is full', async () => {
    await entry(5_000)
    const reply = (await whenFull(() => look('t', { early: 1 }))) as unknown[]
    expect([reply[0], reply[2], reply[11]]).toEqual(['FRESH', '', 'bytes'])
  })

  it('an error where there is no memory for a lease', async () => {
    await expect(whenFull(() => look('t'))).rejects.toThrow(/OOM/)
  })

  it('PASS with the grant for the one whose run may be stored; the mark stays', async () => {
    const until = (await serverMs()) + 4_000
    await record({ pass: until })
    const [status, now, grant, forMs] = (await look('t')) as unknown[]
    const { pass, token, fence } = await fieldsOf()
    expect([status, grant, forMs]).toEqual(['PASS', fence, until - Number(now)])
    expect([pass, token]).toEqual([String(until), 't'])
  })

  it('PASS without a grant while another holds the lease; the reader is not registered', async () => {
    await record({ pass: (await serverMs()) + 4_000, token: 't', until: FUTURE, fence: '7' })
    const [status, , grant] = (await look('other')) as unknown[]
    expect([status, grant]).toEqual(['PASS', ''])
    expect(Object.keys(await fieldsOf()).sort()).toEqual(['fence', 'pass', 'token', 'until'])
  })

  it('LEASED when a PASS mark has expired; the mark is deleted', async () => {
    await record({ pass: (await serverMs()) - 1 })
    expect(((await look('t')) as unknown[])[0]).toBe('LEASED')
    expect(await fieldsOf()).not.toHaveProperty('pass')
  })

  it('FAILED for the back-off, with the failure', async () => {
    const until = (await serverMs()) + 4_000
    await record({ retry: until, failure: 'why' })
    const reply = (await look('t')) as unknown[]
    expect([reply[0], reply[3]]).toEqual(['FAILED', until - Number(reply[1])])
    expect(reply[5]).toBe('why')
  })

  it('FAILED for like requests only while the failure names a request', async () => {
    const failure = '{"status":500,"message":"x \\"like\\":\\"b\\"","like":"a"}'
    await record({ retry: (await serverMs()) + 4_000, failure })
    for (const like of ['', 'a']) {
      expect(((await look('t', { like })) as unknown[])[0]).toBe('FAILED')
    }
    expect(((await look('t', { like: 'b' })) as unknown[])[0]).toBe('LEASED')
    expect(await fieldsOf()).not.toHaveProperty('failure')
  })

  it('FAILED for every request once the failure names no request', async () => {
    const failure = '{"status":500,"message":"x \\"like\\":\\"b\\""}'
    await record({ retry: (await serverMs()) + 4_000, failure })
    expect(((await look('t', { like: 'a' })) as unknown[])[0]).toBe('FAILED')
  })

  it('STALE with the grant for the one who is to refresh it', async () => {
    await entry(-1_000)
    const reply = (await look('t')) as unknown[]
    expect([reply[0], reply[3], reply[4]]).toEqual(['STALE', 0, '5'])
    expect(reply[2]).toBe((await fieldsOf()).fence)
    expect((await fieldsOf()).token).toBe('t')
  })

  it('STALE without a grant while another refreshes it', async () => {
    const until = (await serverMs()) + 4_000
    await entry(-1_000, { token: 'other', until, fence: '6' })
    const reply = (await look('t')) as unknown[]
    expect([reply[0], reply[2], reply[3]]).toEqual(['STALE', '', until - Number(reply[1])])
    expect(await fieldsOf()).toMatchObject({ 'w:me': '', token: 'other' })
  })

  it('STALE to one who only reads', async () => {
    await entry(-1_000)
    const reply = (await look('', { leaseMs: 0 })) as unknown[]
    expect([reply[0], reply[2], reply[3], reply[11]]).toEqual(['STALE', '', 0, 'bytes'])
    expect((await fieldsOf()).token).toBeUndefined()
  })

  it('BUSY while another fills it; who asked will be woken', async () => {
    const until = (await serverMs()) + 4_000
    await record({ token: 'other', until, fence: '6' })
    const [status, now, grant, forMs, fence] = (await look('t')) as unknown[]
    expect([status, grant, forMs, fence]).toEqual(['BUSY', '', until - Number(now), '6'])
    expect((await fieldsOf())['w:me']).toBe('t')
    await look('t', { told: 0 })
    expect((await fieldsOf())['w:me']).toBe('')
  })

  it('PASS, FAILED and BUSY for a day at most, whatever was planted', async () => {
    const day = 86_400_000
    await record({ pass: FUTURE })
    expect((await look('t')) as unknown[]).toMatchObject({ 0: 'PASS', 3: day })
    await record({ pass: 0, retry: FUTURE, failure: 'why' })
    expect((await look('t')) as unknown[]).toMatchObject({ 0: 'FAILED', 3: day })
    await record({ retry: 0, token: 'other', until: FUTURE, fence: '6' })
    expect((await look('t')) as unknown[]).toMatchObject({ 0: 'BUSY', 3: day })
  })

  it('BUSY to one who only reads, when there is nothing', async () => {
    expect(await look('', { leaseMs: 0 })).toEqual(['BUSY', expect.any(Number), '', 0])
    expect(await fieldsOf()).toEqual({})
  })

  describe('of a variant', () => {
    beforeEach(() => {
      isVariant = true
      return () => {
        isVariant = false
      }
    })

    const variant = (freshInMs: number, rest: Record<string, string | number> = {}) =>
      entry(freshInMs, { group: LIFE, ...rest })
    const begun = (variants = LIFE) => redis.hset(group, { variants })

    it('LEASED when nothing is there: begins a life of its group, named by token and fence', async () => {
      const [status, , fence] = (await look('t')) as unknown[]
      expect(status).toBe('LEASED')
      expect(await redis.hgetall(group)).toEqual({ variants: `t ${fence} 0` })
      expect(await fieldsOf()).toMatchObject({ group: `t ${fence} 0` })
      expect(await redis.pttl(group)).toBeGreaterThan(KEEP_MS)
    })

    it('LEASED when the record of its group is of another type, which is replaced', async () => {
      await variant(5_000)
      await redis.set(group, 'in our way')
      const [status, , fence, , entryFence] = (await look('t')) as unknown[]
      expect([status, entryFence]).toEqual(['LEASED', ''])
      expect(await redis.hgetall(group)).toEqual({ variants: `t ${fence} 0` })
    })

    it('BUSY to one who only reads, when the record of its group is of another type', async () => {
      await variant(5_000)
      await redis.set(group, 'in our way')
      expect(await statusOf(look('t', { leaseMs: 0 }))).toBe('BUSY')
      expect(await redis.exists(key, group)).toBe(0)
    })

    it('LEASED in the life that its group has: the record of the group stays as it is', async () => {
      await begun()
      expect(await statusOf(look('t'))).toBe('LEASED')
      expect(await redis.hgetall(group)).toEqual({ variants: LIFE })
      expect(await fieldsOf()).toMatchObject({ group: LIFE })
    })

    it('LEASED in another life each time, also if one token asks again after a purge', async () => {
      const lives = new Set<string | null>()
      for (let i = 0; i < 5; i++) {
        expect(await statusOf(look('t'))).toBe('LEASED')
        lives.add(await redis.hget(group, 'variants'))
        await redis.del(group)
      }
      expect(lives.size).toBe(5)
    })

    it.each(OTHER_LIVES)('LEASED when its group is in another life: %s', async (life) => {
      for (const of of [{ group: LIFE }, {}]) {
        await redis.del(key)
        await entry(5_000, of)
        await begun(life)
        const [status, , fence, , entryFence] = (await look('t')) as unknown[]
        expect([status, entryFence]).toEqual(['LEASED', ''])
        expect(Number(fence)).toBeGreaterThan(7)
        const { token, until, ...left } = await fieldsOf()
        expect(left).toEqual({ group: life, fence })
      }
    })

    it.each<[string, Record<string, string>]>([
      ['is missing', {}],
      ['knows of no variants', { fence: '3' }],
    ])('LEASED when the record of its group %s: from now on it knows', async (_, fields) => {
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
      'LEASED when its group has nonsense for its life: %s',
      async (nonsense) => {
        await variant(5_000)
        await begun(nonsense)
        expect(await statusOf(look('t'))).toBe('LEASED')
        await redis.del(key)
        await entry(5_000)
        expect(await statusOf(look('t'))).toBe('LEASED')
      },
    )

    it('LEASED though another was filling it before the purge, or it was not shareable then', async () => {
      await begun('other 9 0')
      for (const before of [{ token: 'other', until: FUTURE }, { pass: FUTURE }]) {
        await redis.del(key)
        await record({ fence: '5', group: LIFE, ...before })
        expect(await statusOf(look('t'))).toBe('LEASED')
      }
    })

    it('LEASED above every fence of the variant, also when its group is in another life', async () => {
      const ahead = '8999999999999998'
      for (const variants of [LIFE, 'other 9 0']) {
        await redis.del(key)
        await record({ fence: ahead, group: LIFE })
        await begun(variants)
        expect(((await look('t')) as unknown[])[2]).toBe('8999999999999999')
      }
    })

    it('LEASED after a soft purge while another was filling it: nobody waits for what is refused', async () => {
      await record({ token: 'other', until: FUTURE, fence: '7', group: LIFE })
      await begun(SOFTENED)
      expect(await statusOf(look('t'))).toBe('LEASED')
      expect(await fieldsOf()).toMatchObject({ group: SOFTENED })
    })

    it('BUSY while another fills it in the life of its group', async () => {
      await record({ token: 'other', until: FUTURE, fence: '7', group: LIFE })
      await begun()
      expect(await statusOf(look('t'))).toBe('BUSY')
    })

    it('BUSY to one who only reads, when the record of its group is missing', async () => {
      await variant(5_000)
      expect(await look('', { leaseMs: 0 })).toEqual(['BUSY', expect.any(Number), '', 0])
      expect(await redis.exists(group)).toBe(0)
    })

    it('STALE when its group was purged softly since, and the clock was set back', async () => {
      await variant(5_000)
      await begun(`begun 5 ${(await serverMs()) + 4_000}`)
      expect(await statusOf(look('t'))).toBe('STALE')
    })

    it('STALE when its group was purged softly since, also to those who ask later', async () => {
      await variant(5_000)
      await begun(`begun 5 ${await serverMs()}`)
      expect(await statusOf(look('', { leaseMs: 0 }))).toBe('STALE')
      const [status, , fence] = (await look('t')) as unknown[]
      expect([status, fence]).toEqual(['STALE', expect.stringMatching(/^\d{16}$/)])
      // Its lease is of the present `variants`, and its entry is not.
      expect(await statusOf(look('other'))).toBe('STALE')
      expect(await statusOf(look('', { leaseMs: 0 }))).toBe('STALE')
    })

    it('STALE for no longer than since the soft purge', async () => {
      await variant(5_000)
      await begun(`begun 5 ${(await serverMs()) - 3_500}`)
      // `swr` is 3 s: it may stand in for an error only.
      expect(await statusOf(look('t'))).toBe('LEASED')
    })

    it('FRESH when no purge of its group came since', async () => {
      for (const variants of [LIFE, SOFTENED]) {
        await variant(5_000, { stored: '7', fence: '7', group: variants })
        await begun(variants)
        expect(await statusOf(look('t'))).toBe('FRESH')
      }
    })
  })
})

describe('commit', () => {
  const write = (token: string, fence: string, frame = 'bytes') => {
    const times = [1_000, '2000 3000 4000', 7_000]
    return run(commit, [token, fence, frame, ...times, 'k', `wake ${tests} `])
  }

  const variant = (fields: Record<string, string | number>) => record({ group: LIFE, ...fields })
  beforeEach(() => void redis.hset(group, 'variants', LIFE))

  it('FENCED when a later grant or a purge has raised the fence', async () => {
    expect(await write('t', '7')).toBe('FENCED')
    await variant({ token: 't', fence: '8' })
    expect(await write('t', '7')).toBe('FENCED')
    expect(await fieldsOf()).toEqual({ group: LIFE, token: 't', fence: '8' })
  })

  it.each<[string, Record<string, string>]>([
    ...OTHER_LIVES.map((life): [string, Record<string, string>] => [
      `is in another life (${life})`,
      { variants: life },
    ]),
    ['was purged softly since', { variants: SOFTENED }],
    ['is missing', {}],
    ['knows of no variants', { fence: '3' }],
    ['has nonsense for what it knows of them', { variants: 'x' }],
  ])('FENCED when the record of its group %s', async (_, fields) => {
    await variant({ token: 't', fence: '7' })
    await redis.del(group)
    if (Object.keys(fields).length > 0) await redis.hset(group, fields)
    expect(await write('t', '7')).toBe('FENCED')
    expect((await fieldsOf()).frame).toBeUndefined()
    expect(await redis.hgetall(group)).toEqual(fields)
  })

  it('COMMITTED keeps the record of its group for as long, and never shortens it', async () => {
    await variant({ token: 't', fence: '7' })
    await redis.pexpire(group, 1_000)
    expect(await write('t', '7')).toBe('COMMITTED')
    expect(await redis.pttl(group)).toBeGreaterThan(5_000)
    await redis.pexpire(group, 60_000)
    await variant({ token: 't', fence: '7' })
    expect(await write('t', '7')).toBe('COMMITTED')
    expect(await redis.pttl(group)).toBeGreaterThan(50_000)
  })

  it('COMMITTED does not shorten the life of a record that has variants, and does that of others', async () => {
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

  it('FENCED when the variant, its group or both name no life', async () => {
    for (const [of, ofGroup] of [
      [{}, {}],
      [{}, { variants: LIFE }],
      [{ group: LIFE }, {}],
    ]) {
      await redis.del(key, group)
      await record({ token: 't', fence: '7', ...of })
      await redis.hset(group, { other: '', ...ofGroup })
      expect(await write('t', '7')).toBe('FENCED')
    }
  })

  it('FENCED when its lease was ended without an entry', async () => {
    await variant({ fence: '7' })
    expect(await write('t', '7')).toBe('FENCED')
    expect(await fieldsOf()).toEqual({ group: LIFE, fence: '7' })
  })

  it('COMMITTED again when the reply was lost: nothing is written twice', async () => {
    await variant({ fence: '7', stored: '7', frame: 'as it was' })
    expect(await write('t', '7')).toBe('COMMITTED')
    expect((await fieldsOf()).frame).toBe('as it was')
  })

  it('COMMITTED: the entry, no lease, and everybody is woken', async () => {
    await listener.subscribe(`wake ${tests} me`)
    await variant({ token: 't', until: FUTURE, fence: '7', retry: 1, failure: 'x', 'w:me': '' })
    expect(await write('t', '7')).toBe('COMMITTED')
    const { made, fresh, ...fields } = await fieldsOf()
    const times = { swr: '2000', sie: '3000', keep: '4000' }
    expect(fields).toEqual({ group: LIFE, frame: 'bytes', stored: '7', fence: '7', ...times })
    expect(Number(fresh) - Number(made)).toBe(1_000)
    expect(await redis.pttl(key)).toBeGreaterThan(5_000)
    expect(await allHeard()).toEqual([`wake ${tests} me k`])
  })

  it('COMMITTED: everybody is told what was made, by the name they asked with, unless it is too long', async () => {
    await listener.subscribe(`wake ${tests} me`, `wake ${tests} you`)
    await variant({ token: 't', until: FUTURE, fence: '7', 'w:me': 'mine', 'w:you': 'yours' })
    expect(await write('t', '7')).toBe('COMMITTED')
    const { made } = await fieldsOf()
    const told = (name: string) => `\0${name} 7 ${made} 1000 2000 3000 4000 1\nkbytes`
    const heard = [`wake ${tests} me ${told('mine')}`, `wake ${tests} you ${told('yours')}`]
    expect((await allHeard()).sort()).toEqual(heard)
    await variant({ token: 't', until: FUTURE, fence: '8', 'w:me': '' })
    expect(await write('t', '8')).toBe('COMMITTED')
    expect((await allHeard()).at(-1)).toBe(`wake ${tests} me k`)
  })

  it('COMMITTED: a frame over 16 KiB is not sent, nor more than 1 MiB in all', async () => {
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
  const end = (token: string, fence: string, passMs = 0, backoffMs = 0, awaited = 0) =>
    run(endLease, [token, fence, passMs, backoffMs, 'why', 'k', `wake ${tests} `, awaited])

  it('FENCED when it is not the holder', async () => {
    await record({ token: 't', fence: '7', until: FUTURE })
    expect(await end('other', '7')).toBe('FENCED')
    expect(await end('t', '6')).toBe('FENCED')
    expect((await fieldsOf()).token).toBe('t')
  })

  it('ENDED as if it had never been, and everybody is woken', async () => {
    await listener.subscribe(`wake ${tests} me`)
    await record({ token: 't', fence: '7', until: FUTURE, 'w:me': 1 })
    expect(await end('t', '7')).toBe('ENDED')
    expect(await fieldsOf()).toEqual({ fence: '7' })
    expect(await allHeard()).toEqual([`wake ${tests} me k`])
  })

  it('ENDED without a result: a PASS mark stays', async () => {
    await record({ token: 't', fence: '7', until: FUTURE, pass: FUTURE })
    expect(await end('t', '7')).toBe('ENDED')
    expect(await fieldsOf()).toEqual({ fence: '7', pass: String(FUTURE) })
  })

  it('ENDED as not shareable: the entry goes too', async () => {
    await record({ token: 't', fence: '7', until: FUTURE, frame: 'bytes', stored: '5' })
    expect(await end('t', '7', 4_000)).toBe('ENDED')
    expect(Object.keys(await fieldsOf()).sort()).toEqual(['fence', 'pass'])
    expect(await redis.pttl(key)).toBeGreaterThan(4_000)
  })

  it('ENDED as failed: the entry stays, and the failure is shared', async () => {
    await record({ token: 't', fence: '7', until: FUTURE, frame: 'bytes', stored: '5' })
    expect(await end('t', '7', 0, 4_000, 1)).toBe('ENDED')
    expect(await fieldsOf()).toMatchObject({ frame: 'bytes', failure: 'why' })
  })

  it('ENDED as failed: shared with a process that waits, with no word from that of the holder', async () => {
    await listener.subscribe(`wake ${tests} me`)
    await record({ token: 't', fence: '7', until: FUTURE, 'w:me': 1 })
    const before = await serverMs()
    expect(await end('t', '7', 0, 4_000)).toBe('ENDED')
    const { retry, ...fields } = await fieldsOf()
    expect(fields).toEqual({ fence: '7', failure: 'why' })
    expect(parseInt(retry ?? '', 10)).toBeGreaterThanOrEqual(before + 4_000)
    expect(await allHeard()).toEqual([`wake ${tests} me k`])
  })

  it('ENDED as failed: with nobody there, as if it had never been', async () => {
    await record({ token: 't', fence: '7', until: FUTURE, frame: 'bytes', stored: '5' })
    expect(await end('t', '7', 0, 4_000)).toBe('ENDED')
    const left = await fieldsOf()
    expect(left).toMatchObject({ fence: '7', frame: 'bytes', stored: '5' })
    for (const field of ['token', 'until', 'retry', 'failure'])
      expect(left).not.toHaveProperty(field)
  })
})

describe('purge', () => {
  const drop = (soft: 0 | 1, client = redis) => run(purge, [soft, 'k', `wake ${tests} `], client)
  const listenToAll = () => listener.subscribe(`wake ${tests} me`)

  it('PURGED: the record goes, and whoever waits is woken', async () => {
    await listenToAll()
    await record({ frame: 'bytes', stored: '5', fence: '7', token: 't', 'w:me': 1 })
    expect(await drop(0)).toBe('PURGED')
    expect(await redis.exists(key)).toBe(0)
    expect(await allHeard()).toEqual([`wake ${tests} me k`])
  })

  it('PURGED softly: the entry is stale, and the fill in flight is void', async () => {
    await listenToAll()
    await record({ frame: 'bytes', stored: '5', fence: '7', token: 't', until: FUTURE })
    await record({ fresh: FUTURE, 'w:me': 1 })
    expect(await drop(1)).toBe('PURGED')
    const { fence, fresh, token, frame } = await fieldsOf()
    expect([frame, token]).toEqual(['bytes', undefined])
    expect(Number(fence)).toBeGreaterThan(7)
    expect(Number(fresh)).toBeLessThanOrEqual(await serverMs())
    expect(await allHeard()).toEqual([`wake ${tests} me k`])
  })

  it('PURGED with variants: the record goes, and the life of the group with it', async () => {
    await record({ variants: LIFE, fence: '7', life: 'x' })
    expect(await drop(0)).toBe('PURGED')
    expect(await redis.exists(key)).toBe(0)
  })

  it('PURGED with variants on a full server', async () => {
    await record({ variants: LIFE, fence: '7' })
    expect(await whenFull(() => drop(0))).toBe('PURGED')
    expect(await redis.exists(key)).toBe(0)
  })

  it('PURGED softly with variants: the same life, and another moment each time', async () => {
    await record({ variants: LIFE })
    const before = await serverMs()
    expect(await drop(1)).toBe('PURGED')
    const first = (await fieldsOf()).variants ?? ''
    expect(first).toMatch(/^begun 5 \d{13}$/)
    expect(Number(first.split(' ')[2])).toBeGreaterThanOrEqual(before)
    for (const at of ['8999999999999', '9'.repeat(15), '9'.repeat(17), '9'.repeat(400)]) {
      // The clock was set back, or a number was planted.
      const variants = `begun 5 ${at}`
      await record({ variants })
      expect(await drop(1)).toBe('PURGED')
      expect((await fieldsOf()).variants, at).not.toBe(variants)
    }
    await record({ variants: 'begun 5 8999999999999' })
    expect(await drop(1)).toBe('PURGED')
    expect((await fieldsOf()).variants).toBe('begun 5 9000000000000')
  })

  it.each(['x', '', '5'])('PURGED softly with nonsense for its life: %s', async (variants) => {
    await record({ variants })
    expect(await drop(1)).toBe('PURGED')
    expect((await fieldsOf()).variants).not.toBe(variants)
  })

  it('PURGED softly above the fence that it had, also when the clock was set back', async () => {
    await record({ fence: '8999999999999998' })
    expect(await drop(1)).toBe('PURGED')
    expect((await fieldsOf()).fence).toBe('8999999999999999')
  })

  it('UNSTAMPED when there is no memory for the stamp', async () => {
    await record({ frame: 'bytes', stored: '5', fence: '7' })
    expect(await whenFull(() => drop(1))).toBe('UNSTAMPED')
    expect((await fieldsOf()).fence).toBe('7')
  })
})
