// The events and counters of locks, and the facts of their traces.

import type { TracingContexts } from '@stampede/core'
import { type Clock, EventHub, type Grant, lockTracing } from '@stampede/core/store'
import { LockError } from './errors.ts'
import type { Lease } from './lease.ts'

/**
 * Each event with its occasion, and its fields in addition to `type`, `key` and `internalKey`. A
 * test checks that the table in docs/guide/events.md is equal.
 */
export interface LockEventFields {
  /** This process gets the lock. */
  'lock.acquired': { readonly fence: bigint | undefined; readonly waitedMs: number }
  /** A caller begins to wait, because another owner holds the lock. */
  'lock.contended': object
  /** A caller has waited for `waitMs`. */
  'lock.timed-out': { readonly waitedMs: number }
  /** The lease ends before its holder has released the lock. */
  'lock.lost': { readonly fence: bigint | undefined; readonly heldMs: number }
  /** The holder releases the lock. */
  'lock.released': { readonly fence: bigint | undefined; readonly heldMs: number }
  /** The store does not reply, so a caller does not get the lock. */
  'lock.unavailable': { readonly error: unknown }
}

/** All event types. */
export const LOCK_EVENT_TYPES: ReadonlyArray<keyof LockEventFields> = [
  'lock.acquired',
  'lock.contended',
  'lock.timed-out',
  'lock.lost',
  'lock.released',
  'lock.unavailable',
]

type LockEventOfType<T extends keyof LockEventFields> = {
  readonly type: T
  readonly key: string
  /** Equal to `key`. Events of a Stampede have this field too. */
  readonly internalKey: string
} & LockEventFields[T]

/** An event of a lock. A quorum lock has no fence. All durations are in ms. */
export type LockEvent = { [T in keyof LockEventFields]: LockEventOfType<T> }[keyof LockEventFields]
export type LockEventType = LockEvent['type']
export type LockListener<T extends LockEventType> = (event: Extract<LockEvent, { type: T }>) => void

/** Counters since `createLocks` or `createQuorumLocks`, and current sizes. */
export interface LockStats {
  /** Calls that got the lock. Nested leases are not counted. */
  readonly acquired: number
  /** Calls that waited, because another owner held the lock. */
  readonly contended: number
  /** Calls that waited for `waitMs` without getting the lock. */
  readonly timedOut: number
  /** Calls whose `signal` was aborted, or that waited when the locks were closed. */
  readonly aborted: number
  /** Leases that ended before their holder released them. */
  readonly lost: number
  /** Leases that their holder released. */
  readonly released: number
  /** Calls that failed because the store did not reply, or no quorum was reached. */
  readonly unavailable: number
  /** Sum of the time that calls took to end, for those that waited. */
  readonly waitedMs: number
  /** Sum of the time that ended leases were held. */
  readonly heldMs: number
  /** Leases that this process holds now. */
  readonly held: number
  /** Calls of this process that wait now. */
  readonly waiting: number
}

export class LockMonitor {
  readonly events: EventHub<LockEvent> = new EventHub()
  readonly clock: Clock
  aborted = 0
  waiting = 0
  waitedMs = 0
  #heldMs = 0

  constructor(clock: Clock) {
    this.clock = clock
  }

  stats(held: number): LockStats {
    const { events, aborted, waiting, waitedMs } = this
    return {
      acquired: events.count('lock.acquired'),
      contended: events.count('lock.contended'),
      timedOut: events.count('lock.timed-out'),
      aborted,
      lost: events.count('lock.lost'),
      released: events.count('lock.released'),
      unavailable: events.count('lock.unavailable'),
      waitedMs,
      heldMs: this.#heldMs,
      held,
      waiting,
    }
  }

  /** A lease that began at `since` has ended. `fence`: empty for a quorum lock. */
  end(type: 'lock.lost' | 'lock.released', { key, fence }: Grant, since: number): void {
    const heldMs = this.clock.now() - since
    this.#heldMs += heldMs
    this.events.emit({ type, key, fence, heldMs }, key)
  }
}

type LockTrace = TracingContexts['stampede:lock']

/** The outcome of a call that rejects. */
const OUTCOMES: Partial<Record<LockError['code'], NonNullable<LockTrace['outcome']>>> = {
  ERR_LOCK_WAIT_TIMEOUT: 'timed-out',
  ERR_LOCK_UNAVAILABLE: 'unavailable',
  ERR_LOCK_ABORTED: 'aborted',
}

/** One call that acquires a lock: its events, counters and trace. */
export class Acquisition {
  readonly #monitor: LockMonitor
  readonly #key: string
  readonly #since: number
  #isWaiting = false
  #trace: LockTrace | undefined

  constructor(monitor: LockMonitor, key: string) {
    this.#monitor = monitor
    this.#key = key
    this.#since = monitor.clock.now()
  }

  /** Runs the call with its events and counters, and with a trace if it has a subscriber. */
  run(acquire: () => Promise<Lease | null>): Promise<Lease | null> {
    return lockTracing(this.#key, async (trace) => {
      this.#trace = trace
      try {
        const lease = await acquire()
        if (lease === null) this.#end('busy')
        else this.#end('acquired', lease.fence)
        return lease
      } catch (error) {
        this.#end(error instanceof LockError ? OUTCOMES[error.code] : undefined, 0n, error)
        throw error
      }
    })
  }

  /** The caller waits for another owner. Only the first call counts. */
  contended(): void {
    if (this.#isWaiting) return
    this.#isWaiting = true
    this.#monitor.waiting += 1
    if (this.#trace !== undefined) this.#trace.contended = true
    this.#monitor.events.emit({ type: 'lock.contended', key: this.#key }, this.#key)
  }

  /**
   * Ends the wait of the call, and reports its outcome. `fence` is 0 for a quorum lock, and without
   * a lease.
   */
  #end(outcome: LockTrace['outcome'], fence = 0n, error?: unknown): void {
    const monitor = this.#monitor
    const key = this.#key
    const waitedMs = this.#isWaiting ? monitor.clock.now() - this.#since : 0
    monitor.waiting -= Number(this.#isWaiting)
    monitor.waitedMs += waitedMs
    if (this.#trace !== undefined) {
      if (outcome !== undefined) this.#trace.outcome = outcome
      if (fence !== 0n) this.#trace.fence = fence
    }
    if (outcome === 'acquired') {
      const type = 'lock.acquired'
      monitor.events.emit({ type, key, fence: fence === 0n ? '' : String(fence), waitedMs }, key)
    } else if (outcome === 'timed-out') {
      monitor.events.emit({ type: 'lock.timed-out', key, waitedMs }, key)
    } else if (outcome === 'unavailable') {
      monitor.events.emit({ type: 'lock.unavailable', key, error }, key)
    } else if (outcome === 'aborted') {
      monitor.aborted += 1
    }
  }
}
