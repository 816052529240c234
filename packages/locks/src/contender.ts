// This process's part in the competition for one key: everybody here who waits, and at most one entry in the
// store's queue for all of them. A lock that comes is given to whoever has waited longest; when it is released
// and others wait here, the same command that frees it queues the process again.

import type { Grant, Timer } from '@stampede/core'
import { type Bench, createLease, track } from './create-lease.ts'
import { unavailable } from './errors.ts'
import { driftMs, type Lease, type Released } from './lease.ts'
import { elapsedMs, type Instant, now } from './stopwatch.ts'
import { newToken } from './token.ts'

export interface Waiter {
  readonly leaseMs: number
  resolve(lease: Lease): void
  reject(error: unknown): void
  /** Ends the wait for a reason of ours. */
  abort(reason: unknown): void
}

/** Processes that wait for the same dead holder would all ask in the same millisecond without it. */
const SPREAD_MS = 40
/** The lock may have been handed to a process that died since; by now its claim is over. */
const LOOK_AGAIN_MS = 2_500

export class Contender {
  readonly waiters: Set<Waiter> = new Set()
  readonly #bench: Bench
  readonly #key: string
  readonly #onIdle: () => void
  /** `holding` includes the time a release takes. */
  #state: 'idle' | 'asking' | 'queued' | 'holding' = 'idle'
  /** Names this process's next turn; the turn it has now is named in `#held`. */
  #token = newToken()
  /** For how long it asked under that name: nobody is given more. */
  #askedMs = Number.POSITIVE_INFINITY
  #held: Grant | undefined
  #timer: Timer | undefined
  /** The answer that is under way may describe the past. */
  #outdated = false
  /** A turn that was announced before the answer it belongs to. */
  #early: { readonly grant: Grant; readonly from: Instant; readonly forMs: number } | undefined

  /** `onIdle`: nothing is under way, and nobody waits; whoever comes next may start afresh. */
  constructor(bench: Bench, key: string, onIdle: () => void) {
    this.#bench = bench
    this.#key = key
    this.#onIdle = onIdle
  }

  get isHolding(): boolean {
    return this.#state === 'holding'
  }

  /** Somebody came to wait: asks the store, unless that is under way, or this process is in the queue already. */
  pump(): void {
    if (this.#state === 'idle') void this.#ask()
  }

  /** Messages may have been missed, or none come at all. */
  askAgain(): void {
    if (this.#state === 'asking') this.#outdated = true
    else if (this.#state === 'queued') void this.#ask()
  }

  /** The store handed the lock to this process. */
  receive(grant: Grant, forMs: number): void {
    if (grant.token === this.#held?.token) return
    const from = now(this.#bench.clock)
    if (grant.token !== this.#token) this.#passOn(grant)
    else if (this.#state === 'queued') this.#give(grant, from, forMs)
    else this.#early = { grant, from, forMs }
  }

  /** A waiter went away; if it was the last, the queue is left. */
  leaveIfAlone(): void {
    if (this.waiters.size > 0) return
    if (this.#state === 'queued') {
      this.#forget()
      void this.#bench.store.leave(this.#key).catch(() => {})
    }
    if (this.#state === 'idle') this.#onIdle()
  }

  async #ask(): Promise<void> {
    const [first] = this.waiters
    if (first === undefined) return this.leaveIfAlone()
    this.#timer?.cancel()
    this.#state = 'asking'
    this.#outdated = false
    const { store, clock } = this.#bench
    const from = now(clock)
    const request = { token: this.#token, leaseMs: first.leaseMs, queue: true }
    this.#askedMs = first.leaseMs
    try {
      const reply = await track(this.#bench, store.acquire(this.#key, request))
      if (reply.status === 'granted') this.#give(reply.grant, from, reply.forMs)
      else this.#waitTurn(reply.forMs)
    } catch (error) {
      // The store may have queued us, or given us the lock, without our hearing of it: a new name then.
      this.#forget()
      const failure = unavailable(this.#bench.nameOf(this.#key), error)
      const waiters = [...this.waiters]
      this.waiters.clear()
      for (const waiter of waiters) waiter.reject(failure)
      this.leaveIfAlone()
    }
  }

  /** Gives the lock to who has waited longest here; with nobody left, or too late, back to the store. */
  #give(grant: Grant, from: Instant, givenMs: number): void {
    // A server whose clock was set may say more.
    const forMs = Math.min(givenMs, this.#askedMs)
    this.#timer?.cancel()
    this.#early = undefined
    this.#token = newToken()
    const [waiter] = this.waiters
    const isOver = elapsedMs(this.#bench.clock, from) >= forMs - driftMs(forMs)
    if (waiter === undefined || isOver) {
      this.#state = 'idle'
      this.#passOn(grant)
      void this.#ask()
      return
    }
    this.waiters.delete(waiter)
    this.#state = 'holding'
    this.#held = grant
    const on = { release: () => this.#release(grant), onLost: () => this.#after(grant) }
    waiter.resolve(createLease(this.#bench, grant, { from, forMs }, waiter.leaseMs, on))
  }

  async #release(grant: Grant): Promise<Released> {
    const { store, clock } = this.#bench
    const [first] = this.waiters
    // Of a lease that was lost, a newer one of this process may have begun: that one queues for us.
    const isCurrent = this.#held === grant && first !== undefined
    const next = isCurrent ? { token: this.#token, leaseMs: first.leaseMs } : undefined
    if (next !== undefined) this.#askedMs = next.leaseMs
    const from = now(clock)
    try {
      const { status, granted, busyForMs = next?.leaseMs ?? 0 } = await store.release(grant, next)
      if (this.#held !== grant) {
        if (granted !== undefined) this.receive(granted.grant, granted.forMs)
        return status
      }
      if (next === undefined || (granted === undefined && status === 'lost')) {
        this.#after(grant)
        return status
      }
      this.#held = undefined
      if (granted !== undefined) this.#give(granted.grant, from, granted.forMs)
      else this.#waitTurn(busyForMs)
      return status
    } catch {
      if (this.#held === grant && next !== undefined) {
        // It may be done all the same: then we are in the queue, or have the lock again, under that name.
        this.#held = undefined
        this.#state = 'queued'
        void this.#ask()
      } else {
        this.#after(grant)
      }
      return 'unknown'
    }
  }

  /** The turn of `grant` is over, and the store did not queue us for the next. */
  #after(grant: Grant): void {
    if (this.#held !== grant) return
    this.#held = undefined
    this.#forget()
    void this.#ask()
  }

  /** In the queue now; if the holder dies without a word, its lease ends by then. */
  #waitTurn(forMs: number): void {
    this.#state = 'queued'
    const early = this.#early
    if (early !== undefined) {
      this.#give(early.grant, early.from, early.forMs)
    } else if (this.waiters.size === 0) {
      this.leaveIfAlone()
    } else if (this.#outdated) {
      void this.#ask()
    } else {
      const { clock, random } = this.#bench
      const untilMs = Math.min(forMs, LOOK_AGAIN_MS) + 5 + random() * SPREAD_MS
      this.#timer = clock.setTimer(untilMs, () => void this.#ask())
    }
  }

  #forget(): void {
    this.#timer?.cancel()
    if (this.#early !== undefined) this.#passOn(this.#early.grant)
    this.#early = undefined
    this.#state = 'idle'
    this.#token = newToken()
  }

  #passOn(grant: Grant): void {
    track(this.#bench, this.#bench.store.release(grant)).catch(() => {})
  }
}
