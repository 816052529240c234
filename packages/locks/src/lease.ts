// One held lock. Its end is decided by this process's own clock, from before the command was sent: no reply
// is needed to know that a lease is over, so a frozen Redis cannot keep a holder in the dark.

import { type Clock, driftMs, type Timer } from '@stampede/core/store'
import { busy, type LockError, lost } from './errors.ts'
import { onAbort } from './on-abort.ts'

export type Released = 'released' | 'lost' | 'unknown'

/** What a lease needs from its creator: renewal and release in the store. */
export interface LeaseBackend {
  readonly clock: Clock
  /** One renewal now; true: extended by `leaseMs` from before it was sent. */
  renew(): Promise<boolean>
  /** Tells the store; never rejects. */
  release(): Promise<Released>
  /** The lease ended without a release. */
  onLost(): void
}

export interface Term {
  /** When, by the process's clock, just before the command that began or extended it was sent. */
  readonly from: number
  readonly forMs: number
}

/** The signal comes this much before the end, so that there is time to stop. */
function noticeMs(forMs: number): number {
  return Math.min(50, forMs / 20)
}

/** A held lock. `await using lease = await locks.acquire(key)` releases it at the end of the block. */
export class Lease implements AsyncDisposable {
  readonly key: string
  /** Fencing token: greater than that of every earlier holder. Hand it to what you write to. */
  readonly fence: bigint
  readonly #backend: LeaseBackend
  /** Made when somebody asks for the signal: most critical sections are over before they would. */
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

  /** Aborted when the lease is about to end, has ended, or was lost; its reason is a `LockError`. */
  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      this.#abort = new AbortController()
      if (this.#state !== 'held') this.#abort.abort(this.#whyEnded())
    }
    return this.#abort.signal
  }

  get isReleased(): boolean {
    return this.#state === 'released'
  }

  /** The lease ended without a release. */
  get isLost(): boolean {
    return this.#state === 'lost'
  }

  /** Milliseconds until the lease ends if it is not renewed; 0 when it is over. */
  remainingMs(): number {
    if (this.#state !== 'held') return 0
    const { from, forMs } = this.#term
    return Math.max(0, forMs - driftMs(forMs) - (this.#backend.clock.now() - from))
  }

  /**
   * Throws `ERR_LOCK_LOST` unless the lease is held at this very moment. Synchronous, so that it is right
   * even after the event loop was blocked for longer than the lease, before any timer had a chance to run.
   */
  assertHeld(): void {
    if (this.remainingMs() > 0) return
    if (this.#state === 'held') this.#lose('the lease is over')
    throw this.#whyEnded()
  }

  /** Extends the lease now, beyond the renewal that goes on by itself. False: it is lost. */
  async renew(): Promise<boolean> {
    if (this.#state !== 'held' || !(await this.#backend.renew())) return false
    return this.#state === 'held'
  }

  /** Frees the lock. Never rejects; called again it answers the same. Nested leases end with it. */
  async release(): Promise<Released> {
    this.#released ??= this.#releaseOnce()
    return this.#released
  }

  /**
   * Re-entry, said aloud: the same lock once more, for a function called with this lease. Throws
   * `ERR_LOCK_BUSY` while another nested lease is open: siblings exclude each other.
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
   * For `acquire({ within })`: `nest()` as soon as the nested lease that is open is released. `limit`
   * is given what ends the wait, and returns how to stop.
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

  [Symbol.asyncDispose](): Promise<void> {
    return this.release().then(() => undefined)
  }

  /** For whoever made the lease: it was extended. */
  extend(term: Term): void {
    if (this.#state !== 'held') return
    this.#term = term
    this.#watch()
    this.#nested?.extend(term)
  }

  /** For whoever made the lease: the store said that it is not ours. */
  revoke(why: string): void {
    if (this.#state === 'held') this.#lose(why)
  }

  async #releaseOnce(): Promise<Released> {
    if (this.#state === 'lost') {
      // It may be free, ours still, or another's: the store is told, and knows.
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
      if (this.#state === 'held') this.#lose('it could not be renewed before its lease ended')
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
