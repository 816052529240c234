// The state of idempotency keys in one process, shared by all its requests and jobs.

import type { Events } from '../events.ts'
import { Deadlines } from '../lease/deadlines.ts'
import { LeaseKeeper } from '../lease/lease-keeper.ts'
import type { Clock } from '../ports/clock.ts'
import type { BeginReply, IdempotencyStore, LocalIdempotency } from '../ports/idempotency-store.ts'
import type { RunningAttempt } from './claim.ts'
import { KeyedHash } from './keyed-hash.ts'
import { Replays } from './replays.ts'
import { Seal } from './seal.ts'
import { Unstored } from './unstored.ts'
import { Waiters } from './waiters.ts'

/** The checked option `idempotency` of `createStampede`. */
export interface IdempotencyConfig {
  readonly secret: string
  readonly encryptionKeys: readonly string[]
}

export interface IdempotencyRuntime {
  readonly store: IdempotencyStore
  /** The store, if it is a memory store. */
  readonly local: () => LocalIdempotency | undefined
  readonly clock: Clock
  readonly events: Events
  readonly keeper: LeaseKeeper
  /** Deadlines of leases and of replies from the store. */
  readonly deadlines: Deadlines
  readonly hashes: KeyedHash
  readonly seal: Seal
  readonly replays: Replays
  readonly unstored: Unstored
  readonly waiters: Waiters
  /** Attempts that run in this process, by key of the record. */
  readonly running: Map<string, RunningAttempt>
  /** Pending `begin` commands, so that equal requests can share one. */
  readonly pendingBegins: Map<string, Promise<BeginReply>>
  closed: boolean
}

export function createIdempotencyRuntime(
  store: IdempotencyStore,
  config: IdempotencyConfig,
  { clock, events }: { clock: Clock; events: Events },
  local: () => LocalIdempotency | undefined = () => undefined,
): IdempotencyRuntime {
  const deadlines = new Deadlines(clock)
  const rt: IdempotencyRuntime = {
    store,
    local,
    clock,
    events,
    keeper: new LeaseKeeper(store, clock, deadlines),
    deadlines,
    hashes: new KeyedHash(config.secret),
    seal: new Seal(config.encryptionKeys),
    replays: new Replays(clock, () => store.isReceiving !== false),
    unstored: new Unstored(clock),
    waiters: new Waiters(clock),
    running: new Map(),
    pendingBegins: new Map(),
    closed: false,
  }
  store.attach({
    clock,
    onWake: (key) => rt.waiters.wake(key),
    onSettled: (key) => void onSettled(rt, key),
    onGap: () => {
      rt.replays.clear()
      rt.unstored.storeIsBack()
      rt.waiters.wakeAll()
    },
    onBack: () => rt.unstored.storeIsBack(),
    onLost: () => rt.waiters.wakeAll(),
    onError: (operation, error) => events.emit({ type: 'store.failed', key: '', operation, error }),
  })
  return rt
}

/**
 * Handles the message that an operator settled a record. Resolves when no attempt of this process
 * that began before that can still complete the record.
 */
export async function onSettled(rt: IdempotencyRuntime, key: string): Promise<void> {
  rt.replays.settle(key)
  const retried = rt.unstored.retryNow()
  rt.waiters.wake(key)
  // Only the store knows whether the attempt began before the record was settled.
  await Promise.all([rt.running.get(key)?.verify(), retried])
}

/** How long `close()` waits for running handlers. */
const DRAIN_MS = 2_000

/** Waits a short time for running attempts, and retries once to store responses not stored yet. */
export async function closeIdempotency(rt: IdempotencyRuntime): Promise<void> {
  rt.closed = true
  const deadline = rt.clock.now() + DRAIN_MS
  rt.unstored.retryNow()
  const busy = () => rt.running.size + rt.unstored.size + rt.pendingBegins.size > 0
  while (busy() && rt.clock.now() < deadline) {
    await new Promise<void>((resolve) => rt.clock.setTimer(10, resolve))
  }
  for (const running of rt.running.values()) running.abandon('the Stampede was closed')
  rt.keeper.stop()
  rt.deadlines.stop()
  rt.unstored.stop()
  rt.replays.clear()
  rt.waiters.wakeAll()
  await rt.store.close()
}
