// createLocks: distributed locks for jobs, workers and critical sections. A call either joins the
// queue of its key (contender.ts), or tries again after a pause: with `wait: 'poll'`, and on a
// quorum.

import { type Clock, LeaseKeeper, newToken, optionError } from '@stampede/core/store'
import { backoffMs } from './backoff.ts'
import { Contender, type Waiter } from './contender.ts'
import { createLease, type LockContext, request, track } from './create-lease.ts'
import { aborted, busy, LockError, lost, unavailable, waitTimeout } from './errors.ts'
import type { Lease } from './lease.ts'
import {
  Acquisition,
  LOCK_EVENT_TYPES,
  type LockEvent,
  type LockEventType,
  type LockListener,
  LockMonitor,
  type LockStats,
} from './lock-events.ts'
import { onAbort } from './on-abort.ts'
import {
  type AcquireOptions,
  type AcquirePlan,
  type LocksConfig,
  type LocksOptions,
  random,
  readAcquireOptions,
  readLocksOptions,
} from './options.ts'

/** Options of `acquire` for a lease of this type. A quorum lease cannot be nested. */
type OptionsOf<L> = L extends Lease ? AcquireOptions : Omit<AcquireOptions, 'within'>

/** The methods of locks, from `createLocks`. `L` is the type of a lease. */
export interface Locks<L = Lease> {
  /**
   * Waits for the lock. Rejects with a `LockError`: `ERR_LOCK_BUSY` (only with `waitMs: 0`),
   * `ERR_LOCK_WAIT_TIMEOUT`, `ERR_LOCK_ABORTED`, `ERR_LOCK_UNAVAILABLE`.
   */
  acquire(key: string, options?: OptionsOf<L>): Promise<L>
  /**
   * Never waits. Resolves to null if another owner holds the lock. Rejects with
   * `ERR_LOCK_UNAVAILABLE` if the store does not reply. On a quorum: null if other owners hold too
   * many nodes for a majority, and an error if too many nodes do not reply.
   */
  tryAcquire(key: string, options?: { leaseMs?: number | undefined }): Promise<L | null>
  /**
   * Runs `fn` with the lock, and releases it afterwards. Rejects with the error that `fn` throws.
   * If `fn` returns after its lease has ended, rejects with `ERR_LOCK_LOST`. The error has the
   * returned value as `result`.
   */
  run<T>(key: string, fn: (lease: L) => T | Promise<T>): Promise<T>
  run<T>(key: string, options: OptionsOf<L>, fn: (lease: L) => T | Promise<T>): Promise<T>
  /** Counters and current sizes. */
  stats(): LockStats
  /**
   * Calls `listener` for each event of a type, or for all events with `*`. Returns a function that
   * removes the listener. Throws `ERR_STAMPEDE_OPTION` for an unknown type.
   */
  on<T extends LockEventType>(type: T, listener: LockListener<T>): () => void
  on(type: '*', listener: (event: LockEvent) => void): () => void
  /** Rejects all waiters, releases all leases, and closes connections that nothing else uses. */
  close(): Promise<void>
}

/**
 * Creates locks in a store: one holder at a time for each key in the fleet. Throws
 * `ERR_STAMPEDE_OPTION` if an option is unknown or has an invalid value.
 */
export function createLocks(options: LocksOptions): Locks {
  return new LockTable(readLocksOptions(options), (lease) => lease)
}

const CLOSED = new Error('the locks were closed')
/**
 * Longest pause before a quorum lock is tried again. Each pause is random, because contenders that
 * each hold some nodes would otherwise collide again.
 */
const LONGEST_QUORUM_PAUSE_MS = 200
const RETURNED_LATE = 'the function returned after its lease had ended'

/** The locks of one store. `given` is the lease as the callers get it. */
export class LockTable<L> {
  readonly #given: (lease: Lease) => L
  readonly #context: LockContext
  readonly #contenders = new Map<string, Contender>()
  #closing: Promise<void> | undefined

  constructor(config: LocksConfig, given: (lease: Lease) => L) {
    const { store, clock } = config
    this.#given = given
    this.#context = {
      ...config,
      keeper: new LeaseKeeper(store, clock),
      held: new Set(),
      pending: new Set(),
      monitor: new LockMonitor(clock),
    }
    const askAll = () => {
      for (const contender of this.#contenders.values()) contender.requestAgain()
    }
    store.attach({
      clock,
      onGrant: (grant, forMs) => {
        const contender = this.#contenders.get(grant.key)
        // No waiter is left in this process. Releasing the lock grants it to the next process.
        if (contender === undefined) void store.release(grant).catch(() => {})
        else contender.receive(grant, forMs)
      },
      onGap: askAll,
      onLost: askAll,
      onError: () => {},
    })
  }

  async acquire(key: string, options?: AcquireOptions): Promise<L> {
    return this.#given(await this.#lease(key, options))
  }

  async #lease(key: string, options: AcquireOptions | undefined): Promise<Lease> {
    const plan = readAcquireOptions('acquire', key, options, this.#context)
    if (plan.within !== undefined) return this.#nest(key, plan.within, plan)
    const lease = await this.#acquire(key, plan)
    if (lease === null) throw busy(key)
    return lease
  }

  async tryAcquire(key: string, options?: { leaseMs?: number | undefined }): Promise<L | null> {
    const plan = readAcquireOptions('tryAcquire', key, options, this.#context)
    const lease = await this.#acquire(key, plan)
    return lease && this.#given(lease)
  }

  async run<T>(
    key: string,
    optionsOrFn: AcquireOptions | ((lease: L) => T | Promise<T>),
    maybeFn?: (lease: L) => T | Promise<T>,
  ): Promise<T> {
    const fn = maybeFn ?? optionsOrFn
    if (typeof fn !== 'function') throw optionError('run: fn', fn, 'pass the function to run')
    const options = maybeFn === undefined ? undefined : (optionsOrFn as AcquireOptions)
    const lease = await this.#lease(key, options)
    try {
      const result = await fn(this.#given(lease))
      if (lease.isLost || (!lease.isReleased && lease.remainingMs() === 0))
        throw Object.assign(lost(key, RETURNED_LATE), { result })
      return result
    } finally {
      await lease.release()
    }
  }

  stats(): LockStats {
    return this.#context.monitor.stats(this.#context.held.size)
  }

  on(type: string, listener: (event: never) => void): () => void {
    return this.#context.monitor.events.onChecked(LOCK_EVENT_TYPES, type, listener)
  }

  async close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<void> {
    for (const contender of [...this.#contenders.values()]) {
      for (const waiter of [...contender.waiters]) waiter.abort(CLOSED)
    }
    // Pending requests may still be granted. Each such lease is released below.
    const { pending } = this.#context
    while (pending.size > 0) await Promise.allSettled(pending)
    await Promise.all([...this.#context.held].map((lease) => lease.release()))
    this.#context.keeper.stop()
    await this.#context.store.close()
  }

  /** Null: the lock is busy, and the caller does not wait. */
  #acquire(key: string, plan: AcquirePlan): Promise<Lease | null> {
    const { signal, waitMs, leaseMs } = plan
    const call = new Acquisition(this.#context.monitor, key)
    return call.run(async () => {
      if (signal?.aborted) throw aborted(key, signal.reason)
      if (waitMs === 0) return this.#tryOnce(key, leaseMs)
      if (this.#context.wait === 'push') return this.#queue(key, plan, call)
      return this.#poll(key, plan, call)
    })
  }

  /** Waits in the lock queue. Waiters of this process are served in order of arrival. */
  #queue(key: string, plan: AcquirePlan, call: Acquisition): Promise<Lease> {
    this.#assertOpen(key)
    const { clock } = this.#context
    const contender = this.#contender(key)
    return new Promise((resolve, reject) => {
      const giveUp = (error: LockError) => {
        contender.waiters.delete(waiter)
        waiter.reject(error)
        contender.leaveIfEmpty()
      }
      const stop = limitWait(clock, key, plan, giveUp)
      const waiter: Waiter = {
        leaseMs: plan.leaseMs,
        call,
        resolve(lease) {
          stop()
          resolve(lease)
        },
        reject(error) {
          stop()
          reject(error)
        },
        abort: (reason) => giveUp(aborted(key, reason)),
      }
      contender.add(waiter)
    })
  }

  /** Waits by polling. A quorum may be reached later, when its nodes reply again. */
  async #poll(
    key: string,
    { leaseMs, waitMs, signal }: AcquirePlan,
    call: Acquisition,
  ): Promise<Lease> {
    const { clock, wait } = this.#context
    const startedAt = clock.now()
    for (let attempt = 0; ; attempt++) {
      let lease: Lease | null = null
      let failure: unknown
      try {
        lease = await this.#tryOnce(key, leaseMs)
      } catch (error) {
        if (wait === 'poll' || this.#closing !== undefined) throw error
        failure = error
      }
      if (signal?.aborted) {
        await lease?.release()
        throw aborted(key, signal.reason)
      }
      if (lease !== null) return lease
      const leftMs = waitMs - (clock.now() - startedAt)
      if (leftMs <= 0) throw failure ?? waitTimeout(key, waitMs)
      if (failure === undefined) call.contended()
      const part = random(clock)
      const pauseMs = wait === 'poll' ? backoffMs(attempt, part) : part * LONGEST_QUORUM_PAUSE_MS
      await sleep(clock, Math.min(leftMs, pauseMs), signal)
    }
  }

  async #tryOnce(key: string, leaseMs: number): Promise<Lease | null> {
    this.#assertOpen(key)
    const contender = this.#contenders.get(key)
    // Returns null without a command if a waiter of this process comes first, or if this process
    // holds the lock.
    if (contender !== undefined && (contender.isHolding || contender.waiters.size > 0)) return null
    const { store, clock } = this.#context
    const from = clock.now()
    try {
      const terms = { token: newToken(), leaseMs, queue: false }
      const reply = await request(this.#context, key, terms)
      if (reply.status === 'busy') return null
      if (this.#closing !== undefined) {
        await track(this.#context, store.release(reply.grant))
        throw aborted(key, CLOSED)
      }
      const { grant, forMs } = reply
      const release = () =>
        store.release(grant).then(
          ({ status }) => status,
          () => 'unknown' as const,
        )
      // Some nodes of a quorum may still have a lease that was lost.
      const onLost = () => void (this.#context.wait === 'quorum' && release())
      return createLease(this.#context, grant, { from, forMs }, leaseMs, { release, onLost })
    } catch (error) {
      if (error instanceof LockError) throw error
      throw unavailable(key, error)
    }
  }

  /** Waits for the release of other nested leases, at most `waitMs`. */
  async #nest(key: string, within: Lease, plan: AcquirePlan): Promise<Lease> {
    if (plan.signal?.aborted) throw aborted(key, plan.signal.reason)
    if (within.key !== key) {
      const fix = `pass a lease of ${key}; this one is of another key`
      throw optionError('acquire.within', within.key, fix)
    }
    if (plan.waitMs === 0) return within.nest()
    return within.nestLater((giveUp) => limitWait(this.#context.clock, key, plan, giveUp))
  }

  #contender(key: string): Contender {
    const present = this.#contenders.get(key)
    if (present !== undefined) return present
    const contender = new Contender(this.#context, key, () => this.#contenders.delete(key))
    this.#contenders.set(key, contender)
    return contender
  }

  #assertOpen(key: string): void {
    if (this.#closing !== undefined) throw aborted(key, CLOSED)
  }
}

/** Calls `giveUp` when the signal aborts, or after `waitMs`. Returns a function that stops both. */
function limitWait(
  clock: Clock,
  key: string,
  { waitMs, signal }: AcquirePlan,
  giveUp: (error: LockError) => void,
): () => void {
  return endWait(clock, waitMs, signal, (isAborted) =>
    giveUp(isAborted ? aborted(key, signal?.reason) : waitTimeout(key, waitMs)),
  )
}

/** A pause that the signal ends early, without an error. */
function sleep(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const stop = endWait(clock, ms, signal, () => {
      stop()
      resolve()
    })
  })
}

function endWait(
  clock: Clock,
  ms: number,
  signal: AbortSignal | undefined,
  end: (isAborted: boolean) => void,
): () => void {
  const stop = onAbort(signal, () => end(true))
  const timer = Number.isFinite(ms) ? clock.setTimer(ms, () => end(false)) : undefined
  return () => {
    timer?.cancel()
    stop()
  }
}
