// One held lock. The holder decides by its own clock when the lease ends. The time counts from the
// moment before the holder sent the command. The holder needs no reply for that, so it stops in
// time even if Redis is frozen.

import { type Clock, LeaseKeeper } from '@stampede/core/store'
import { busy, type LockError, lost } from './errors.ts'
import { onAbort } from './on-abort.ts'

type Timer = ReturnType<Clock['setTimer']>

/**
 * Result of a release. `released`: the lock is free. `lost`: the lease had ended before. `unknown`:
 * the store did not reply, so the lock is free when the lease ends at the latest.
 */
export type Released = 'released' | 'lost' | 'unknown'

/** How a lease is renewed and released in its store. */
export interface LeaseBackend {
  readonly clock: Clock
  /**
   * Renews now. True: the lease lasts `leaseMs` again, counted from the moment before the command
   * was sent.
   */
  renew(): Promise<boolean>
  /** Releases the lock in the store. Never rejects. */
  release(): Promise<Released>
  /** Called when the lease has ended without a release. */
  onLost(): void
}

export interface Term {
  /**
   * Time on the clock of the process, just before it sent the command that granted or renewed the
   * lease.
   */
  readonly from: number
  readonly forMs: number
}

/** The signal aborts this long before the lease ends, so that the holder has time to stop. */
function noticeMs(forMs: number): number {
  return Math.min(50, forMs / 20)
}

/**
 * A held lock. `await using lease = await locks.acquire(key)` releases it at the end of the block.
 */
export class Lease implements AsyncDisposable {
  /** The key of the lock. */
  readonly key: string
  /**
   * Fencing token, greater than that of every earlier holder. Pass it to the database that you
   * write to.
   */
  readonly fence: bigint
  readonly #backend: LeaseBackend
  /** Created on the first read of `signal`: most critical sections never read it. */
  #abort: AbortController | undefined
  #whyLost: LockError | undefined
  readonly #nestedWaiters = new Set<() => void>()
  #term: Term
  #timer: Timer | undefined
  #state: 'held' | 'released' | 'lost' = 'held'
  #nested: Lease | undefined
  #released: Promise<Released> | undefined

  constructor(key: string, fence: bigint, term: Term, backend: LeaseBackend) {
    this.key = key
    this.fence = fence
    this.#term = term
    this.#backend = backend
    this.#watch()
  }

  /**
   * Aborts just before the lease ends, or when it is released or lost. The reason is a `LockError`.
   */
  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      this.#abort = new AbortController()
      if (this.#state !== 'held') this.#abort.abort(this.#whyEnded())
    }
    return this.#abort.signal
  }

  /** Whether the holder has released the lease. */
  get isReleased(): boolean {
    return this.#state === 'released'
  }

  /** Whether the lease has ended without a release. */
  get isLost(): boolean {
    return this.#state === 'lost'
  }

  /** Milliseconds until the lease ends without a renewal. 0 if it has ended. */
  remainingMs(): number {
    if (this.#state !== 'held') return 0
    const { from, forMs } = this.#term
    return Math.max(0, forMs - LeaseKeeper.driftMs(forMs) - (this.#backend.clock.now() - from))
  }

  /**
   * Throws `ERR_LOCK_LOST` unless the lease is held now. It reads the clock. So it throws even if
   * the event loop was blocked for longer than the lease, and no timer has run yet.
   */
  assertHeld(): void {
    if (this.remainingMs() > 0) return
    if (this.#state === 'held') this.#lose('its lease has ended')
    throw this.#whyEnded()
  }

  /** Renews the lease now, in addition to the automatic renewal. False: the lease is lost. */
  async renew(): Promise<boolean> {
    if (this.#state !== 'held' || !(await this.#backend.renew())) return false
    return this.#state === 'held'
  }

  /**
   * Releases the lock and ends its nested leases. Never rejects. A second call returns the result
   * of the first one.
   */
  async release(): Promise<'released' | 'lost' | 'unknown'> {
    this.#released ??= this.#releaseOnce()
    return this.#released
  }

  /**
   * A second lease of the same lock, for a function that needs a lease of its own while the caller
   * holds the lock. Throws `ERR_LOCK_BUSY` while another nested lease is open.
   */
  nest(): Lease {
    this.assertHeld()
    if (this.#nested !== undefined) throw busy(this.key)
    const { clock } = this.#backend
    const nested: Lease = new Lease(this.key, this.fence, this.#term, {
      clock,
      renew: () => this.renew(),
      release: async () => {
        this.#closeNested(nested)
        return 'released'
      },
      onLost: () => this.#closeNested(nested),
    })
    this.#nested = nested
    return nested
  }

  /**
   * Creates a nested lease as soon as the open one is released, for `acquire({ within })`. `limit`
   * calls `giveUp` to end the wait, and returns a function that prevents the call.
   */
  nestLater(limit: (giveUp: (error: LockError) => void) => () => void): Promise<Lease> {
    return new Promise((resolve, reject) => {
      const end = (settle: () => void) => {
        this.#nestedWaiters.delete(nest)
        for (const stop of stops) stop()
        settle()
      }
      const giveUp = (error: unknown) => end(() => reject(error))
      const nest = () => {
        try {
          const nested = this.nest()
          end(() => resolve(nested))
        } catch (error) {
          giveUp(error)
        }
      }
      const stops = [onAbort(this.signal, () => giveUp(this.signal.reason)), limit(giveUp)]
      this.#nestedWaiters.add(nest)
      if (this.#nested === undefined) nest()
    })
  }

  /** Releases the lock at the end of an `await using` block. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.release().then(() => undefined)
  }

  /** Called by the creator of the lease after a renewal. */
  extend(term: Term): void {
    if (this.#state !== 'held') return
    this.#term = term
    this.#watch()
    this.#nested?.extend(term)
  }

  /** Called by the creator of the lease if the store no longer has the lease. */
  revoke(why: string): void {
    if (this.#state === 'held') this.#lose(why)
  }

  async #releaseOnce(): Promise<Released> {
    if (this.#state === 'lost') {
      // If the record still has this lease, the store releases the lock. Otherwise the store does
      // nothing.
      void this.#backend.release()
      return 'lost'
    }
    this.#end('released')
    return this.#backend.release()
  }

  #watch(): void {
    this.#timer?.cancel()
    const inMs = this.remainingMs() - noticeMs(this.#term.forMs)
    this.#timer = this.#backend.clock.setTimer(inMs, () => {
      if (this.#state === 'held') this.#lose('its lease could not be renewed before it ended')
    })
  }

  #lose(why: string): void {
    this.#whyLost = lost(this.key, why)
    this.#end('lost')
    this.#backend.onLost()
  }

  #end(state: 'released' | 'lost'): void {
    this.#state = state
    this.#timer?.cancel()
    this.#nested?.revoke('the lease it is nested in has ended')
    this.#abort?.abort(this.#whyEnded())
  }

  #whyEnded(): LockError {
    return this.#whyLost ?? lost(this.key, 'it was released')
  }

  #closeNested(nested: Lease): void {
    if (this.#nested !== nested) return
    this.#nested = undefined
    const [next] = this.#nestedWaiters
    next?.()
  }
}
