// This process's waiters for one lock, and at most one place in the store's queue for all of them.
// A lock that is granted goes to the waiter that came first. If others still wait here, the release
// also queues the process again.

import { driftMs, type Grant, newToken, type Timer } from '@stampede/core/store'
import { createLease, type LockContext, track } from './create-lease.ts'
import { unavailable } from './errors.ts'
import type { Lease, Released } from './lease.ts'

export interface Waiter {
  readonly leaseMs: number
  resolve(lease: Lease): void
  reject(error: unknown): void
  /** Ends the wait, on a timeout, an abort or a close. */
  abort(reason: unknown): void
}

/**
 * Random delay, so that processes waiting for the same dead holder do not all ask in one
 * millisecond.
 */
const SPREAD_MS = 40
/** The lock may have been granted to a process that died since. After this its claim is over. */
const LOOK_AGAIN_MS = 2_500

export class Contender {
  readonly waiters: Set<Waiter> = new Set()
  readonly #context: LockContext
  readonly #key: string
  readonly #onIdle: () => void
  /** `holding` includes the time a release takes. */
  #state: 'idle' | 'asking' | 'queued' | 'holding' = 'idle'
  /** Token of this process's next turn, once it is named. The present turn has the token in `#held`. */
  #token: string | undefined
  /** The lease it asked for with that token: it is never given more. */
  #askedMs = Number.POSITIVE_INFINITY
  #held: Grant | undefined
  #timer: Timer | undefined
  /** The reply that is under way may be outdated. */
  #outdated = false
  /** A grant message that came before the reply to the acquire. */
  #early: { readonly grant: Grant; readonly from: number; readonly forMs: number } | undefined

  /**
   * `onIdle`: no command is under way and there are no waiters, so this contender can be dropped.
   */
  constructor(context: LockContext, key: string, onIdle: () => void) {
    this.#context = context
    this.#key = key
    this.#onIdle = onIdle
  }

  get isHolding(): boolean {
    return this.#state === 'holding'
  }

  /** A waiter came: asks the store, unless a command is under way or the process is queued. */
  pump(): void {
    if (this.#state === 'idle') void this.#ask()
  }

  /** Asks again, because messages may have been missed. */
  askAgain(): void {
    if (this.#state === 'asking') this.#outdated = true
    else if (this.#state === 'queued') void this.#ask()
  }

  /** The store granted the lock to this process. */
  receive(grant: Grant, forMs: number): void {
    if (grant.token === this.#held?.token) return
    const from = this.#context.clock.now()
    if (grant.token !== this.#token) this.#passOn(grant)
    else if (this.#state === 'queued') this.#give(grant, from, forMs)
    else this.#early = { grant, from, forMs }
  }

  /** A waiter left. The last one takes the process out of the queue. */
  leaveIfAlone(): void {
    if (this.waiters.size > 0) return
    if (this.#state === 'queued') {
      this.#forget()
      void this.#context.store.leave(this.#key).catch(() => {})
    }
    if (this.#state === 'idle') this.#onIdle()
  }

  async #ask(): Promise<void> {
    const [first] = this.waiters
    if (first === undefined) return this.leaveIfAlone()
    this.#timer?.cancel()
    this.#state = 'asking'
    this.#outdated = false
    const { store, clock } = this.#context
    const from = clock.now()
    const request = { token: this.#nextToken(), leaseMs: first.leaseMs, queue: true }
    this.#askedMs = first.leaseMs
    try {
      const reply = await track(this.#context, store.acquire(this.#key, request))
      if (reply.status === 'granted') this.#give(reply.grant, from, reply.forMs)
      else this.#waitTurn(reply.forMs)
    } catch (error) {
      // The store may have queued us or granted the lock without our hearing of it, so a new token
      // is used.
      this.#forget()
      const failure = unavailable(this.#context.nameOf(this.#key), error)
      const waiters = [...this.waiters]
      this.waiters.clear()
      for (const waiter of waiters) waiter.reject(failure)
      this.leaveIfAlone()
    }
  }

  /**
   * Gives the lock to the first waiter. Without a waiter, or too late, gives it back to the store.
   */
  #give(grant: Grant, from: number, givenMs: number): void {
    // A server whose clock was set may reply with more.
    const forMs = Math.min(givenMs, this.#askedMs)
    this.#timer?.cancel()
    this.#early = undefined
    this.#token = undefined
    const [waiter] = this.waiters
    const isOver = this.#context.clock.now() - from >= forMs - driftMs(forMs)
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
    waiter.resolve(createLease(this.#context, grant, { from, forMs }, waiter.leaseMs, on))
  }

  async #release(grant: Grant): Promise<Released> {
    const { store, clock } = this.#context
    const [first] = this.waiters
    // After a lost lease, this process may already have a newer one. That one queues the process.
    const isCurrent = this.#held === grant && first !== undefined
    const next = isCurrent ? { token: this.#nextToken(), leaseMs: first.leaseMs } : undefined
    if (next !== undefined) this.#askedMs = next.leaseMs
    const from = clock.now()
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
        // The release may have run. Then we are queued, or hold the lock again, under that token.
        this.#held = undefined
        this.#state = 'queued'
        void this.#ask()
      } else {
        this.#after(grant)
      }
      return 'unknown'
    }
  }

  /** The turn of `grant` is over, and the process is not queued. */
  #after(grant: Grant): void {
    if (this.#held !== grant) return
    this.#held = undefined
    this.#forget()
    void this.#ask()
  }

  /** The process is queued. If the holder dies, its lease ends by `forMs`. */
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
      const { clock, random } = this.#context
      const untilMs = Math.min(forMs, LOOK_AGAIN_MS) + 5 + random() * SPREAD_MS
      this.#timer = clock.setTimer(untilMs, () => void this.#ask())
    }
  }

  #nextToken(): string {
    this.#token ??= newToken()
    return this.#token
  }

  #forget(): void {
    this.#timer?.cancel()
    if (this.#early !== undefined) this.#passOn(this.#early.grant)
    this.#early = undefined
    this.#state = 'idle'
    this.#token = undefined
  }

  #passOn(grant: Grant): void {
    track(this.#context, this.#context.store.release(grant)).catch(() => {})
  }
}
