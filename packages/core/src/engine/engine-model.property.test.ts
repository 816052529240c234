// Random schedules of calls, purges, origin results, messages and time, on one process and on two.
// The same rules are checked for every order of events. Between two steps, only a few promises
// settle.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createStampede, type FactoryContext, type Stampede } from '../index.ts'
import { ManualClock, runs, settled } from '../testing/index.ts'
import { type FaultyStore, loseReply, refuse, sharedStores } from '../testing/store-doubles.ts'

const LEASE_MS = 600
const TIMEOUT_MS = 3_000
/** A time that no schedule reaches. A caller without a result therefore still waits at the end. */
const FOR_EVER_MS = 24 * 3_600_000

type End = 'store' | 'skip' | 'fail'

type Step =
  | {
      do: 'get'
      at: number
      key: number
      waitMs: number
      swr: boolean
      soft: boolean
    }
  | { do: 'purge'; at: number; key: number; soft: boolean }
  | { do: 'end'; run: number; how: End; afterMs: number }
  | { do: 'fault'; at: number; operation: 'lookup' | 'commit' | 'fail' | 'renew'; lost: boolean }
  | { do: 'gap' | 'deaf'; at: number }
  | { do: 'advance'; ms: number }
  | { do: 'settle'; ticks: number }

const at = fc.nat(1)
const key = fc.nat(1)
const GET = fc.record({
  do: fc.constant('get' as const),
  at,
  key,
  waitMs: fc.constantFrom(FOR_EVER_MS, FOR_EVER_MS, FOR_EVER_MS, 50),
  swr: fc.boolean(),
  soft: fc.boolean(),
})
const PURGE = fc.record({ do: fc.constant('purge' as const), at, key, soft: fc.boolean() })
const END = fc.record({
  do: fc.constant('end' as const),
  run: fc.nat(3),
  how: fc.constantFrom<End>('store', 'store', 'skip', 'fail', 'fail'),
  afterMs: fc.constantFrom(0, 20),
})
const ADVANCE = fc.record({
  do: fc.constant('advance' as const),
  ms: fc.constantFrom(1, 60, 400, 700, 1_000, 3_100),
})
const SETTLE = fc.record({ do: fc.constant('settle' as const), ticks: fc.nat(12) })
const FAULT = fc.record({
  do: fc.constant('fault' as const),
  at,
  operation: fc.constantFrom(
    'lookup' as const,
    'commit' as const,
    'fail' as const,
    'renew' as const,
  ),
  lost: fc.boolean(),
})
const HINT = fc.record({ do: fc.constantFrom('gap' as const, 'deaf' as const), at })

const step = (faults: boolean): fc.Arbitrary<Step> =>
  fc.oneof(
    { arbitrary: GET, weight: 8 },
    { arbitrary: PURGE, weight: 3 },
    { arbitrary: END, weight: 6 },
    { arbitrary: ADVANCE, weight: 3 },
    { arbitrary: SETTLE, weight: 6 },
    ...(faults
      ? [
          { arbitrary: FAULT, weight: 2 },
          { arbitrary: HINT, weight: 1 },
        ]
      : []),
  )

interface Run {
  readonly key: number
  readonly at: number
  readonly number: number
  readonly startedAt: number
  readonly fence: string
  /** Whether another run of the key may overlap: a purge came, or the deadline of this run. */
  mayOverlap: boolean
  /** Whether the deadline of the run has passed. */
  isPastDeadline: boolean
  end(how: End): void
}

class World {
  readonly clock = new ManualClock(() => 0.9)
  readonly stampedes: Stampede[]
  readonly stores: FaultyStore[]
  /** Counts the steps of the test, to order events. */
  #moment = 0
  #runs = 0
  #running: Run[] = []
  #unsettled = 0
  /** By key: the start of the last hard purge that has ended. */
  readonly #hardPurges = new Map<number, number>()
  /** By key: the start of the last purge. */
  readonly #purgeStarts = new Map<number, number>()
  /** By fence: the time of the grant. */
  readonly #grantTimes = new Map<string, number>()
  readonly #problems: string[] = []
  readonly #exact: boolean

  constructor(processes: number, exact: boolean, l1: boolean) {
    const { a, b } = sharedStores()
    this.#exact = exact
    this.stores = processes === 1 ? [a] : [a, b]
    for (const store of this.stores) this.#watch(store)
    this.stampedes = this.stores.map((store) =>
      createStampede({
        store,
        clock: this.clock,
        originConcurrency: 1,
        ...(l1 ? {} : { l1: { maxBytes: 0 } }),
      }),
    )
  }

  #watch(store: FaultyStore): void {
    const lookup = store.lookup.bind(store)
    store.lookup = (key, request) => {
      const moment = this.#moment
      const replied = lookup(key, request)
      replied.then(
        (reply) => {
          if (!('grant' in reply) || reply.grant === undefined) return
          const { fence } = reply.grant
          if (!this.#grantTimes.has(fence)) this.#grantTimes.set(fence, moment)
        },
        () => {},
      )
      return replied
    }
  }

  #of<T>(list: readonly T[], index: number): T {
    return list[index % list.length] as T
  }

  async take(taken: Step): Promise<void> {
    this.#moment += 1
    switch (taken.do) {
      case 'get':
        return this.#get(taken)
      case 'purge':
        return this.#purge(taken)
      case 'end':
        if (taken.afterMs > 0) await this.clock.advance(taken.afterMs)
        return this.#running[taken.run % Math.max(1, this.#running.length)]?.end(taken.how)
      case 'fault':
        this.#of(this.stores, taken.at).next(taken.operation, taken.lost ? loseReply : refuse)
        return
      case 'gap':
        return this.#of(this.stores, taken.at).hooks.onGap()
      case 'deaf':
        return this.#of(this.stores, taken.at).hooks.onLost()
      case 'advance':
        return this.clock.advance(taken.ms)
      case 'settle':
        for (let i = 0; i < taken.ticks; i++) await Promise.resolve()
    }
  }

  #get({ at, key, waitMs, swr, soft }: Extract<Step, { do: 'get' }>): void {
    const notBefore = this.#hardPurges.get(key) ?? 0
    this.#unsettled += 1
    const options = {
      ttlMs: 1_000,
      jitter: 0,
      staleWhileRevalidateMs: swr ? 2_000 : 0,
      leaseMs: LEASE_MS,
      originTimeoutMs: TIMEOUT_MS,
      waitMs,
      ...(soft && { staleIfErrorMs: 5_000, softTimeoutMs: 40 }),
    }
    const run = (context: FactoryContext) => this.#run(at, key, context)
    this.#of(this.stampedes, at)
      .getOrSet(`k${key}`, run, options)
      .then(
        ({ number, startedAt }) => {
          if (startedAt < notBefore) this.#problems.push(`run ${number} was purged before the call`)
        },
        () => {},
      )
      .finally(() => {
        this.#unsettled -= 1
      })
  }

  #run(at: number, key: number, { fence: given, signal, skip }: FactoryContext) {
    this.#moment += 1
    const fence = String(given ?? '')
    return new Promise<{ number: number; startedAt: number }>((resolve, reject) => {
      const run: Run = {
        key,
        at: at % this.stampedes.length,
        fence,
        number: this.#runs++,
        startedAt: this.#moment,
        isPastDeadline: false,
        mayOverlap: (this.#grantTimes.get(fence) ?? 0) < (this.#purgeStarts.get(key) ?? 0),
        end: (how) => {
          this.#running = this.#running.filter((each) => each !== run)
          const value = { number: run.number, startedAt: run.startedAt }
          if (how === 'fail') reject(new Error(`run ${run.number}`))
          else resolve(how === 'skip' ? skip(value) : value)
        },
      }
      signal.addEventListener('abort', () => {
        run.mayOverlap = true
        run.isPastDeadline = true
      })
      this.#running.push(run)
      const leased = this.#running.filter((r) => r.key === key && r.fence !== '' && !r.mayOverlap)
      const alone = this.#running.filter(
        (r) => r.at === run.at && r.fence === '' && !r.isPastDeadline,
      )
      if (alone.length > 1) {
        this.#problems.push(`runs ${alone.map((r) => r.number).join(' and ')} without a lease`)
      }
      if (this.#exact && leased.length > 1) {
        this.#problems.push(`runs ${leased.map((r) => r.number).join(' and ')} at a time`)
      }
    })
  }

  #purge({ at, key, soft }: Extract<Step, { do: 'purge' }>): void {
    const begun = this.#moment
    this.#purgeStarts.set(key, begun)
    for (const run of this.#running) if (run.key === key) run.mayOverlap = true
    void this.#of(this.stampedes, at)
      .purge({ key: `k${key}` }, { soft })
      .then(() => {
        if (!soft) this.#hardPurges.set(key, Math.max(begun, this.#hardPurges.get(key) ?? 0))
      })
  }

  /**
   * Ends every run, makes the store available, and advances the clock. Then no caller may wait, and
   * no run, lease or timer may remain.
   */
  async end(): Promise<string[]> {
    for (const store of this.stores) {
      store.heal()
      store.hooks.onGap()
    }
    for (let i = 0; i < 20; i++) {
      await settled()
      for (const run of [...this.#running]) run.end('store')
      await this.clock.advance(i < 10 ? 0 : TIMEOUT_MS)
    }
    const problems = [...this.#problems]
    if (this.#unsettled > 0) problems.push(`${this.#unsettled} calls were never settled`)
    for (const stampede of this.stampedes) {
      const { flights, leases } = stampede.stats().active
      const { running, queued } = stampede.stats().unleased
      if (running + queued > 0)
        problems.push(`${running} concurrency slots and ${queued} queued runs are left`)
      if (flights + leases > 0) problems.push(`${flights} flights and ${leases} leases are left`)
    }
    // The shared timer of all deadlines may still run once, for a deadline that was ended.
    await this.clock.advance(FOR_EVER_MS)
    if (this.clock.timers > 0) problems.push(`${this.clock.timers} timers are left`)
    await Promise.all(this.stampedes.map((stampede) => stampede.close()))
    return problems
  }
}

async function play(world: World, steps: readonly Step[]): Promise<string[]> {
  for (const each of steps) await world.take(each)
  return world.end()
}

describe('a random schedule', () => {
  it.each([
    ['one process', 1, true, false],
    ['one process without L1', 1, false, false],
    ['two processes', 2, true, false],
    ['two processes without L1', 2, false, false],
    ['one process and a faulty store', 1, true, true],
    ['two processes and a faulty store', 2, true, true],
  ] as const)(
    'leaves no call without a result, runs the origin once at a time, and serves nothing purged: %s',
    async (_, processes, l1, faults) => {
      await fc.assert(
        fc.asyncProperty(fc.array(step(faults), { maxLength: 40, size: 'max' }), async (steps) => {
          expect(await play(new World(processes, !faults, l1), steps)).toEqual([])
        }),
        { numRuns: runs(200).numRuns },
      )
    },
  )
})
