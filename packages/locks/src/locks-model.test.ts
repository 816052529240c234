// Random schedules of three processes on one lock, over a network that delays and loses. There are
// never two holders, fences rise, and no process waits for ever. The server is lua/*-lock-1.lua in
// a few lines.

import { type Grant, type LockStore, storeUnavailable } from '@stampede/core/store'
import { ManualClock, settled } from '@stampede/core/testing'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { createLocks, type Locks } from './create-locks.ts'
import type { Lease } from './lease.ts'

type LockReply = Awaited<ReturnType<LockStore['acquire']>>
type LockRequest = Parameters<LockStore['acquire']>[1]

type LockHooks = Parameters<LockStore['attach']>[0]
type LockRelease = Awaited<ReturnType<LockStore['release']>>

const BUDGET_MS = 250
const CLAIM_MS = 2_000
const PROCESSES = 3

interface Place {
  readonly process: Process
  token: string
  leaseMs: number
}

class Server {
  readonly clock: ManualClock
  token = ''
  until = 0
  fence = 0
  queue: Place[] = []

  constructor(clock: ManualClock) {
    this.clock = clock
  }

  acquire(process: Process, request: LockRequest): LockReply {
    const { token, leaseMs, queue } = request
    const now = this.clock.now()
    const isHeld = this.token !== '' && now < this.until
    if (isHeld && this.token === token) return this.#granted()
    if (queue && (isHeld || this.queue.length > 0)) this.#join(process, token, leaseMs)
    if (isHeld) return { status: 'busy', forMs: this.until - now }
    if (this.queue.length > 0) {
      this.#handOver(undefined)
      return this.acquire(process, request)
    }
    this.#grant(token, leaseMs)
    return this.#granted()
  }

  renew({ token, fence }: Grant, leaseMs: number): boolean {
    const isOurs = this.token === token && String(this.fence) === fence
    if (isOurs) this.until = this.clock.now() + leaseMs
    return isOurs
  }

  release(grant: Grant, process: Process, next?: { token: string; leaseMs: number }): LockRelease {
    const isNewest = grant.fence === '*' || grant.fence === String(this.fence)
    if (this.token !== grant.token || !isNewest) return { status: 'lost' }
    if (next !== undefined) this.#join(process, next.token, next.leaseMs)
    const toItself = this.#handOver(next && process)
    if (toItself) {
      const { grant: granted, forMs } = this.#granted()
      return { status: 'released', granted: { grant: granted, forMs } }
    }
    if (this.token === '') return { status: 'released' }
    return { status: 'released', busyForMs: this.until - this.clock.now() }
  }

  leave(process: Process): void {
    this.queue = this.queue.filter((place) => place.process !== process)
  }

  #join(process: Process, token: string, leaseMs: number): void {
    const place = this.queue.find((each) => each.process === process)
    if (place === undefined) this.queue.push({ process, token, leaseMs })
    else Object.assign(place, { token, leaseMs })
  }

  /** True if the process that sent the request gets the lock by the reply. */
  #handOver(asking: Process | undefined): boolean {
    this.token = ''
    for (let head = this.queue.shift(); head !== undefined; head = this.queue.shift()) {
      this.#grant(head.token, Math.min(head.leaseMs, CLAIM_MS))
      if (head.process === asking) return true
      if (head.process.publish(this.#granted().grant, this.until)) return false
      this.token = ''
    }
    return false
  }

  #grant(token: string, forMs: number): void {
    this.fence = Math.max(this.fence + 1, Math.floor(this.clock.wallNow() * 1_000))
    this.token = token
    this.until = this.clock.now() + forMs
  }

  #granted() {
    const grant = { key: 'job', token: this.token, fence: String(this.fence) }
    return { status: 'granted', grant, forMs: this.until - this.clock.now() } as const
  }
}

interface Trip {
  readonly thereMs: number
  readonly backMs: number
  readonly lost?: 'request' | 'reply' | undefined
}

const SMOOTH: Trip = { thereMs: 1, backMs: 1 }

/** The connections of one process: commands, replies and messages, each in their own order. */
class Process implements LockStore {
  readonly name = 'network'
  readonly trips: Trip[] = []
  messageMs = 1
  #hooks: LockHooks | undefined
  #hearing: 'all' | 'nothing, and it is known' | 'nothing' = 'all'
  readonly #server: Server
  readonly #lastDue = { there: 0, back: 0, message: 0 }

  constructor(server: Server) {
    this.#server = server
  }

  attach(hooks: LockHooks): void {
    this.#hooks = hooks
  }

  async acquire(_key: string, request: LockRequest): Promise<LockReply> {
    return this.#ask(() => this.#server.acquire(this, request))
  }

  async renew(grants: readonly Grant[], leaseMs: number): Promise<boolean[]> {
    return this.#ask(() => grants.map((grant) => this.#server.renew(grant, leaseMs)))
  }

  async release(grant: Grant, next?: { token: string; leaseMs: number }): Promise<LockRelease> {
    return this.#ask(() => this.#server.release(grant, this, next))
  }

  async leave(): Promise<void> {
    return this.#ask(() => this.#server.leave(this))
  }

  async close(): Promise<void> {}

  /** Whether there was a receiver. */
  publish(grant: Grant, until: number): boolean {
    if (this.#hearing === 'nothing, and it is known') return false
    const { clock } = this.#server
    this.#after('message', this.messageMs, () => {
      if (this.#hearing === 'all') this.#hooks?.onGrant(grant, until - clock.now())
    })
    return true
  }

  /**
   * Breaks the subscription, which later opens again. Both sides notice the break at once, unless
   * it is silent.
   */
  breakSubscription(isSilent: boolean): void {
    const { clock } = this.#server
    this.#hearing = isSilent ? 'nothing' : 'nothing, and it is known'
    clock.setTimer(isSilent ? 750 : 0, () => this.#hooks?.onLost())
    clock.setTimer(isSilent ? 900 : 150, () => {
      this.#hearing = 'all'
      this.#hooks?.onGap()
    })
  }

  #ask<T>(work: () => T): Promise<T> {
    const { thereMs, backMs, lost } = this.trips.shift() ?? SMOOTH
    return new Promise<T>((resolve, reject) => {
      const timer = this.#server.clock.setTimer(BUDGET_MS, () =>
        reject(storeUnavailable('network', 'ask', new Error('no answer'))),
      )
      const answer = (settle: () => void) =>
        this.#after('back', backMs, () => {
          if (lost === 'reply') return
          timer.cancel()
          settle()
        })
      this.#after('there', thereMs, () => {
        if (lost === 'request') return
        try {
          const reply = work()
          answer(() => resolve(reply))
        } catch (error) {
          answer(() => reject(error))
        }
      })
    })
  }

  /** No message overtakes an earlier one in the same direction. */
  #after(way: 'there' | 'back' | 'message', delayMs: number, run: () => void): void {
    const { clock } = this.#server
    const due = Math.max(clock.now() + delayMs, this.#lastDue[way])
    this.#lastDue[way] = due
    clock.setTimer(due - clock.now(), run)
  }
}

type Step =
  | { do: 'acquire'; process: number; leaseMs: number; waitMs: number }
  | { do: 'try'; process: number }
  | { do: 'release'; which: number }
  | { do: 'abort'; which: number }
  | { do: 'trip'; process: number; trip: Trip }
  | { do: 'messages'; process: number; ms: number }
  | { do: 'break'; process: number; isSilent: boolean }
  | { do: 'advance'; ms: number }

const process = fc.nat(PROCESSES - 1)
const which = fc.nat(5)
const delayMs = fc.constantFrom(0, 1, 5, 40, 200, 400)
const leaseMs = fc.constantFrom(1_000, 3_000)
const waitMs = fc.constantFrom(Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY, 100, 1_500)
const lost = fc.constantFrom(undefined, undefined, 'request' as const, 'reply' as const)

const schedule: fc.Arbitrary<Step[]> = fc.array(
  fc.oneof(
    {
      weight: 8,
      arbitrary: fc.record({ do: fc.constant('acquire' as const), process, leaseMs, waitMs }),
    },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('try' as const), process }) },
    { weight: 7, arbitrary: fc.record({ do: fc.constant('release' as const), which }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('abort' as const), which }) },
    {
      weight: 3,
      arbitrary: fc.record({
        do: fc.constant('trip' as const),
        process,
        trip: fc.record({ thereMs: delayMs, backMs: delayMs, lost }),
      }),
    },
    {
      weight: 2,
      arbitrary: fc.record({ do: fc.constant('messages' as const), process, ms: delayMs }),
    },
    {
      weight: 1,
      arbitrary: fc.record({ do: fc.constant('break' as const), process, isSilent: fc.boolean() }),
    },
    {
      weight: 9,
      arbitrary: fc.record({
        do: fc.constant('advance' as const),
        ms: fc.constantFrom(1, 2, 3, 20, 60, 300, 1_100, 3_200),
      }),
    },
  ),
  { minLength: 1, maxLength: 80, size: 'max' },
)

class World {
  readonly clock = new ManualClock(() => 0.5)
  readonly problems: string[] = []
  readonly #server = new Server(this.clock)
  readonly #processes = Array.from({ length: PROCESSES }, () => new Process(this.#server))
  readonly #locks: Locks[] = this.#processes.map((locks) =>
    createLocks({ store: { locks }, clock: this.clock }),
  )
  #held: Lease[] = []
  readonly #waiting = new Set<AbortController>()
  #lastFence = 0n
  #isEnding = false

  async take(step: Step): Promise<void> {
    switch (step.do) {
      case 'acquire': {
        const abort = new AbortController()
        const { leaseMs, waitMs } = step
        this.#waiting.add(abort)
        this.#had(
          this.#at(step.process).acquire('job', { leaseMs, waitMs, signal: abort.signal }),
        ).finally(() => this.#waiting.delete(abort))
        break
      }
      case 'try':
        void this.#had(this.#at(step.process).tryAcquire('job', { leaseMs: 1_000 }))
        break
      case 'release':
        void this.#held.splice(step.which % Math.max(1, this.#held.length), 1)[0]?.release()
        break
      case 'abort':
        ;[...this.#waiting][step.which]?.abort()
        break
      case 'trip':
        this.#processes[step.process]?.trips.push(step.trip)
        break
      case 'messages':
        Object.assign(this.#processes[step.process] ?? {}, { messageMs: step.ms })
        break
      case 'break':
        this.#processes[step.process]?.breakSubscription(step.isSilent)
        break
      case 'advance':
        await this.clock.advance(step.ms)
    }
    await settled()
  }

  /**
   * From here on there are no faults, and each holder releases. Then every process gets the lock
   * soon.
   */
  async end(): Promise<void> {
    this.#isEnding = true
    for (const process of this.#processes) {
      process.trips.length = 0
      process.messageMs = 1
    }
    for (const lease of this.#held.splice(0)) void lease.release()
    const waiting = this.#waiting.size
    // The time for one abandoned lease per process, and for one hand-over per waiter.
    await this.clock.advance(PROCESSES * 3_500 + 10 * waiting)
    if (this.#waiting.size > 0) {
      this.problems.push(`${this.#waiting.size} of ${waiting} still wait`)
    }
    let isFree = false
    void this.#had(this.#at(0).acquire('job')).then(() => {
      isFree = true
    })
    await this.clock.advance(3_500)
    if (!isFree) this.problems.push('the lock is not free')
    let closed = 0
    for (const locks of this.#locks) {
      void locks.close().then(() => {
        closed += 1
      })
    }
    await this.clock.advance(1_000)
    if (closed < PROCESSES) this.problems.push(`${PROCESSES - closed} do not close`)
    await this.clock.advance(20_000)
    if (this.clock.timers > 0) this.problems.push(`${this.clock.timers} timers are left`)
  }

  async #had(asked: Promise<Lease | null>): Promise<void> {
    const lease = await asked.catch((error: { code?: string }) => {
      if (!/^ERR_LOCK_(ABORTED|WAIT_TIMEOUT|UNAVAILABLE)$/.test(error.code ?? '')) {
        this.problems.push(String(error))
      }
      return null
    })
    if (lease === null) return
    const others = this.#held.filter((each) => each.remainingMs() > 0)
    if (others.length > 0) this.problems.push(`${lease.fence} and ${others[0]?.fence} at a time`)
    if (lease.fence <= this.#lastFence)
      this.problems.push(`${lease.fence} after ${this.#lastFence}`)
    if (lease.remainingMs() === 0) this.problems.push(`${lease.fence} is over when it is given`)
    this.#lastFence = lease.fence
    if (this.#isEnding) void lease.release()
    else this.#held.push(lease)
  }

  #at(process: number): Locks {
    const locks = this.#locks[process]
    if (locks === undefined) throw new Error(`No process ${process}`)
    return locks
  }
}

it('a random schedule has one lock holder at a time, rising fences, and no process that waits for ever', async () => {
  await fc.assert(
    fc.asyncProperty(schedule, async (steps) => {
      const world = new World()
      for (const step of steps) await world.take(step)
      await world.end()
      expect(world.problems).toEqual([])
    }),
    { numRuns: Number(globalThis.process.env.STAMPEDE_RUNS ?? 300) },
  )
}, 60_000)
