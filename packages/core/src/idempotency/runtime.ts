// The state of idempotency keys in one process, shared by all its requests and jobs.

import type { Events } from '../events.ts'
import { Deadlines } from '../lease/deadlines.ts'
import { LeaseKeeper } from '../lease/lease-keeper.ts'
import type { Clock } from '../ports/clock.ts'
import type { IdempotencyStore, LocalIdempotency } from '../ports/idempotency-store.ts'
import { Attempts } from './attempts.ts'
import { Seal } from './kept-response.ts'
import { KeyedHash } from './keyed-hash.ts'

/** The checked option `idempotency` of `createStampede`. */
export interface IdempotencyConfig {
  readonly secret: string
  readonly encryptionKeys: readonly string[]
}

export interface IdempotencyRuntime {
  readonly store: IdempotencyStore
  /** Returns the store, if it is a memory store. Undefined for other stores. */
  readonly local: (() => LocalIdempotency | undefined) | undefined
  readonly clock: Clock
  readonly events: Events
  readonly keeper: LeaseKeeper
  /** Deadlines of leases and of replies from the store. */
  readonly deadlines: Deadlines
  readonly hashes: KeyedHash
  readonly seal: Seal
  readonly attempts: Attempts
  readonly waiters: Waiters
  closed: boolean
}

export function createIdempotencyRuntime(
  store: IdempotencyStore,
  config: IdempotencyConfig,
  { clock, events }: { clock: Clock; events: Events },
  local?: () => LocalIdempotency | undefined,
): IdempotencyRuntime {
  const deadlines = new Deadlines(clock)
  const waiters = new Waiters(clock)
  const isReceiving = (): boolean => store.isReceiving !== false
  const rt: IdempotencyRuntime = {
    store,
    local,
    clock,
    events,
    keeper: new LeaseKeeper(store, clock, deadlines),
    deadlines,
    hashes: new KeyedHash(config.secret),
    seal: new Seal(config.encryptionKeys),
    attempts: new Attempts({ clock, deadlines }, isReceiving, waiters),
    waiters,
    closed: false,
  }
  store.attach({
    clock,
    onWake: (key) => waiters.wake(key),
    onSettled: (key) => void onSettled(rt, key),
    onGap: () => {
      rt.attempts.forgetDone()
      rt.attempts.storeIsBack()
      waiters.wakeAll()
    },
    onBack: () => rt.attempts.storeIsBack(),
    onLost: () => waiters.wakeAll(),
    onError: (operation, error) => events.emit({ type: 'store.failed', key: '', operation, error }),
  })
  return rt
}

/**
 * Handles the message that an operator settled a record. Resolves when no attempt of this process
 * that began before that can still complete the record.
 */
export async function onSettled(rt: IdempotencyRuntime, key: string): Promise<void> {
  rt.attempts.settle(key)
  const retried = rt.attempts.retryNow()
  rt.waiters.wake(key)
  const known = rt.attempts.get(key)
  // Only the store knows whether the attempt began before the record was settled.
  await Promise.all([known?.type === 'running' && known.verify(), retried])
}

/** How long `close()` waits for running handlers. */
const DRAIN_MS = 2_000

/** Waits a short time for running attempts, and retries once to store responses not stored yet. */
export async function closeIdempotency(rt: IdempotencyRuntime): Promise<void> {
  rt.closed = true
  const deadline = rt.clock.now() + DRAIN_MS
  rt.attempts.retryNow()
  while (rt.attempts.isBusy && rt.clock.now() < deadline) {
    await new Promise<void>((resolve) => rt.clock.setTimer(10, resolve))
  }
  for (const running of rt.attempts.running()) running.abandon('the Stampede was closed')
  rt.keeper.stop()
  rt.attempts.stop()
  rt.deadlines.stop()
  rt.waiters.wakeAll()
  await rt.store.close()
}

// The requests and jobs of this process that wait for the end of an attempt. A wake-up only makes a
// waiter repeat its `begin` command, so lost or repeated wake-ups do no harm.

export interface Waiting {
  /**
   * Waits for a wake-up, but at most for `forMs`. If a wake-up came after `join` or after the last
   * `sleep`, this promise resolves at once.
   */
  sleep(forMs: number): Promise<void>
  leave(): void
}

export class Waiters {
  readonly #clock: Clock
  readonly #byKey = new Map<string, { readonly wakes: Set<() => void>; turn: number }>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /**
   * Adds a waiter. Called before the `begin` command is sent, so that no wake-up is missed.
   * Undefined if there are `max` waiters already.
   */
  join(key: string, max: number): Waiting | undefined {
    const all = this.#byKey.get(key) ?? { wakes: new Set(), turn: 0 }
    if (all.wakes.size >= max) return undefined
    let woken = false
    let endSleep: () => void = () => {}
    const wake = () => {
      woken = true
      endSleep()
    }
    all.wakes.add(wake)
    this.#byKey.set(key, all)
    return {
      sleep: async (forMs) => {
        if (!woken)
          await new Promise<void>((resolve) => {
            const timer = this.#clock.setTimer(forMs, resolve)
            endSleep = () => {
              timer.cancel()
              resolve()
            }
          })
        woken = false
      },
      leave: () => {
        all.wakes.delete(wake)
        if (all.wakes.size === 0) this.#byKey.delete(key)
      },
    }
  }

  /**
   * Number of wake-ups of a key. Equal requests share one pending `begin` command, but only if this
   * number is equal for both. The reply to an older command may be outdated.
   */
  turn(key: string): number {
    return this.#byKey.get(key)?.turn ?? 0
  }

  wake(key: string): void {
    const all = this.#byKey.get(key)
    if (all === undefined) return
    all.turn += 1
    for (const wake of [...all.wakes]) wake()
  }

  wakeAll(): void {
    for (const key of [...this.#byKey.keys()]) this.wake(key)
  }
}
