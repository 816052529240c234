// Plays random sequences of operations on an idempotency store and on a small model of it. Each
// reply, message and remaining record must match the model. The memory store serves one process,
// Redis two. Both also play the same sequences side by side.

import { memoryStore } from '@stampede/core'
import type { Grant, IdempotencyStore } from '@stampede/core/store'
import { ManualClock, settled } from '@stampede/core/testing'
import { redisStore } from '@stampede/redis'
import fc from 'fast-check'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { names } from '../../packages/redis/src/protocol/keys.ts'
import { type RedisServer, startRedis } from '../harness/redis-server.ts'

type BeginRequest = Parameters<IdempotencyStore['begin']>[1]

type Fingerprints = BeginRequest['fingerprints']

// --- The model -----------------------------------------------------------------------------------

type State = 'running' | 'completed' | 'released' | 'uncertain'
type Ending = Exclude<State, 'running'>

/**
 * One attempt. `number` counts the attempts of all keys. The fences of a real store must rise with
 * it.
 */
interface Held {
  readonly token: string
  readonly number: number
}

interface ModelRecord {
  state: State
  prints: Fingerprints
  holder: Held | undefined
  /** The latest attempt. */
  last: Held | undefined
  endedBy: Held | undefined
  until: number
  attempt: number
  lost: number
  recovery: boolean
  frame: string | undefined
  steps: Map<string, string>
  createdAt: number
  expiresAt: number
  waiting: Set<number>
}

const RENEWED_KEEP_MS = 60_000

class ModelStore {
  now = 0
  woken: number[] = []
  settlements = 0
  #record: ModelRecord | undefined
  #begun = 0

  get record(): ModelRecord | undefined {
    if (this.#record !== undefined && this.now >= this.#record.expiresAt) this.#record = undefined
    return this.#record
  }

  begin(process: number, request: BeginRequest): string {
    const record = this.record ?? this.#absent(request.fingerprints)
    const { exact, canonical } = request.fingerprints
    if (exact !== record.prints.exact && canonical !== record.prints.canonical) return 'mismatch'
    if (record.state === 'completed') return 'completed'
    if (record.state === 'running' && this.now < record.until) {
      if (record.holder?.token === request.token) return 'begun'
      if (request.wait) record.waiting.add(process)
      return 'busy'
    }
    if (record.state === 'running') {
      record.lost += 1
      record.recovery = true
      if (record.lost >= request.maxAttempts) {
        record.state = 'uncertain'
        record.expiresAt = this.now + request.keepUncertainMs
      }
    }
    if (record.state === 'uncertain') return 'uncertain'
    this.#begun += 1
    record.state = 'running'
    record.holder = { token: request.token, number: this.#begun }
    record.last = record.holder
    record.endedBy = undefined
    record.until = this.now + request.leaseMs
    record.expiresAt = this.now + request.retentionMs
    record.attempt += 1
    this.#record = record
    return 'begun'
  }

  renew(held: Held, leaseMs: number): boolean {
    const record = this.record
    if (record === undefined || record.holder !== held) return false
    record.until = this.now + leaseMs
    record.expiresAt = Math.max(record.expiresAt, this.now + leaseMs + RENEWED_KEEP_MS)
    return true
  }

  finish(held: Held, as: Ending, frame: string, keepMs: number, prints: Fingerprints): string {
    const { record } = this
    if (record === undefined && as === 'completed') {
      const lost = this.#absent(prints)
      this.#record = { ...lost, attempt: 1, last: held }
      this.#end(this.#record, as, frame, keepMs)
      this.#record.endedBy = held
      return 'resurrected'
    }
    if (record?.holder !== held) {
      return record?.endedBy === held && record.state === as ? 'finished' : 'stale'
    }
    if (record === undefined) return 'stale'
    if (as === 'released') record.lost = 0
    this.#end(record, as, frame, keepMs)
    record.endedBy = held
    return 'finished'
  }

  keepStep(held: Held, name: string, value: string): string {
    if (this.record?.holder !== held) return 'stale'
    this.record.steps.set(name, value)
    return 'kept'
  }

  settle(as: 'completed' | 'released', frame: string, keepMs: number, force: boolean): string {
    const { record } = this
    if (record === undefined) return 'absent'
    const runs = record.state === 'running' && this.now < record.until
    if (!force && (runs || record.state === 'completed')) return 'refused'
    record.lost = 0
    record.recovery = false
    record.endedBy = undefined
    this.#end(record, as, frame, keepMs)
    this.settlements += 1
    return 'settled'
  }

  #end(record: ModelRecord, as: Ending, frame: string, keepMs: number): void {
    record.state = as
    record.holder = undefined
    record.frame = as === 'completed' ? frame : undefined
    record.expiresAt = this.now + keepMs
    this.woken.push(...record.waiting)
    record.waiting.clear()
  }

  #absent(prints: Fingerprints): ModelRecord {
    return {
      state: 'released',
      prints,
      holder: undefined,
      last: undefined,
      endedBy: undefined,
      until: 0,
      attempt: 0,
      lost: 0,
      recovery: false,
      frame: undefined,
      steps: new Map(),
      createdAt: this.now,
      expiresAt: Number.POSITIVE_INFINITY,
      waiting: new Set(),
    }
  }
}

// --- The operations
// --------------------------------------------------------------------------------------

type Step =
  | {
      do: 'begin'
      process: number
      print: number
      again: boolean
      wait: boolean
      leaseMs: number
      maxAttempts: number
    }
  | { do: 'renew'; which: number; leaseMs: number }
  | { do: 'finish'; which: number; as: Ending; keepMs: number }
  | { do: 'keepStep'; which: number; name: string }
  | { do: 'settle'; as: 'completed' | 'released'; force: boolean; keepMs: number }
  | { do: 'advance'; ms: number }

/**
 * Whole minutes: longer than a sequence takes, so that the real time of its steps never matters.
 */
const MINUTE_MS = 60_000
const LEASES_MS = [20 * MINUTE_MS, 60 * MINUTE_MS]
const RETENTION_MS = 400 * MINUTE_MS
const KEEPS_MS = [150 * MINUTE_MS, 600 * MINUTE_MS]
const ADVANCES_MS = [1, 15, 45, 100, 500].map((minutes) => minutes * MINUTE_MS)
/** More than the real time of a sequence. */
const SLACK_MS = 50_000
const PRINTS: readonly Fingerprints[] = [
  { exact: 'a', canonical: 'A' },
  { exact: 'a2', canonical: 'A' },
  { exact: 'b', canonical: 'B' },
]

const leaseMs = fc.constantFrom(...LEASES_MS)
const keepMs = fc.constantFrom(...KEEPS_MS)
/** Counted back from the newest grant. Most operations use the newest one. */
const which = fc.oneof({ arbitrary: fc.constant(0), weight: 4 }, fc.nat(4))

const steps = (processes: number): fc.Arbitrary<Step[]> => {
  const begin = fc.record({
    do: fc.constant('begin' as const),
    process: fc.nat(processes - 1),
    print: fc.oneof({ arbitrary: fc.nat(1), weight: 6 }, fc.constant(2)),
    again: fc.boolean(),
    wait: fc.boolean(),
    leaseMs,
    maxAttempts: fc.integer({ min: 1, max: 3 }),
  })
  const renew = fc.record({ do: fc.constant('renew' as const), which, leaseMs })
  const as = fc.constantFrom('completed', 'released', 'released', 'uncertain')
  const finish = fc.record({ do: fc.constant('finish' as const), which, as, keepMs })
  const name = fc.constantFrom('pay', 'mail')
  const keepStep = fc.record({ do: fc.constant('keepStep' as const), which, name })
  const word = fc.constantFrom('completed', 'released', 'released')
  const force = fc.boolean()
  const settle = fc.record({ do: fc.constant('settle' as const), as: word, force, keepMs })
  const ms = fc.constantFrom(...ADVANCES_MS)
  const advance = fc.record({ do: fc.constant('advance' as const), ms })
  const any = fc.oneof(
    { weight: 6, arbitrary: begin },
    { weight: 2, arbitrary: renew },
    { weight: 4, arbitrary: finish },
    { weight: 2, arbitrary: keepStep },
    { weight: 1, arbitrary: settle },
    { weight: 3, arbitrary: advance },
  )
  return fc.array(any, { minLength: 1, maxLength: 40, size: 'max' }) as fc.Arbitrary<Step[]>
}

/** A store under test: its number of processes, and a way to let time pass. */
interface Bench {
  readonly stores: readonly IdempotencyStore[]
  pass(ms: number): Promise<void>
  /** Resolves when every published message has arrived. */
  heard(): Promise<void>
}

const encode = (text: string) => new TextEncoder().encode(text)
const decode = (bytes: Uint8Array | undefined) => bytes && new TextDecoder().decode(bytes)
const about = (real: number | undefined, expected: number) => {
  expect(real).toBeGreaterThan(expected - SLACK_MS)
  expect(real).toBeLessThanOrEqual(expected + SLACK_MS)
}

/** Plays steps on a store and on the model, and maps their tokens and fences to each other. */
class Player {
  readonly model = new ModelStore()
  /** The outcomes as text, on which two stores must agree. */
  readonly transcript: string[] = []
  readonly woken: number[] = []
  settlements = 0
  readonly #bench: Bench
  /** Ignores messages of other keys, from a test that timed out. */
  readonly key: string
  /** Fences in the order of the model's attempts. */
  readonly #grants: Array<{ real: Grant; held: Held; process: number; prints: Fingerprints }> = []
  #token = 't0'
  #count = 0

  constructor(bench: Bench, key: string) {
    this.#bench = bench
    this.key = key
  }

  async playAll(taken: readonly Step[]): Promise<string[]> {
    for (const step of taken) {
      const outcome = await this.#take(step)
      await this.#compareRecord()
      await this.#bench.heard()
      expect(this.woken.splice(0).sort(), 'who was woken').toEqual(
        this.model.woken.splice(0).sort(),
      )
      expect(this.settlements).toBe(this.model.settlements * this.#bench.stores.length)
      this.transcript.push(`${step.do}: ${outcome}`)
    }
    await this.#atMostOneOwner()
    return this.transcript
  }

  #take(step: Step): Promise<string> {
    this.#count += 1
    switch (step.do) {
      case 'advance':
        this.model.now += step.ms
        return this.#bench.pass(step.ms).then(() => `${step.ms}`)
      case 'begin':
        return this.#begin(step)
      case 'settle':
        return this.#settle(step)
      default:
        return this.#withGrant(step)
    }
  }

  async #begin(step: Extract<Step, { do: 'begin' }>): Promise<string> {
    if (!step.again) this.#token = `t${this.#count}`
    const prints = PRINTS[step.print] as Fingerprints
    const request: BeginRequest = {
      token: this.#token,
      fingerprints: prints,
      leaseMs: step.leaseMs,
      retentionMs: RETENTION_MS,
      maxAttempts: step.maxAttempts,
      keepUncertainMs: RETENTION_MS,
      wait: step.wait,
    }
    const expected = this.model.begin(step.process, request)
    const reply = await this.#store(step.process).begin(this.key, request)
    expect(reply.status).toBe(expected)
    const { record, now } = this.model
    if (reply.status === 'busy') about(reply.forMs, (record?.until ?? 0) - now)
    if (reply.status === 'completed') {
      expect(decode(reply.frame)).toBe(record?.frame)
      about(reply.forMs, (record?.expiresAt ?? 0) - now)
    }
    if (reply.status === 'begun') {
      expect([reply.attempt, reply.isRecovery]).toEqual([record?.attempt, record?.recovery])
      const kept = [...reply.steps].map(([name, value]) => [name, decode(value)])
      expect(kept.sort()).toEqual([...(record?.steps ?? [])].sort())
      this.#note(reply.grant, step.process, prints)
    }
    return expected
  }

  /** An attempt keeps its names, and a later attempt has a greater fence. */
  #note(real: Grant, process: number, prints: Fingerprints): void {
    const held = this.model.record?.holder
    if (held === undefined) throw new Error('the model knows of no holder')
    expect(real).toMatchObject({ key: this.key, token: held.token })
    const known = this.#grants.find((each) => each.held === held)
    if (known !== undefined) return void expect(real).toEqual(known.real)
    const before = this.#grants.at(-1)
    if (before !== undefined) {
      expect(BigInt(real.fence)).toBeGreaterThan(BigInt(before.real.fence))
    }
    this.#grants.push({ real, held, process, prints })
  }

  async #withGrant(step: Extract<Step, { do: 'renew' | 'finish' | 'keepStep' }>): Promise<string> {
    const known = this.#grants.at(-1 - step.which)
    if (known === undefined) return 'nothing'
    const { real, held, prints } = known
    const store = this.#store(known.process)
    const value = `${step.do} ${this.#count}`
    if (step.do === 'renew') {
      const expected = this.model.renew(held, step.leaseMs)
      expect(await store.renew([real], step.leaseMs)).toEqual([expected])
      return String(expected)
    }
    if (step.do === 'keepStep') {
      const expected = this.model.keepStep(held, step.name, value)
      expect(await store.keepStep(real, step.name, encode(value))).toBe(expected)
      return expected
    }
    const { as, keepMs } = step
    const expected = this.model.finish(held, as, value, keepMs, prints)
    const finish = as === 'completed' ? { as, frame: encode(value), keepMs } : { as, keepMs }
    expect(await store.finish(real, finish, prints)).toBe(expected)
    return expected
  }

  async #settle({ as, force, keepMs }: Extract<Step, { do: 'settle' }>): Promise<string> {
    const value = `settled ${this.#count}`
    const expected = this.model.settle(as, value, keepMs, force)
    const settlement = as === 'completed' ? { as, frame: encode(value), keepMs } : { as, keepMs }
    expect(await this.#store(0).settle(this.key, settlement, { force })).toBe(expected)
    return expected
  }

  /**
   * Also checks that a completed record stays the same. In the model, only an operator can change
   * it.
   */
  async #compareRecord(): Promise<void> {
    const { record, now } = this.model
    const real = await this.#store(0).inspect(this.key)
    if (record === undefined) return void expect(real).toBeUndefined()
    const leaseForMs = record.state === 'running' ? Math.max(0, record.until - now) : 0
    const hasLapsed = record.state === 'running' && leaseForMs === 0
    expect(real?.state).toBe(hasLapsed ? 'lapsed' : record.state)
    expect(real?.attempt).toBe(record.attempt)
    expect(real?.steps.toSorted()).toEqual([...record.steps.keys()].sort())
    expect(decode(real?.frame)).toBe(record.frame)
    about(real?.leaseForMs, leaseForMs)
    about(real?.ageMs, now - record.createdAt)
    about(real?.keepForMs, record.expiresAt - now)
    const last = this.#grants.find(({ held }) => held === record.last)
    expect(real?.fence).toBe(last?.real.fence)
  }

  async #atMostOneOwner(): Promise<void> {
    const holder = this.model.record?.holder
    const grants = this.#grants.map(({ real }) => real)
    const ours = await this.#store(0).renew(grants, LEASES_MS[0] ?? 0)
    expect(ours).toEqual(this.#grants.map(({ held }) => held === holder))
    expect(ours.filter(Boolean).length).toBeLessThanOrEqual(1)
  }

  #store(process: number): IdempotencyStore {
    const store = this.#bench.stores[process]
    if (store === undefined) throw new Error(`No process ${process}`)
    return store
  }
}

// --- The stores ----------------------------------------------------------------------------------

const PROCESSES = 2
let server: RedisServer
let admin: Redis
let player: Player | undefined
/** Resolves when `process` has received this message, which is published after all others. */
let echo: (process: number, key: string) => void = () => {}
const redisStores: IdempotencyStore[] = []

function hooks(clock: ManualClock, process: number) {
  const ignore = () => {}
  return {
    clock,
    onWake(key: string) {
      if (key.startsWith('echo')) echo(process, key)
      else if (player?.key === key) player.woken.push(process)
    },
    onSettled(key: string) {
      if (key.startsWith('echo')) echo(process, key)
      else if (player?.key === key) player.settlements += 1
    },
    onGap: ignore,
    onBack: ignore,
    onLost: ignore,
    onError: ignore,
  }
}

beforeAll(async () => {
  server = await startRedis()
  admin = new Redis(server.url)
  for (let process = 0; process < PROCESSES; process++) {
    const client = new Redis(server.url, { lazyConnect: true })
    const { idempotency } = redisStore(client, { commandTimeoutMs: 5_000 })
    idempotency.attach(hooks(new ManualClock(), process))
    redisStores.push(idempotency)
  }
})
afterAll(async () => {
  await Promise.all(redisStores.map((store) => store.close()))
  admin.disconnect()
  await server.stop()
})

/** Moves every moment in the record back by this much. To the store, time has passed. */
const PASS = `
local ttl = redis.call('PTTL', KEYS[1])
if ttl < 0 then return end
for _, field in ipairs({'until', 'created'}) do
  local at = redis.call('HGET', KEYS[1], field)
  -- A lease has two: until when, and since when.
  local earlier = at and string.gsub(at, '%d+', function(moment) return string.format('%.0f', moment - ARGV[1]) end)
  if at then redis.call('HSET', KEYS[1], field, earlier) end
end
if ttl <= tonumber(ARGV[1]) then redis.call('DEL', KEYS[1]) else redis.call('PEXPIRE', KEYS[1], ttl - ARGV[1]) end`

let runs = 0

function redisBench(key: string): Bench {
  const { record, wakePrefix, settledChannel } = names('stampede')
  let echoes = 0
  return {
    stores: redisStores,
    async pass(ms) {
      await admin.eval(PASS, 1, record(`i:${key}`), ms)
    },
    async heard() {
      echoes += 1
      const name = `echo ${key} ${echoes}`
      const channels = (await admin.pubsub('CHANNELS', `${wakePrefix}*`)) as string[]
      let left = 2 * PROCESSES
      await new Promise<void>((resolve) => {
        echo = (_, heard) => {
          if (heard !== name) return
          left -= 1
          if (left === 0) resolve()
        }
        for (const channel of channels) void admin.publish(channel, `i:${name}`)
        void admin.publish(settledChannel, `0i:${name}`)
      })
    },
  }
}

async function playOnRedis(taken: readonly Step[]): Promise<string[]> {
  const key = `model ${++runs}`
  const bench = redisBench(key)
  player = new Player(bench, key)
  return player.playAll(taken)
}

async function playOnMemory(taken: readonly Step[]): Promise<string[]> {
  const clock = new ManualClock()
  const { idempotency } = memoryStore()
  idempotency.attach(hooks(clock, 0))
  const pass = (ms: number) => clock.advance(ms)
  player = new Player({ stores: [idempotency], pass, heard: settled }, 'model')
  return player.playAll(taken)
}

/** A failing run prints its seed and path, by which it can be repeated. */
async function check(
  name: string,
  arbitrary: fc.Arbitrary<Step[]>,
  numRuns: number,
  property: (taken: Step[]) => Promise<unknown>,
): Promise<void> {
  const given = Number(process.env.STAMPEDE_SEED)
  const seed = Number.isInteger(given) && given !== 0 ? given : Math.floor(Math.random() * 2 ** 31)
  console.log(`${name}: STAMPEDE_SEED=${seed}`)
  const run = async (taken: Step[]) => void (await property(taken))
  await fc.assert(fc.asyncProperty(arbitrary, run), { numRuns, seed })
}

describe('an idempotency store', { timeout: 120_000 }, () => {
  it('matches the model in memory, with one process', async () => {
    await check('memory', steps(1), 300, playOnMemory)
  })

  it('matches the model in Redis, with one process', async () => {
    await check('Redis, one process', steps(1), 40, playOnRedis)
  })

  it('matches the model in Redis, with two processes', async () => {
    await check('Redis, two processes', steps(2), 100, playOnRedis)
  })

  it('matches the model in Redis, with two seconds between the steps', async () => {
    const key = `model ${++runs}`
    const bench = redisBench(key)
    const slow: Bench = { ...bench, heard: () => bench.pass(2_000).then(() => bench.heard()) }
    player = new Player(slow, key)
    const again = { do: 'begin', process: 0, print: 0, wait: false, maxAttempts: 3 } as const
    const begin = { ...again, leaseMs: 20 * MINUTE_MS } as const
    const outcomes = await player.playAll([
      { ...begin, again: false },
      { do: 'advance', ms: 15 * MINUTE_MS },
      ...Array.from({ length: 4 }, () => ({ do: 'advance', ms: MINUTE_MS }) as const),
      { ...begin, again: false },
      { do: 'advance', ms: MINUTE_MS },
      { ...begin, again: false },
    ])
    expect(outcomes.filter((each) => each.startsWith('begin'))).toEqual([
      'begin: begun',
      'begin: busy',
      'begin: begun',
    ])
  })

  it('has the same results in memory and in Redis for one process', async () => {
    await check('memory and Redis', steps(1), 40, async (taken) => {
      expect(await playOnRedis(taken)).toEqual(await playOnMemory(taken))
    })
  })
})
