import { describe, expect, it, vi } from 'vitest'
import type { PurgeCommands } from './purge-commands.ts'
import type { AppendReply, Purge, PurgeEvent, PurgePage } from './purge-events.ts'
import { lacks, positionOf, writeEvent } from './purge-events.ts'
import { RedisPurges } from './purge-log.ts'

interface Logged extends PurgeEvent {
  readonly position: number
  readonly prev: string
  /** The time of the append, on the clock of the test. */
  readonly at: number
}

/** The purge scripts, implemented on an array. */
class Log {
  now = 1_000
  last = '1000-1'
  floor = 1_000
  run = 'run 0'
  events = 0
  all: Logged[] = []
  /** Events before this position remain only as marks. */
  kept = 0

  /** `follows`: the same command has appended the last event. */
  append(purge: Purge, known = '0-0', follows = false): Logged {
    const position = Math.max(this.now * 1_000, positionOf(this.last) + 1, positionOf(known) + 1)
    if (!follows) this.events += 1
    const id = `${position}-${this.events}`
    const event = { ...purge, id, position, prev: this.last, at: this.now }
    this.all.push(event)
    this.last = id
    return event
  }

  read(known: string, run = this.run): PurgePage {
    const at = positionOf(known)
    const since = this.all.slice(this.kept).filter(({ position }) => position > at)
    const before = since[0]?.prev ?? this.last
    const follows = positionOf(before) === at
    const isUnsure = at > 0 && !follows && this.floor <= at && run !== this.run
    const isForked = lacks(this.last, known) || lacks(before, known) || isUnsure
    if (isForked) {
      this.floor = Math.max(at, this.position) + 1
      this.last = this.idAt(this.floor)
      this.kept = this.all.length
    }
    const isComplete = at > 0 && follows && !isForked
    const marks = [...this.marks().values()].filter(({ position }) => position > at)
    const { last, floor } = this
    const events = isComplete ? since : marks
    return { isComplete, hasMore: false, now: this.now * 1_000, last, floor, run: this.run, events }
  }

  marks(): Map<string, Logged> {
    const newest = new Map<string, Logged>()
    for (const event of this.all) if (event.of === 'subject') newest.set(writeEvent(event), event)
    return newest
  }

  /** All events are gone: a server without data took over. */
  lose(): void {
    this.all = []
    this.kept = 0
    this.floor = Math.max(this.now * 1_000, positionOf(this.last) + 1)
    this.last = this.idAt(this.floor)
  }

  get position(): number {
    return positionOf(this.last)
  }

  /** A fail-over loses the newest event, and another purge gets its position. */
  replaceLast(purge: Purge): Logged | undefined {
    if (this.all.length <= this.kept) return undefined
    const lost = this.all.pop() as Logged
    const event = { ...purge, id: this.idAt(lost.position), at: this.now }
    this.all.push({ ...lost, ...event })
    this.last = event.id
    this.run = `run ${event.id}`
    return this.all.at(-1)
  }

  idAt(position: number): string {
    this.events += 1
    return `${position}-${this.events}`
  }

  /** A replica with the same events. From now on, both may accept purges. */
  split(): Log {
    const { now, last, floor, all, kept } = this
    const run = `run of ${this.run}`
    const events = this.events + 1_000
    return Object.assign(new Log(), { now, last, floor, run, kept, events, all: [...all] })
  }
}

const message = ({ id, prev, ...purge }: Logged) => `${id} ${prev} ${writeEvent(purge)}`

/** One process, with the calls of `onForget` that it received. */
class Process {
  readonly marks = new Map<string, number>()
  /** When each key was last dropped. */
  readonly dropped = new Map<string, number>()
  forgotAt = 0
  forgets = 0
  floor = 0
  readonly purges: RedisPurges
  /** The server that this process is connected to. */
  log: Log
  /** Replies and requests that have not arrived yet. */
  readonly wire: Array<() => void> = []
  fails = false
  /** Only reads fail. */
  failsReads = false
  /** Reads that have succeeded. */
  reads = 0

  constructor(log: Log) {
    this.log = log
    const commands: PurgeCommands = {
      append: (purges, known) => this.#send(() => this.#appended(purges, known)),
      read: (known, run) => this.#send(() => this.#read(known, run)),
      last: () => this.#send(() => this.log.last),
    }
    const clock = { now: () => this.log.now, agoAtMost: () => undefined }
    this.purges = new RedisPurges(commands, clock, {
      onChange: () => {},
      onMark: ({ subject, soft, position }) => {
        const name = writeEvent({ of: 'subject', name: subject, soft })
        this.marks.set(name, Math.max(this.marks.get(name) ?? 0, position))
      },
      onPurge: (key) => void this.dropped.set(key, log.now),
      onForget: (floor) => {
        this.forgets += 1
        this.forgotAt = log.now
        this.floor = Math.max(this.floor, floor)
      },
      onError: () => {},
    })
  }

  onAppend: (event: Logged) => void = () => {}

  #appended(purges: readonly Purge[], known: string): AppendReply {
    const events = purges.map((purge, i) => this.log.append(purge, known, i > 0))
    for (const event of events) this.onAppend(event)
    const [first, last] = [events[0] as Logged, events.at(-1) as Logged]
    return { now: this.log.now * 1_000, id: last.id, prev: first.prev, isPublished: true }
  }

  #read(known: string, run: string): PurgePage {
    if (this.failsReads) throw new Error('away')
    this.reads += 1
    return this.log.read(known, run)
  }

  /** The command runs when its request arrives, and its reply comes later. */
  #send<T>(work: () => T): Promise<T> {
    return new Promise((resolve, reject) => {
      const fails = this.fails
      this.wire.push(() => {
        let reply: T | Error = new Error('away')
        try {
          if (!fails) reply = work()
        } catch {}
        this.wire.push(() => (reply instanceof Error ? reject(reply) : resolve(reply)))
      })
    })
  }

  /** As a lookup does. */
  confirm(): Promise<void> | undefined {
    return this.log.now < this.purges.confirmedUntil ? undefined : this.purges.catchUp()
  }

  /** Purges of the log that this process does not know. */
  missed(before: number): Logged[] {
    return this.log.all.filter((event) => {
      if (event.at >= before || event.position <= this.floor) return false
      if (event.of === 'subject') return (this.marks.get(writeEvent(event)) ?? 0) < event.position
      return Math.max(this.dropped.get(event.name) ?? 0, this.forgotAt) < event.at
    })
  }

  async settle(): Promise<void> {
    do {
      for (const next of this.wire.splice(0)) next()
      await turn()
    } while (this.wire.length > 0)
  }
}

const turn = () => new Promise<void>((resolve) => setImmediate(resolve))

/** Random numbers that can be repeated (mulberry32). */
function chance(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below
  }
}

const purgeOf = (below: (n: number) => number): Purge => ({
  of: below(3) === 0 ? 'key' : 'subject',
  name: `n${below(4)}`,
  soft: below(2) === 0,
})

/** Doubled, reordered and lost messages, failing and late commands, trimmed and lost logs. */
async function runSchedule(seed: number): Promise<void> {
  const below = chance(seed)
  const log = new Log()
  const process = new Process(log)
  const air: string[] = []
  process.onAppend = (event) => void air.push(message(event))
  const { purges, wire } = process
  const appended: Array<Promise<unknown>> = []
  const several = () => Array.from({ length: 1 + below(3) }, () => purgeOf(below))
  const steps: Array<() => void> = [
    () => void air.push(message(log.append(purgeOf(below)))),
    () => void log.append(purgeOf(below)),
    () => void purges.receive(air.splice(below(Math.max(1, air.length)), 1)[0] ?? 'nonsense'),
    () => void purges.receive(air[below(Math.max(1, air.length))] ?? ''),
    () => void air.splice(below(Math.max(1, air.length)), 1),
    () => wire.splice(below(Math.max(1, wire.length)), 1)[0]?.(),
    () => wire.splice(below(Math.max(1, wire.length)), 1)[0]?.(),
    () => void appended.push(purges.append(purgeOf(below)).catch(() => {})),
    () => void appended.push(...several().map((each) => purges.append(each).catch(() => {}))),
    () => void purges.beat(),
    () => void purges.resume().catch(() => {}),
    () => void process.confirm()?.catch(() => {}),
    () => {
      process.fails = below(3) === 0
    },
    () => {
      if (below(4) === 0) log.kept = log.all.length
    },
    () => {
      if (below(10) === 0) log.lose()
    },
    () => {
      const event = below(3) === 0 ? log.replaceLast(purgeOf(below)) : undefined
      if (event !== undefined && below(2) === 0) air.push(message(event))
    },
  ]
  for (let step = 0; step < 60; step++) {
    log.now += 1 + below(3) * below(2_000)
    steps[below(steps.length)]?.()
    await turn()
    expect(process.missed(purges.confirmedAt), `seed ${seed}, step ${step}`).toEqual([])
  }
  process.fails = false
  await process.settle()
  log.now += 10_000
  for (let i = 0; i < 2; i++) {
    void purges.beat()
    await process.settle()
  }
  await Promise.all(appended)
  expect(process.missed(Number.POSITIVE_INFINITY), `seed ${seed}`).toEqual([])
  expect(purges.position, `seed ${seed}`).toBeGreaterThanOrEqual(log.position)
  for (const [name, { position }] of log.marks())
    if (position > process.floor) {
      expect(process.marks.get(name), `seed ${seed}`).toBeGreaterThanOrEqual(position)
    }
  expect(purges.confirmedAt, `seed ${seed}`).toBe(log.now)
}

describe('a process under random faults', () => {
  it.each([0, 1, 2, 3])(
    'knows all purges of the log in the end, and never misses one silently: part %d',
    async (part) => {
      for (let seed = part * 250; seed < (part + 1) * 250; seed++) await runSchedule(seed)
    },
  )
})

describe('the purges that a process knows', () => {
  const started = async () => {
    const log = new Log()
    const process = new Process(log)
    void process.purges.resume()
    await process.settle()
    return { log, process, purges: process.purges }
  }
  const red: Purge = { of: 'subject', name: 't=red', soft: false }
  const key: Purge = { of: 'key', name: 'k', soft: false }

  it('begin with all purge marks and the oldest known position', async () => {
    const log = new Log()
    log.append(red)
    const process = new Process(log)
    expect(process.purges).toMatchObject({ position: 0, confirmedAt: Number.NEGATIVE_INFINITY })
    void process.purges.resume()
    await process.settle()
    expect(process).toMatchObject({ floor: 1_000, forgets: 1 })
    expect(process.marks).toEqual(new Map([['mht=red', log.position]]))
    expect(process.purges).toMatchObject({ position: log.position, confirmedAt: log.now })
  })

  it('are completed from the log after a lost message, while all other copies stay', async () => {
    const { log, process, purges } = await started()
    log.append(key)
    log.now += 5
    purges.receive(message(log.append(red)))
    expect(process.marks.get('mht=red')).toBe(log.position)
    expect(process.dropped.has('k')).toBe(false)
    await process.settle()
    expect(process.dropped.has('k')).toBe(true)
    expect(process.forgets).toBe(1)
  })

  it('are applied once, even in the process that sent the purge', async () => {
    const { log, process, purges } = await started()
    const onMark = vi.spyOn(process.marks, 'set')
    let echo = ''
    process.onAppend = (event) => {
      echo = message(event)
    }
    const done = purges.append(red)
    await process.settle()
    await done
    purges.receive(echo)
    expect(onMark).toHaveBeenCalledTimes(1)
    expect(purges).toMatchObject({ position: log.position, confirmedAt: log.now })
  })

  it('include one whose message was lost, after the next heartbeat', async () => {
    const { log, process, purges } = await started()
    log.append(red)
    log.now += 2_000
    void purges.beat()
    await process.settle()
    expect(process.marks.get('mht=red')).toBe(log.position)
    expect(purges.confirmedAt).toBe(log.now)
  })

  it('are confirmed for the time of the request, not for that of the reply', async () => {
    const { log, process, purges } = await started()
    log.now += 2_000
    const askedAt = log.now
    void purges.beat()
    log.now += 500
    await process.settle()
    expect(purges.confirmedAt).toBe(askedAt)
  })

  it('keep the time of their last confirmation while the server is unavailable', async () => {
    const { log, process, purges } = await started()
    const since = purges.confirmedAt
    process.fails = true
    log.now += 4_999
    await process.confirm()
    expect(process.wire).toHaveLength(0)
    log.now += 1
    const all = Promise.allSettled([process.confirm(), process.confirm(), purges.beat()])
    expect(process.wire).toHaveLength(1)
    await process.settle()
    expect((await all).map(({ status }) => status)).toEqual(['rejected', 'rejected', 'fulfilled'])
    expect(purges.confirmedAt).toBe(since)
  })

  it('are replaced, and all copies dropped, if the server lost purges or is behind', async () => {
    const { log, process, purges } = await started()
    log.lose()
    log.append(key)
    void purges.beat()
    await process.settle()
    expect(process).toMatchObject({ forgets: 2, floor: log.floor })
    log.last = `${log.position - 500}-1`
    void purges.beat()
    await process.settle()
    // Purges that this process knew are in doubt too: the server may not have them.
    expect(process).toMatchObject({ forgets: 3, floor: log.floor })
    expect(log.position).toBe(purges.position)
  })

  it('include a purge that an earlier reply missed, after a reconnection', async () => {
    const { log, process, purges } = await started()
    void purges.catchUp()
    // The request has arrived, and its reply is on the way.
    process.wire.splice(0)[0]?.()
    log.append(red)
    const resumed = purges.resume()
    await process.settle()
    await resumed
    expect(process.marks.has('mht=red')).toBe(true)
  })

  it('include one with an earlier position, from a server whose clock was set back', async () => {
    const { log, process, purges } = await started()
    purges.receive(message(log.append(red)))
    const { position } = purges
    purges.receive(`${position - 1}-7 ${position - 2}-6 mhother`)
    expect(process.marks.get('mhother')).toBe(position - 1)
    expect(purges.position).toBe(position)
    expect(process.wire).toHaveLength(0)
  })

  /** A purge on the losing side of a split brain: `a` sends it, and then moves over. */
  describe.each([key, red])('on the losing side of a split brain: %j', (purge) => {
    const other: Purge = { of: 'subject', name: 't=other', soft: false }
    const yesNo = [true, false]
    const rows = yesNo.flatMap((hasMissed) =>
      (['nothing', 'before', 'after', 'before and after'] as const).flatMap((winnerPurges) =>
        (hasMissed ? yesNo : [true]).flatMap((isReplicated) =>
          (['beat', 'resume', 'message', 'failed read'] as const).map((then) => ({
            ...{ hasMissed, winnerPurges, isReplicated, then },
          })),
        ),
      ),
    )

    it.each(rows)('make every older entry outdated in the fleet: %j', async (row) => {
      const { log: loser, process: a, purges } = await started()
      const before = loser.split()
      if (row.hasMissed) loser.append(other)
      const winner = row.isReplicated ? loser.split() : before
      const b = new Process(winner)
      void b.purges.resume()
      await b.settle()
      const purgeB = () => {
        winner.now += 10
        return winner.append(other)
      }
      let newest = row.winnerPurges.startsWith('before') ? purgeB() : undefined
      loser.now = winner.now + 10
      winner.now = loser.now
      a.failsReads = true
      const done = purges.append(purge)
      await a.settle()
      await done
      const lost = loser.all.at(-1) as Logged
      if (row.winnerPurges.endsWith('after')) newest = purgeB()
      a.log = winner
      purges.onConnectionLost()
      if (row.then === 'failed read') {
        void purges.resume().catch(() => {})
        await a.settle()
      }
      if (row.then !== 'message') a.failsReads = false
      if (row.then === 'message' && newest !== undefined) purges.receive(message(newest))
      await a.settle()
      a.failsReads = false
      if (row.then === 'resume') void purges.resume()
      else void purges.beat()
      await a.settle()
      expect(winner.floor).toBeGreaterThan(lost.position)
      expect(a.floor).toBe(winner.floor)
      void b.purges.beat()
      await b.settle()
      expect(b.floor).toBe(winner.floor)
      expect([a.purges.position, b.purges.position]).toEqual([winner.position, winner.position])
    })

    it.each(rows)(
      'need one read, and outdate nothing, if no other server took over: %j',
      async (row) => {
        const { log, process: a, purges } = await started()
        if (row.hasMissed) log.append(other)
        log.now += 10
        let newest = row.winnerPurges.startsWith('before') ? log.append(other) : undefined
        a.failsReads = true
        const done = purges.append(purge)
        await a.settle()
        await done
        log.now += 10
        if (row.winnerPurges.endsWith('after')) newest = log.append(other)
        purges.onConnectionLost()
        a.failsReads = false
        a.reads = 0
        if (row.then === 'message' && newest !== undefined) purges.receive(message(newest))
        await a.settle()
        const repaired = a.reads
        if (row.then === 'resume') void purges.resume()
        else void purges.beat()
        await a.settle()
        const isResumed = row.then === 'resume'
        expect(a.reads - repaired).toBeLessThanOrEqual(isResumed || repaired === 0 ? 1 : 0)
        expect(repaired).toBeLessThanOrEqual(1)
        expect(a.forgets).toBe(1)
        expect(purges.confirmedAt).toBe(log.now)
      },
    )
  })

  it.each(['the next read', 'a heartbeat'])(
    'are replaced if the server lost a purge that a message reported after a gap: %s',
    async (by) => {
      const { log, process, purges } = await started()
      // The message of the first purge is lost, and it cannot be read before the server is lost.
      log.append(red)
      const second = log.append(key)
      process.fails = true
      purges.receive(message(second))
      await process.settle()
      process.fails = false
      log.last = '1000-1'
      log.all = []
      if (by === 'a heartbeat') void purges.beat()
      else void purges.resume()
      await process.settle()
      expect(process.floor).toBeGreaterThan(second.position)
      expect(purges.confirmedAt).toBe(log.now)
    },
  )

  it('ignore a message from the far future', async () => {
    const log = new Log()
    const process = new Process(log)
    const clock = { now: () => log.now, agoAtMost: (ms: number) => log.now - ms }
    const onMark = vi.fn()
    const read = vi.fn(async (known: string) => log.read(known))
    const commands = { read, append: async () => Promise.reject(), last: async () => log.last }
    const hooks = {
      ...{ onMark, onPurge: vi.fn(), onForget: vi.fn(), onChange: vi.fn(), onError: vi.fn() },
    }
    const purges = new RedisPurges(commands as PurgeCommands, clock, hooks)
    await purges.resume()
    purges.receive(`8000000000000000-1 ${log.last} mht=red`)
    await turn()
    expect(onMark).not.toHaveBeenCalled()
    expect(purges.position).toBe(log.position)
    expect(read).toHaveBeenCalledTimes(2)
    expect(process.wire).toHaveLength(0)
  })
})
