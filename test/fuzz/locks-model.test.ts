// Plays random sequences of operations on a lock store and on a small model of it. Each reply,
// message and remaining record must match the model. The memory store serves one process, Redis
// three. Both also play the same sequences side by side.

import { memoryStore } from '@stampede/core'
import { type Clock, type Grant, type LockStore, systemClock } from '@stampede/core/store'
import { ManualClock, settled } from '@stampede/core/testing'
import { redisStore } from '@stampede/redis'
import fc from 'fast-check'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { names } from '../../packages/redis/src/protocol/keys.ts'
import { type RedisServer, startRedis } from '../harness/redis-server.ts'

type LockReply = Awaited<ReturnType<LockStore['acquire']>>

// --- The model -----------------------------------------------------------------------------------

interface Place {
  readonly process: number
  readonly token: string
  readonly leaseMs: number
}

interface Held {
  readonly process: number
  readonly token: string
  /** The number of grants. The fences of a real store must rise with it. */
  readonly grant: number
  until: number
}

/**
 * A grant by message. If the process asks for the lock in the same step, the reply may already
 * carry it.
 */
interface Tiding {
  readonly token: string
  readonly grant: number
  readonly mayBeSpared: boolean
}

/** The outcome of a step as text, into which replies of a store can be translated. */
type Outcome =
  | { readonly is: 'granted'; readonly grant: number; readonly forMs: number }
  | { readonly is: 'busy'; readonly forMs: number }
  | { readonly is: 'released' | 'lost' | 'renewed' | 'left' | 'passed' }

/** One lock: its holder, its queue, and the messages to each process. */
class ModelLock {
  now = 0
  held: Held | undefined
  queue: Place[] = []
  /** Grants by message, in their order, for each process. */
  readonly told = new Map<number, Tiding[]>()
  readonly #claimMs: number
  #grants = 0

  constructor(claimMs: number) {
    this.#claimMs = claimMs
  }

  acquire(process: number, token: string, leaseMs: number, queues: boolean): Outcome {
    for (;;) {
      const { held } = this
      if (held !== undefined && this.now < held.until) {
        const forMs = held.until - this.now
        if (held.token === token) return { is: 'granted', grant: held.grant, forMs }
        if (queues) this.#join({ process, token, leaseMs })
        return { is: 'busy', forMs }
      }
      if (this.queue.length === 0) return this.#grant(process, token, leaseMs)
      // The lock of an expired holder goes to the head of the queue first, so no process overtakes
      // another.
      if (queues) this.#join({ process, token, leaseMs })
      this.#handOver(undefined, token)
    }
  }

  renew(held: Held | undefined, leaseMs: number): Outcome {
    if (held === undefined || this.held !== held) return { is: 'lost' }
    held.until = this.now + leaseMs
    return { is: 'renewed' }
  }

  release(held: Held | undefined, next: Place | undefined): Outcome {
    if (held === undefined || this.held !== held) return { is: 'lost' }
    if (next !== undefined) this.#join(next)
    return this.#handOver(next) ?? { is: 'released' }
  }

  leave(process: number): Outcome {
    this.queue = this.queue.filter((place) => place.process !== process)
    return { is: 'left' }
  }

  /** A process has one place in the queue, under its latest token. */
  #join(place: Place): void {
    const index = this.queue.findIndex(({ process }) => process === place.process)
    if (index === -1) this.queue.push(place)
    else this.queue[index] = place
  }

  #handOver(queuing: Place | undefined, asking = ''): Outcome | undefined {
    this.held = undefined
    const head = this.queue.shift()
    if (head === undefined) return undefined
    const granted = this.#grant(head.process, head.token, Math.min(head.leaseMs, this.#claimMs))
    // A process that queued again in this step learns of the grant by the reply.
    if (head === queuing) return granted
    const { process, token } = head
    const tiding = { token, grant: this.#grants, mayBeSpared: token === asking }
    this.told.set(process, [...(this.told.get(process) ?? []), tiding])
    return undefined
  }

  #grant(process: number, token: string, forMs: number): Outcome {
    this.#grants += 1
    this.held = { process, token, grant: this.#grants, until: this.now + forMs }
    return { is: 'granted', grant: this.#grants, forMs }
  }
}

// --- The operations
// --------------------------------------------------------------------------------------

type Step =
  | { do: 'acquire'; process: number; leaseMs: number; queues: boolean; again: boolean }
  | { do: 'renew'; which: number; leaseMs: number }
  | { do: 'release'; which: number; queuesAgain: boolean; byToken: boolean }
  | { do: 'leave'; process: number }
  | { do: 'advance'; ms: number }

/** Far apart, so that the real time between two steps never matters. */
const LEASES_MS = [10_000, 30_000]
const CLAIM_MS = 2_000
const ADVANCES_MS = [1_000, 8_000, 22_000, 50_000]
/** The store forgets a lock a minute after its lease. The model does not. */
const MOST_MS = 65_000
const ROUNDING_MS = 2

const steps = (processes: number): fc.Arbitrary<Step[]> => {
  const process = fc.nat(processes - 1)
  const leaseMs = fc.constantFrom(...LEASES_MS)
  // Counted back from the newest grant. Most operations use the newest one.
  const which = fc.oneof({ arbitrary: fc.constant(0), weight: 4 }, fc.nat(4))
  const some = fc.array(
    fc.oneof(
      {
        weight: 6,
        arbitrary: fc.record({
          do: fc.constant('acquire' as const),
          process,
          leaseMs,
          queues: fc.boolean(),
          again: fc.boolean(),
        }),
      },
      {
        weight: 5,
        arbitrary: fc.record({
          do: fc.constant('release' as const),
          which,
          queuesAgain: fc.boolean(),
          byToken: fc.boolean(),
        }),
      },
      { weight: 2, arbitrary: fc.record({ do: fc.constant('renew' as const), which, leaseMs }) },
      { weight: 1, arbitrary: fc.record({ do: fc.constant('leave' as const), process }) },
      {
        weight: 2,
        arbitrary: fc.record({
          do: fc.constant('advance' as const),
          ms: fc.constantFrom(...ADVANCES_MS),
        }),
      },
    ),
    { minLength: 1, maxLength: 40, size: 'max' },
  )
  return some.map((taken) => {
    let passed = 0
    return taken.filter((step) => {
      if (step.do === 'advance') passed += step.ms
      return step.do !== 'advance' || passed <= MOST_MS
    })
  })
}

/** A store under test: its number of processes, and a way to let time pass. */
interface Bench {
  readonly stores: readonly LockStore[]
  readonly claimMs: number
  readonly clock: ManualClock
  pass(ms: number): Promise<void>
  /** Resolves when every published message has arrived. */
  heard(): Promise<void>
}

/** Plays steps on a store and on the model, and maps their tokens and fences to each other. */
class Player {
  readonly model: ModelLock
  /** The outcomes as text, on which two stores must agree. */
  readonly transcript: string[] = []
  readonly #bench: Bench
  readonly #key: string
  readonly #startedAt = performance.now()
  /** Fences in the order of the model's grants. */
  readonly #grants: Array<{ real: Grant; held: Held }> = []
  readonly #told: Grant[][]
  /** The latest token of each process. */
  readonly #last: Array<{ token: string; leaseMs: number }> = []
  #tokens = 0

  constructor(bench: Bench, key: string) {
    this.#bench = bench
    this.#key = key
    this.model = new ModelLock(bench.claimMs)
    this.#told = bench.stores.map(() => [])
  }

  hear(process: number, grant: Grant): void {
    if (grant.key === this.#key) this.#told[process]?.push(grant)
  }

  async play(step: Step): Promise<void> {
    const outcome = await this.#take(step)
    await this.#bench.heard()
    this.#compareTold()
    this.transcript.push(`${step.do}: ${outcome}`)
  }

  async #take(step: Step): Promise<string> {
    switch (step.do) {
      case 'advance': {
        this.model.now += step.ms
        await this.#bench.pass(step.ms)
        return `${step.ms}`
      }
      case 'acquire': {
        const { process, queues } = step
        const last = step.again ? this.#last[process] : undefined
        const { token, leaseMs } = last ?? this.#name(process, step.leaseMs)
        const expected = this.model.acquire(process, token, leaseMs, queues)
        const request = { token, leaseMs, queue: queues }
        const reply = await this.#store(process).acquire(this.#key, request)
        return this.#compareReply(expected, reply)
      }
      case 'renew': {
        const known = this.#grants.at(-1 - step.which)
        if (known === undefined) return 'nothing'
        const expected = this.model.renew(known.held, step.leaseMs)
        const [ours] = await this.#store(known.held.process).renew([known.real], step.leaseMs)
        expect(ours ? 'renewed' : 'lost').toBe(expected.is)
        return expected.is
      }
      case 'release': {
        const known = this.#grants.at(-1 - step.which)
        if (known === undefined) return 'nothing'
        const { process } = known.held
        const next = step.queuesAgain ? this.#name(process, LEASES_MS[0] ?? 0) : undefined
        // The token alone also names a later grant of that token.
        const { held } = this.model
        const named = step.byToken && held?.token === known.held.token ? held : known.held
        const expected = this.model.release(named, next && { process, ...next })
        const grant = step.byToken ? { ...known.real, fence: '*' } : known.real
        const { status, granted } = await this.#store(process).release(grant, next)
        expect(status).toBe(expected.is === 'lost' ? 'lost' : 'released')
        if (expected.is === 'granted') {
          if (granted === undefined) throw new Error('the lock should have come back in the reply')
          return this.#compareReply(expected, { status: 'granted', ...granted })
        }
        expect(granted).toBeUndefined()
        return expected.is
      }
      case 'leave': {
        this.model.leave(step.process)
        await this.#store(step.process).leave(this.#key)
        return 'left'
      }
    }
  }

  #compareReply(expected: Outcome, reply: LockReply): string {
    expect(reply.status).toBe(expected.is)
    if (expected.is !== 'granted' && expected.is !== 'busy') throw new Error(`is ${expected.is}`)
    // On a real Redis, real time has passed since the first step too.
    const passedMs = performance.now() - this.#startedAt + ROUNDING_MS
    expect(reply.forMs).toBeGreaterThanOrEqual(expected.forMs - passedMs)
    expect(reply.forMs).toBeLessThanOrEqual(expected.forMs + passedMs)
    if (expected.is === 'granted' && reply.status === 'granted') {
      this.#note(expected.grant, reply.grant)
    }
    return expected.is
  }

  /** A grant keeps its names, and a later grant has a greater fence. */
  #note(number: number, real: Grant): void {
    const { held } = this.model
    const known = this.#grants[number - 1]
    if (known !== undefined) return void expect(real).toEqual(known.real)
    if (held?.grant !== number) throw new Error('the model lost count')
    expect(real).toMatchObject({ key: this.#key, token: held.token })
    const before = this.#grants.at(-1)
    if (before !== undefined) {
      expect(BigInt(real.fence)).toBeGreaterThan(BigInt(before.real.fence))
    }
    this.#grants[number - 1] = { real, held }
  }

  /** The messages since the last step are those of the model, in the same order. */
  #compareTold(): void {
    for (const [process, heard] of this.#told.entries()) {
      const news = (this.model.told.get(process) ?? []).splice(0)
      for (const { token, grant, mayBeSpared } of news) {
        if (heard[0]?.token === token) this.#note(grant, heard.shift() as Grant)
        else expect(mayBeSpared, `process ${process} hears that ${token} is granted`).toBe(true)
      }
      expect(heard.splice(0)).toEqual([])
    }
  }

  #store(process: number): LockStore {
    const store = this.#bench.stores[process]
    if (store === undefined) throw new Error(`No process ${process}`)
    return store
  }

  #name(process: number, leaseMs: number): { token: string; leaseMs: number } {
    this.#tokens += 1
    const name = { token: `t${this.#tokens}`, leaseMs }
    this.#last[process] = name
    return name
  }
}

// --- The stores ----------------------------------------------------------------------------------

let server: RedisServer
let admin: Redis
let listen: (process: number, grant: Grant) => void = () => {}
const clients: Redis[] = []
const redisStores: LockStore[] = []

beforeAll(async () => {
  server = await startRedis()
  admin = new Redis(server.url)
  for (let process = 0; process < 3; process++) {
    const client = new Redis(server.url, { lazyConnect: true })
    const { locks } = redisStore(client, { commandTimeoutMs: 5_000 })
    locks.attach({ ...quiet(systemClock), onGrant: (grant) => listen(process, grant) })
    clients.push(client)
    redisStores.push(locks)
  }
})
afterAll(async () => {
  await Promise.all(redisStores.map((store) => store.close()))
  for (const client of clients) client.disconnect()
  admin.disconnect()
  await server.stop()
})

function quiet(clock: Clock) {
  const ignore = () => {}
  return { clock, onGap: ignore, onLost: ignore, onError: ignore }
}

let runs = 0

function redisBench(processes: number, key: string): Bench {
  const { record, grantPrefix } = names('stampede')
  let echoes = 0
  return {
    stores: redisStores.slice(0, processes),
    claimMs: CLAIM_MS,
    clock: new ManualClock(),
    // The end of a lease is a moment in the record. Moving it closer lets time pass.
    async pass(ms) {
      const until = await admin.hget(record(`l:${key}`), 'until')
      if (until === null) return
      const earlier = until.split(' ').map((moment) => Number(moment) - ms)
      await admin.hset(record(`l:${key}`), 'until', earlier.join(' '))
    },
    async heard() {
      echoes += 1
      const token = `echo-${key.replaceAll(' ', '-')}-${echoes}`
      const channels = (await admin.pubsub('CHANNELS', `${grantPrefix}*`)) as string[]
      const before = listen
      let left = channels.length
      await new Promise<void>((resolve) => {
        listen = (process, grant) => {
          if (grant.token !== token) return before(process, grant)
          left -= 1
          if (left === 0) resolve()
        }
        // Old enough that the server confirms it, after all messages before it.
        for (const channel of channels) void admin.publish(channel, `${token} 1 1 1 ${token}`)
      })
      listen = before
    },
  }
}

function memoryBench(player: () => Player | undefined): Bench {
  const clock = new ManualClock()
  const { locks } = memoryStore()
  locks.attach({ ...quiet(clock), onGrant: (grant) => player()?.hear(0, grant) })
  return {
    stores: [locks],
    claimMs: Number.POSITIVE_INFINITY,
    clock,
    pass: (ms) => clock.advance(ms),
    heard: settled,
  }
}

async function playOnRedis(processes: number, taken: readonly Step[]): Promise<string[]> {
  const key = `model ${++runs}`
  const player = new Player(redisBench(processes, key), key)
  listen = (process, grant) => player.hear(process, grant)
  for (const step of taken) await player.play(step)
  return player.transcript
}

async function playOnMemory(taken: readonly Step[]): Promise<string[]> {
  let player: Player | undefined
  const bench = memoryBench(() => player)
  player = new Player(bench, 'model')
  for (const step of taken) await player.play(step)
  return player.transcript
}

/** A failing run prints its seed and path, by which it can be repeated. */
async function check(
  name: string,
  arbitrary: fc.Arbitrary<Step[]>,
  numRuns: number,
  property: (taken: Step[]) => Promise<void>,
): Promise<void> {
  const given = Number(process.env.STAMPEDE_SEED)
  const seed = Number.isInteger(given) && given !== 0 ? given : Math.floor(Math.random() * 2 ** 31)
  console.log(`${name}: STAMPEDE_SEED=${seed}`)
  await fc.assert(fc.asyncProperty(arbitrary, property), { numRuns, seed })
}

describe('a lock store', () => {
  it('matches the model in memory, with one process', async () => {
    await check('memory', steps(1), 300, async (taken) => {
      await playOnMemory(taken)
    })
  })

  it('matches the model in Redis, with one process', async () => {
    await check('Redis, one process', steps(1), 40, async (taken) => {
      await playOnRedis(1, taken)
    })
  })

  it('matches the model in Redis, with three processes', async () => {
    await check('Redis, three processes', steps(3), 80, async (taken) => {
      await playOnRedis(3, taken)
    })
  })
})

describe('the memory store and the Redis store', () => {
  it('have the same results for one process, except for the length of a claim', async () => {
    // Advances that end a claim of 2 s, but not a lease, are left out: there the stores may differ.
    const same = steps(1).map((taken) =>
      taken.filter((step) => step.do !== 'advance' || step.ms === 1_000 || step.ms === 50_000),
    )
    await check('memory and Redis', same, 40, async (taken) => {
      const lease = taken.filter((step) => step.do === 'advance' && step.ms === 1_000)
      fc.pre(lease.length < 2)
      expect(await playOnRedis(1, taken)).toEqual(await playOnMemory(taken))
    })
  })
})
