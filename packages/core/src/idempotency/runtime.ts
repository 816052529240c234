// The state of idempotency keys in one process, shared by all its requests and jobs.

import type { Events } from '../events.ts'
import { Deadlines } from '../lease/deadlines.ts'
import { LeaseKeeper } from '../lease/lease-keeper.ts'
import type { Clock } from '../ports/clock.ts'
import type { IdempotencyStore, LazyIdempotencyStore } from '../ports/idempotency-store.ts'
import { Attempts, Waiters } from './attempts.ts'
import { Seal } from './kept-response.ts'
import { KeyedHash } from './keyed-hash.ts'

/** The checked option `idempotency` of `createStampede`. */
export interface IdempotencyConfig {
  readonly secret: string
  readonly encryptionKeys: readonly string[]
  /** Default: the store of the Stampede. */
  readonly store?: IdempotencyStoreOwner | undefined
}

/** A store that keeps records of idempotency keys, such as the result of `postgresStore`. */
export interface IdempotencyStoreOwner {
  readonly idempotency: IdempotencyStore
  readonly hasTimeBudget?: boolean | undefined
}

export interface IdempotencyRuntime {
  readonly store: LazyIdempotencyStore
  /** Whether `finish` of the store may get a frame that is not encoded yet. */
  readonly encodesLater: boolean
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
  encodesLater: boolean,
): IdempotencyRuntime {
  const deadlines = new Deadlines(clock)
  const waiters = new Waiters(clock)
  const rt: IdempotencyRuntime = {
    store,
    encodesLater,
    clock,
    events,
    keeper: new LeaseKeeper(store, clock, deadlines),
    deadlines,
    hashes: new KeyedHash(config.secret),
    seal: new Seal(config.encryptionKeys),
    attempts: new Attempts({ clock, deadlines, store, waiters }),
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
  const rollbacks = rt.attempts.running().map((each) => each.abandon('the Stampede was closed'))
  // A store may not reply to a rollback.
  await new Promise<unknown>((resolve) => {
    const late = rt.clock.setTimer(DRAIN_MS, () => resolve(undefined))
    void Promise.all(rollbacks)
      .then(resolve)
      .finally(() => late.cancel())
  })
  rt.keeper.stop()
  rt.attempts.stop()
  rt.deadlines.stop()
  rt.waiters.wakeAll()
  await rt.store.close()
}
