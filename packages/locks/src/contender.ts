// The contender: the waiters of this process for one lock, which share one position in the lock
// queue. A granted lock goes to the waiter that came first. If other waiters remain, the command
// that releases the lock also puts this process into the queue again.

import { type Clock, type Grant, LeaseKeeper, newToken } from '@stampede/core/store'
import { createLease, type LockContext, request, track } from './create-lease.ts'
import { unavailable } from './errors.ts'
import type { Lease, Released } from './lease.ts'
import type { Acquisition } from './lock-events.ts'
import { random } from './options.ts'

type Timer = ReturnType<Clock['setTimer']>

export interface Waiter {
  readonly leaseMs: number
  readonly call: Acquisition
  resolve(lease: Lease): void
  reject(error: unknown): void
  /** Ends the wait, on a timeout, an abort or a close. */
  abort(reason: unknown): void
}

/**
 * Longest random delay before the next request. Without it, all processes that wait for a dead
 * holder would send their requests in the same millisecond.
 */
const SPREAD_MS = 40
/**
 * Longest wait in the queue before the process sends its request again. The next holder may be a
 * process that died.
 */
const LOOK_AGAIN_MS = 2_500

export class Contender {
  readonly waiters: Set<Waiter> = new Set()
  readonly #context: LockContext
  readonly #key: string
  readonly #onIdle: () => void
  /**
   * `requesting`: a request is pending. `queued`: the process is in the lock queue. `holding`: it
   * has the lock, until the reply to the release.
   */
  #state: 'idle' | 'requesting' | 'queued' | 'holding' = 'idle'
  /**
   * Token of the pending or next request. A lock that this process holds (`#held`) has another
   * token.
   */
  #token: string | undefined
  /**
   * The lease that was requested with `#token`. A grant counts for at most this time, even if the
   * reply has a longer one.
   */
  #requestedMs = Number.POSITIVE_INFINITY
  #held: Grant | undefined
  #timer: Timer | undefined
  /** Whether messages may have been lost since the pending request was sent. */
  #outdated = false
  /** Grant message that arrived before the reply to its request. */
  #early: { readonly grant: Grant; readonly from: number; readonly forMs: number } | undefined

  /**
   * `onIdle` is called when no command is pending and no waiter is left, so that the owner can drop
   * the contender.
   */
  constructor(context: LockContext, key: string, onIdle: () => void) {
    this.#context = context
    this.#key = key
    this.#onIdle = onIdle
  }

  get isHolding(): boolean {
    return this.#state === 'holding'
  }

  /**
   * Adds a waiter. Requests the lock for it, unless a request is pending, or the process is queued
   * or holds the lock.
   */
  add(waiter: Waiter): void {
    const isFree = this.waiters.size === 0 && this.#state !== 'queued' && !this.isHolding
    this.waiters.add(waiter)
    // A request is pending, or sent next. Its reply says whether this waiter has to wait.
    if (!isFree) waiter.call.contended()
    if (this.#state === 'idle') void this.#request()
  }

  /** Requests the lock again, because messages may have been lost. */
  requestAgain(): void {
    if (this.#state === 'requesting') this.#outdated = true
    else if (this.#state === 'queued') void this.#request()
  }

  /** Handles a message of the store that this process has the lock. */
  receive(grant: Grant, forMs: number): void {
    if (grant.token === this.#held?.token) return
    const from = this.#context.clock.now()
    if (grant.token !== this.#token) this.#giveBack(grant)
    else if (this.#state === 'queued') this.#deliver(grant, from, forMs)
    else this.#early = { grant, from, forMs }
  }

  /** Removes the process from the queue if its last waiter has left. */
  leaveIfEmpty(): void {
    if (this.waiters.size > 0) return
    if (this.#state === 'queued') {
      this.#reset()
      void this.#context.store.leave(this.#key).catch(() => {})
    }
    if (this.#state === 'idle') this.#onIdle()
  }

  async #request(): Promise<void> {
    const [first] = this.waiters
    if (first === undefined) return this.leaveIfEmpty()
    this.#timer?.cancel()
    this.#state = 'requesting'
    this.#outdated = false
    const { leaseMs } = first
    const from = this.#context.clock.now()
    const terms = { token: this.#nextToken(), leaseMs, queue: true }
    this.#requestedMs = leaseMs
    try {
      const reply = await request(this.#context, this.#key, terms)
      if (reply.status === 'granted') this.#deliver(reply.grant, from, reply.forMs)
      else this.#waitInQueue(reply.forMs)
    } catch (error) {
      // The store may have queued or granted this request although no reply came. The next request
      // uses a new token.
      this.#reset()
      const failure = unavailable(this.#key, error)
      const waiters = [...this.waiters]
      this.waiters.clear()
      for (const waiter of waiters) waiter.reject(failure)
      this.leaveIfEmpty()
    }
  }

  /**
   * Gives the lock to the first waiter. If there is no waiter, or the lease has already ended, the
   * lock goes back to the store.
   */
  #deliver(grant: Grant, from: number, grantedMs: number): void {
    // A server whose clock was set back may reply with a longer time.
    const forMs = Math.min(grantedMs, this.#requestedMs)
    this.#timer?.cancel()
    this.#early = undefined
    this.#token = undefined
    const [waiter] = this.waiters
    const isOver = this.#context.clock.now() - from >= forMs - LeaseKeeper.driftMs(forMs)
    if (waiter === undefined || isOver) {
      this.#state = 'idle'
      this.#giveBack(grant)
      void this.#request()
      return
    }
    this.waiters.delete(waiter)
    this.#state = 'holding'
    this.#held = grant
    const on = { release: () => this.#release(grant), onLost: () => this.#endTurn(grant) }
    waiter.resolve(createLease(this.#context, grant, { from, forMs }, waiter.leaseMs, on))
  }

  async #release(grant: Grant): Promise<Released> {
    const { store, clock } = this.#context
    const [first] = this.waiters
    // If this lease was lost, the process may already hold a newer lease. Then the release of the
    // newer lease puts the process into the queue.
    const isCurrent = this.#held === grant && first !== undefined
    const next = isCurrent ? { token: this.#nextToken(), leaseMs: first.leaseMs } : undefined
    if (next !== undefined) this.#requestedMs = next.leaseMs
    const from = clock.now()
    try {
      const { status, granted, busyForMs = next?.leaseMs ?? 0 } = await store.release(grant, next)
      if (this.#held !== grant) {
        if (granted !== undefined) this.receive(granted.grant, granted.forMs)
        return status
      }
      if (next === undefined || (granted === undefined && status === 'lost')) {
        this.#endTurn(grant)
        return status
      }
      this.#held = undefined
      if (granted !== undefined) this.#deliver(granted.grant, from, granted.forMs)
      else this.#waitInQueue(busyForMs)
      return status
    } catch {
      if (this.#held === grant && next !== undefined) {
        // The release may have run. Then the store has queued or granted the new token.
        this.#held = undefined
        this.#state = 'queued'
        void this.#request()
      } else {
        this.#endTurn(grant)
      }
      return 'unknown'
    }
  }

  /**
   * Drops a grant that was released or lost. This process is not in the queue, so it sends a new
   * request.
   */
  #endTurn(grant: Grant): void {
    if (this.#held !== grant) return
    this.#held = undefined
    this.#reset()
    void this.#request()
  }

  /** Waits in the queue. If the holder is dead, its lease ends after `forMs`. */
  #waitInQueue(forMs: number): void {
    this.#state = 'queued'
    const [first] = this.waiters
    const early = this.#early
    if (early === undefined) first?.call.contended()
    if (early !== undefined) {
      this.#deliver(early.grant, early.from, early.forMs)
    } else if (this.waiters.size === 0) {
      this.leaveIfEmpty()
    } else if (this.#outdated) {
      void this.#request()
    } else {
      const { clock } = this.#context
      const untilMs = Math.min(forMs, LOOK_AGAIN_MS) + 5 + random(clock) * SPREAD_MS
      this.#timer = clock.setTimer(untilMs, () => void this.#request())
    }
  }

  #nextToken(): string {
    this.#token ??= newToken()
    return this.#token
  }

  #reset(): void {
    this.#timer?.cancel()
    if (this.#early !== undefined) this.#giveBack(this.#early.grant)
    this.#early = undefined
    this.#state = 'idle'
    this.#token = undefined
  }

  #giveBack(grant: Grant): void {
    track(this.#context, this.#context.store.release(grant)).catch(() => {})
  }
}
