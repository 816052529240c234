// The scripts on the purge log, called directly on a real server: their replies and writes. In some
// cases the history was lost, trimmed or planted, or is older than the caller's position.

import { beforeEach, describe, expect, it } from 'vitest'
import { appendPurge, readPurges } from '../../packages/redis/src/protocol/scripts.generated.ts'
import {
  type Arguments,
  allHeard,
  listener,
  redis,
  scriptsOfFile,
  tests,
  whenFull,
  without,
} from '../harness/lua-scripts.ts'

scriptsOfFile()

const DAY_US = 86_400_000_000
/** Nodes of the log hold more than one event, and only whole nodes are trimmed. */
const A_NODE = 100

let meta: string
let log: string
let marks: string
beforeEach(() => {
  ;[meta, log, marks] = ['meta', 'log', 'marks'].map((name) => `${name} ${tests}`) as [
    string,
    string,
    string,
  ]
})

interface Bounds {
  longest?: number
  most?: number
  client?: typeof redis
}
interface Appended {
  status: string
  now: number
  position: number
  prev: number
  id: string
  prevId: string
}

/** The position that a caller knows: an ID, or a number without its random part. */
type Known = number | string
const idOf = (known: Known) => (typeof known === 'number' ? `${known}-0` : known)
let random = 0

async function append(
  event: string | readonly string[],
  known: Known = 0,
  bounds: Bounds = {},
): Promise<Appended> {
  const { longest = 10_000, most = 100_000, client = redis } = bounds
  random += 1
  const channel = `channel ${tests}`
  const events = [event].flat()
  const args: Arguments = [idOf(known), channel, longest, most, random, ...events]
  const reply = (await client.eval(appendPurge.source, 3, meta, log, marks, ...args)) as string[]
  const [status = '', now, id = '', prevId = ''] = reply
  const [position, prev] = [Number.parseInt(id, 10), Number.parseInt(prevId, 10)]
  return { status, now: Number(now), position, prev, id, prevId }
}

interface Page {
  most?: number
  bytes?: number
  /** The run ID that the caller knows. Default: that of this server. */
  run?: string
  client?: typeof redis
}

async function read(known: Known, { most = 10_000, bytes = 1e6, run, client = redis }: Page = {}) {
  random += 1
  const args: Arguments = [idOf(known), run ?? (await runId()), most, bytes, random]
  const raw = await client.eval(readPurges.source, 3, meta, log, marks, ...args)
  const [status, now, lastId = '', floor, told, ...rest] = raw as string[]
  const last = Number.parseInt(lastId, 10)
  const events: Array<[position: number, event: string]> = []
  for (let i = 0; i < rest.length; i += 2) {
    events.push([Number.parseInt(rest[i] ?? '', 10), rest[i + 1] ?? ''])
  }
  return { status, now: Number(now), last, lastId, floor: Number(floor), run: told, events }
}

async function runId(): Promise<string> {
  return /run_id:(\w+)/.exec(await redis.info('server'))?.[1] ?? ''
}

/** Starts a history, and returns its position. */
const begun = async (): Promise<number> => (await read(0)).last

async function micros(): Promise<number> {
  const [seconds, rest] = await redis.time()
  return Number(seconds) * 1_000_000 + Number(rest)
}

describe('append-purge', () => {
  it('replies APPENDED, and writes the purge to the log, as a mark, and to the channel', async () => {
    await listener.subscribe(`channel ${tests}`)
    const known = await begun()
    const { lastId } = await read(0)
    const { status, now, position, id, prevId } = await append('mht=red', known)
    expect([status, prevId]).toEqual(['APPENDED', lastId])
    expect(position).toBe(now)
    expect(now).toBeGreaterThan(known)
    const event = ['prev', lastId, 'event', 'mht=red']
    expect(await redis.xrange(log, '-', '+')).toEqual([[id, event]])
    expect(await redis.zrange(marks, '0', '-1', 'WITHSCORES')).toEqual(['ht=red', String(position)])
    expect(await redis.hgetall(meta)).toEqual({
      last: id,
      floor: String(known),
      marks: '1',
    })
    expect(await allHeard()).toEqual([`channel ${tests} ${id} ${lastId} mht=red`])
  })

  it('appends several purges at consecutive positions, each with a message of its own', async () => {
    await listener.subscribe(`channel ${tests}`)
    const known = await begun()
    const { lastId } = await read(0)
    const events = ['mht=red', 'mst=blue', 'khd:=k']
    const { status, now, position, id, prevId } = await append(events, known)
    expect([status, prevId, position]).toEqual(['APPENDED', lastId, now + 2])
    const ids = [0, 1, 2].map((i) => `${now + i}${id.slice(id.indexOf('-'))}`)
    const linked = [lastId, ...ids]
    expect(await redis.xrange(log, '-', '+')).toEqual(
      ids.map((each, i) => [each, ['prev', linked[i], 'event', events[i]]]),
    )
    expect(await allHeard()).toEqual(
      ids.map((each, i) => `channel ${tests} ${each} ${linked[i]} ${events[i]}`),
    )
    expect(await redis.zrange(marks, '0', '-1')).toEqual(['ht=red', 'st=blue'])
    expect((await read(known)).events).toEqual(events.map((event, i) => [now + i, event]))
    expect(await append('mht=next', id)).toMatchObject({ prevId: id })
  })

  it('keeps the newest purge of each subject and kind', async () => {
    await append('mht=red')
    await append('mst=red')
    const { position } = await append('mht=red')
    const kept = await redis.zrange(marks, '0', '-1', 'WITHSCORES')
    expect(kept).toEqual(['st=red', expect.any(String), 'ht=red', String(position)])
  })

  it('keeps the purge of a key in the log, and writes no mark', async () => {
    const { position } = await append('khd:=k')
    expect(await redis.exists(marks)).toBe(0)
    expect((await read(position - 1)).last).toBe(position)
  })

  it('names the previous position in each event, and never goes back', async () => {
    const all: Appended[] = []
    for (let i = 0; i < 50; i++) all.push(await append(`mht=${i}`))
    for (const [i, { position, prev }] of all.entries()) {
      if (i > 0) expect(prev).toBe(all[i - 1]?.position)
      expect(position).toBeGreaterThan(prev)
    }
  })

  it('continues from the position of the caller if that is greater, and makes older entries outdated', async () => {
    const known = await begun()
    const ahead = (await micros()) + 3_600_000_000
    // After a fail-over to a server whose clock is behind, new positions would be lower than the
    // lost ones.
    await append('mht=blue', known)
    const { position, prev } = await append('mht=red', ahead)
    expect(prev).toBeGreaterThan(ahead)
    expect(position).toBeGreaterThan(prev)
    expect(await redis.hget(meta, 'floor')).toBe(String(prev))
    expect(await append('mht=red', 0)).toMatchObject({ prev: position })
    const { status, events } = await read(prev)
    expect([status, events.length]).toEqual(['LOG', 2])
    expect(await read(known)).toMatchObject({ status: 'MARKS', floor: prev })
  })

  it('makes every entry outdated that is older than its purge log', async () => {
    const before = await micros()
    const { position, prev } = await append('mht=red', before)
    expect(prev).toBeGreaterThanOrEqual(before)
    expect(await redis.hgetall(meta)).toMatchObject({ floor: String(prev) })
    expect(position).toBeGreaterThan(prev)
  })

  it('trims the log', async () => {
    for (let i = 0; i < 3 * A_NODE; i++) await append(`mht=${i}`, 0, { longest: 10 })
    expect(await redis.xlen(log)).toBeLessThan(10 + 2 * A_NODE)
    expect(await redis.zcard(marks)).toBe(3 * A_NODE)
  })

  it('keeps a limited number of marks, and raises the oldest known position', async () => {
    const all: Appended[] = []
    for (let i = 0; i < 8; i++) all.push(await append(`mht=${i}`, 0, { most: 5 }))
    expect(await redis.zrange(marks, '0', '-1')).toEqual(['ht=3', 'ht=4', 'ht=5', 'ht=6', 'ht=7'])
    expect(Number(await redis.hget(meta, 'floor'))).toBe(all[2]?.position)
  })

  it.each([1, 8, 400])(
    'keeps a mark that is %d days old, and the oldest known position',
    async (days) => {
      const floor = (await micros()) - days * DAY_US - 10
      await redis.zadd(marks, floor + 5, 'ht=old')
      await redis.hset(meta, { last: `${floor + 5}-1`, floor, marks: 1 })
      await append('mht=new', `${floor + 5}-1`)
      expect(await redis.zrange(marks, '0', '-1')).toEqual(['ht=old', 'ht=new'])
      expect(Number(await redis.hget(meta, 'floor'))).toBe(floor)
    },
  )

  it('keeps the limit also if one command appends more marks than there is room for', async () => {
    const names = (from: number, to: number) =>
      Array.from({ length: to - from }, (_, i) => `mht=${from + i}`)
    await append(names(0, 128), 0, { most: 130 })
    const { position } = await append(names(128, 256), 0, { most: 130 })
    const left = await redis.zrange(marks, '0', '-1', 'WITHSCORES')
    expect(left).toHaveLength(2 * 130)
    expect(left.slice(-2)).toEqual(['ht=255', String(position)])
    // The first 126 were dropped, so entries from before the last of them count as purged.
    expect(left[0]).toBe('ht=126')
    expect(Number(await redis.hget(meta, 'floor'))).toBe(Number(left[1]) - 1)
    expect(await redis.hget(meta, 'marks')).toBe('130')
  })

  it('makes a process read the marks if the log was trimmed in the middle of one command', async () => {
    const before = await begun()
    const subjects = Array.from({ length: 3 * A_NODE }, (_, i) => `mht=${i}`)
    await append(subjects)
    await append('mht=last', 0, { longest: A_NODE })
    expect(await redis.xlen(log)).toBeLessThan(3 * A_NODE)
    const { status, events } = await read(before)
    expect(status).toBe('MARKS')
    expect(events).toHaveLength(3 * A_NODE + 1)
  })

  it('replies UNANNOUNCED if it may not publish, and keeps the purge in the log', async () => {
    const client = await without('publish')
    const { status, position } = await append('mht=red', 0, { client })
    client.disconnect()
    expect(status).toBe('UNANNOUNCED')
    expect((await read(0)).events).toEqual([[position, 'ht=red']])
  })

  it('replies APPENDED on a server without free memory', async () => {
    const known = await begun()
    const { status, position } = await whenFull(() => append('mht=red', known))
    expect(status).toBe('APPENDED')
    expect((await read(known)).events).toEqual([[position, 'mht=red']])
  })

  it.each(['xadd', 'zadd', 'hset'])('fails if %s is forbidden', async (command) => {
    const client = await without(command)
    await expect(append('mht=red', 0, { client })).rejects.toThrow(/run this command|ACL failure/)
    client.disconnect()
    // The next call starts without a history.
    const known = await begun()
    const { position } = await append('mht=red', known)
    expect((await read(known)).events).toEqual([[position, 'mht=red']])
  })

  it.each(['-1', 'x', '1e300', '9'.repeat(30), '', '1.5'])(
    'treats %j as an unknown position',
    async (known) => {
      await begun()
      const before = await micros()
      const { position } = await append('mht=red', known)
      expect(position).toBeGreaterThanOrEqual(before)
      expect(position).toBeLessThanOrEqual(await micros())
    },
  )
})

describe('read-purges', () => {
  it('replies MARKS to a new process: all marks, oldest first, and the oldest known position', async () => {
    const known = await begun()
    const red = await append('mht=red')
    await append('khd:=k')
    const all = await append('ms*')
    const reply = await read(0)
    expect(reply).toMatchObject({ status: 'MARKS', last: all.position, floor: known })
    expect(reply.events).toEqual([
      [red.position, 'ht=red'],
      [all.position, 's*'],
    ])
    expect(reply.now).toBeGreaterThan(all.position)
  })

  it('replies MARKS if the log has a hole', async () => {
    const known = await begun()
    const all: string[] = []
    for (const event of ['mht=a', 'khd:=k', 'mht=b', 'mht=c']) all.push((await append(event)).id)
    expect(await read(known)).toMatchObject({ status: 'LOG' })
    await redis.xdel(log, all[1] as string)
    expect(await read(known)).toMatchObject({ status: 'MARKS' })
    expect(await read(all[1] as string)).toMatchObject({ status: 'LOG' })
  })

  it('replies MARKS if the log no longer has all purges since', async () => {
    const known = await begun()
    const all: number[] = []
    for (let i = 0; i < 3 * A_NODE; i++) {
      all.push((await append(`mht=${i % 7}`, 0, { longest: 10 })).position)
    }
    const reply = await read(known)
    expect(reply).toMatchObject({ status: 'MARKS', last: all.at(-1), floor: known })
    expect(reply.events.map(([position]) => position)).toEqual(all.slice(-7))
    expect(await read(all.at(-3) ?? 0)).toMatchObject({ status: 'LOG' })
  })

  it('replies PART while more purges remain than fit into one reply, by number or by bytes', async () => {
    const known = await begun()
    const events = ['kh1', `kh${'x'.repeat(500)}`, 'mh3', 'kh4', 'kh5']
    for (const event of events) await append(event)
    for (const page of [{ most: 2 }, { bytes: 100 }, { bytes: 1 }]) {
      const heard: string[] = []
      const statuses: string[] = []
      for (let at = known; statuses.length < 9 && statuses.at(-1) !== 'LOG'; ) {
        const reply = await read(at, page)
        expect(reply.last).toBe(reply.events.at(-1)?.[0] ?? at)
        heard.push(...reply.events.map(([, event]) => event))
        statuses.push(reply.status ?? '')
        at = reply.last
      }
      expect(heard).toEqual(events)
      expect(statuses.slice(0, -1)).toEqual(Array(statuses.length - 1).fill('PART'))
      expect(statuses.length).toBeGreaterThan(1)
    }
  })

  it('replies MORE while more bytes of marks remain than fit into one reply', async () => {
    const known = await begun()
    for (let i = 0; i < 3; i++) await append(`mht=${i}${'x'.repeat(80)}`)
    const first = await read(0, { bytes: 180 })
    expect(first).toMatchObject({ status: 'MORE', floor: known, last: first.events[1]?.[0] })
    expect(await read(first.last, { bytes: 180 })).toMatchObject({ status: 'LOG' })
    await redis.del(log)
    expect(await read(first.last, { bytes: 180 })).toMatchObject({ status: 'MARKS' })
  })

  it('replies MORE while more marks remain than fit into one reply', async () => {
    const known = await begun()
    for (let i = 0; i < 5; i++) await append(`mht=${i}`)
    const first = await read(0, { most: 2 })
    expect(first).toMatchObject({ status: 'MORE', last: first.events[1]?.[0], floor: known })
    await redis.del(log)
    const second = await read(first.last, { most: 2 })
    const third = await read(second.last, { most: 2 })
    expect([second.status, third.status]).toEqual(['MORE', 'MARKS'])
    const names = [first, second, third].flatMap(({ events }) => events.map(([, name]) => name))
    expect(names).toEqual(['ht=0', 'ht=1', 'ht=2', 'ht=3', 'ht=4'])
  })

  it('starts a purge log, and makes every older entry outdated', async () => {
    const before = await micros()
    const { status, last, floor, events } = await read(0)
    expect([status, events]).toEqual(['MARKS', []])
    expect(last).toBeGreaterThanOrEqual(before)
    expect(floor).toBe(last)
    expect(await read(last)).toMatchObject({ status: 'LOG', last, floor })
  })

  it.each(['meta', 'log', 'marks'])('replies MARKS if %s was lost', async (lost) => {
    await begun()
    const first = await append('mht=red')
    const second = await append('khd:=k')
    await redis.del(`${lost} ${tests}`)
    const reply = await read(first.position)
    expect(reply.status).toBe('MARKS')
    // Without `meta` or the marks, older entries are outdated. If only the log is lost, the marks
    // are known.
    if (lost === 'log') expect(reply.floor).toBeLessThan(first.position)
    else expect(reply.floor).toBeGreaterThanOrEqual(second.position)
    expect(reply.last).toBeGreaterThanOrEqual(second.position)
    const third = await append('mht=blue', reply.last)
    expect(await read(reply.last)).toMatchObject({ events: [[third.position, 'mht=blue']] })
  })

  it('replies LOG to a process that knew all purges when the marks were lost', async () => {
    await begun()
    const { position } = await append('mht=red')
    await redis.del(marks)
    expect(await read(position)).toMatchObject({ status: 'LOG', events: [] })
    expect(await read(0)).toMatchObject({ status: 'MARKS', floor: position, events: [] })
  })

  it('makes earlier entries outdated at the next purge after the marks were lost', async () => {
    await begun()
    const { position } = await append('mht=red')
    await redis.del(marks)
    await append('mht=blue')
    const { floor, events } = await read(0)
    expect(floor).toBe(position)
    expect(events.map(([, name]) => name)).toEqual(['ht=blue'])
  })

  it('replies MARKS to a process with a greater position, and continues from there', async () => {
    await append('mht=red')
    const ahead = (await micros()) + 3_600_000_000
    const reply = await read(ahead)
    expect(reply).toMatchObject({ status: 'MARKS', events: [] })
    const { last, floor } = reply
    expect(floor).toBeGreaterThan(ahead)
    expect(last).toBe(floor)
    expect(await read(last)).toMatchObject({ status: 'LOG', last })
    const { position } = await append('mht=red')
    expect(position).toBe(last + 1)
    expect(await read(last)).toMatchObject({ status: 'LOG', events: [[position, 'mht=red']] })
  })

  describe('for a process that knows purges which the data of the server lacks', () => {
    /** Appends purges of which the last is lost, and then purges that do not know of it. */
    async function fork(after: number): Promise<{ known: number; last: number }> {
      await begun()
      await append('mht=kept')
      const parts = [meta, log, marks]
      const saved = await Promise.all(parts.map((part) => redis.dumpBuffer(part)))
      const { position: known } = await append('mht=lost')
      for (const [i, part] of parts.entries()) {
        await redis.restore(part, 0, saved[i] as Buffer, 'REPLACE')
      }
      let last = 0
      for (let i = 0; i < after; i++) last = (await append(`mht=${i}`)).position
      return { known, last }
    }

    it('replies MARKS, and makes all earlier entries outdated for every process', async () => {
      const { known, last } = await fork(3)
      const reply = await read(known)
      expect(reply).toMatchObject({ status: 'MARKS', last: last + 1, floor: last + 1 })
      // Other processes get the same, and the history continues from there.
      expect(await read(last)).toMatchObject({ status: 'MARKS', last: last + 1, floor: last + 1 })
      expect(await read(last + 1)).toMatchObject({ status: 'LOG', last: last + 1 })
      expect(await append('mht=next', known)).toMatchObject({ prev: last + 1 })
    })

    it('replies MARKS also if other purges got the positions of the lost ones', async () => {
      // The clock is behind the log, as after it was set back. Each position is the last one + 1.
      const ahead = (await micros()) + 3_600_000_000
      const { lastId } = await read(ahead)
      const [meta0, log0] = await Promise.all([redis.dumpBuffer(meta), redis.dumpBuffer(log)])
      const lost = [await append('mht=lost', lastId), await append('khd:=lost')]
      const restore = async () => {
        await redis.del(marks, log)
        await redis.restore(meta, 0, meta0, 'REPLACE')
        if (log0 !== null) await redis.restore(log, 0, log0, 'REPLACE')
      }
      for (const more of [0, 1]) {
        await restore()
        const others = [await append('mht=new'), await append('mht=newer')]
        expect(others.map(({ position }) => position)).toEqual(lost.map(({ position }) => position))
        if (more > 0) await append('mht=newest')
        const reply = await read(lost[1]?.id ?? '')
        expect(reply.status).toBe('MARKS')
        expect(reply.floor).toBeGreaterThan(others[1]?.position ?? 0)
      }
      await restore()
      await append('mht=new')
      await append('mht=newer')
      const { prev } = await append('mht=next', lost[1]?.id)
      expect(await redis.hget(meta, 'floor')).toBe(String(prev))
    })

    it('replies MARKS on another run of the server after the log was trimmed, and raises the position once', async () => {
      const { known, last } = await fork(3)
      await redis.xtrim(log, 'MAXLEN', 1)
      expect((await read(known)).floor).toBeLessThan(known)
      const first = await read(known, { run: 'before' })
      expect(first).toMatchObject({ status: 'MARKS', floor: last + 1, run: await runId() })
      const second = await read(known - 1, { run: 'before' })
      expect(second).toMatchObject({ status: 'MARKS', floor: last + 1 })
    })

    it('replies LOG on another run of the server if nothing was lost', async () => {
      const known = await begun()
      const { position } = await append('mht=red')
      const reply = await read(known, { run: 'before' })
      expect(reply).toMatchObject({ status: 'LOG', last: position, floor: known })
      expect(await read(0, { run: '' })).toMatchObject({ status: 'MARKS', floor: known })
    })

    it('replies LOG if the server does not name its run', async () => {
      const client = await without('info')
      const known = await begun()
      await append('mht=red')
      const reply = await read(known, { run: '', client })
      expect(reply).toMatchObject({ status: 'LOG', run: '' })
      await redis.xtrim(log, 'MAXLEN', 0)
      expect(await read(known, { run: '', client })).toMatchObject({ floor: known })
      client.disconnect()
    })
  })

  it('fails on a read-only server, even if there is nothing to write', async () => {
    const known = await begun()
    await redis.replicaof('127.0.0.1', 1)
    // Redis 6.2 puts the position in the script before the error.
    await expect(read(known))
      .rejects.toThrow(/READONLY/)
      .finally(() => redis.replicaof('NO', 'ONE'))
    await redis.config('SET', 'min-replicas-to-write', '1')
    await expect(read(known))
      .rejects.toThrow(/NOREPLICAS/)
      .finally(() => redis.config('SET', 'min-replicas-to-write', '0'))
    expect(await read(known)).toMatchObject({ status: 'LOG' })
  })

  it('replies MARKS if an event of the log is not in our format', async () => {
    const known = await begun()
    const planted: string[][] = [
      ['event', 'mht=red', 'prev', `${known}-0`],
      ['prev', 'x', 'event', 'mht=red'],
      ['other', 'x'],
    ]
    for (const [i, fields] of planted.entries()) {
      await redis.del(log)
      const position = known + i + 1
      await redis.xadd(log, `${position}-1`, ...fields)
      await redis.hset(meta, 'last', `${position}-1`)
      expect((await read(known)).status, String(fields)).toBe('MARKS')
    }
  })

  it.each<[string, () => Promise<unknown>]>([
    ['a string as meta', () => redis.set(meta, 'x')],
    ['a string as the log', () => redis.set(log, 'x')],
    ['a string as the marks', () => redis.set(marks, 'x')],
    [
      'a list as all three keys',
      async () => {
        await redis.del(meta, log, marks)
        for (const each of [meta, log, marks]) await redis.lpush(each, 'x')
      },
    ],
    ['nonsense as the last position', () => redis.hset(meta, 'last', 'x')],
    ['a huge last position', () => redis.hset(meta, 'last', '9'.repeat(40))],
    ['an infinite last position', () => redis.hset(meta, 'last', 'inf')],
    ['nonsense as the oldest known position', () => redis.hset(meta, 'floor', '-3')],
    [
      'an oldest known position above all others',
      () => redis.hset(meta, 'floor', '7999999999999999'),
    ],
    ['the greatest possible position', () => redis.hset(meta, 'last', '8999999999999999')],
    ['a mark from the far future', () => redis.zadd(marks, '9e18', 'ht=red')],
    [
      'an event from the far future',
      async () => {
        await redis.del(log)
        await redis.xadd(log, '8000000000000000000-0', 'x', 'y')
      },
    ],
  ])('starts again or continues over %s', async (_, plant) => {
    const known = await begun()
    await append('mht=red')
    await plant()
    const reply = await read(known)
    expect(['LOG', 'MARKS']).toContain(reply.status)
    await plant()
    const { status, position } = await append('mht=blue', reply.last)
    expect(status).toBe('APPENDED')
    expect(position).toBeLessThan(9e15)
    const after = await read(0)
    expect(after.last).toBe(position)
    // A process that takes this position for known must not lose later purges.
    expect(after.floor).toBeLessThanOrEqual(position)
    expect(after.events.map(([, event]) => event)).toContain('ht=blue')
    expect(await read(position)).toMatchObject({ last: position })
  })

  it('starts a purge log on a server without free memory', async () => {
    expect((await whenFull(() => read(0))).status).toBe('MARKS')
  })
})
