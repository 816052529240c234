// Creates a lease and renews it until it is released, lost, or held for `maxHoldMs`. One timer
// renews all leases of one `createLocks`.

import {
  ANY_FENCE,
  type Grant,
  type LeaseKeeper,
  type LockStore,
  mayHaveRun,
} from '@stampede/core/store'
import { Lease, type Released, type Term } from './lease.ts'
import type { LockMonitor } from './lock-events.ts'
import type { LocksConfig } from './options.ts'

export type LockReply = Awaited<ReturnType<LockStore['acquire']>>
export type LockRequest = Parameters<LockStore['acquire']>[1]

/**
 * Reason of a loss: another process acquired the lock after a pause of this process, or the store
 * lost its data.
 */
const NOT_OURS = 'the store no longer has this lease'

/** Shared by the leases and contenders of one `createLocks`. */
export interface LockContext extends LocksConfig {
  readonly keeper: LeaseKeeper
  /** Held leases and pending commands. close() ends both. */
  readonly held: Set<Lease>
  readonly pending: Set<Promise<unknown>>
  readonly monitor: LockMonitor
}

export function createLease(
  context: LockContext,
  grant: Grant,
  term: Term,
  leaseMs: number,
  on: { release(): Promise<Released>; onLost(): void },
): Lease {
  const { clock, keeper, store, maxHoldMs, monitor } = context
  const began = clock.now()
  const held: Parameters<LeaseKeeper['hold']>[0] = {
    ...{ at: 0, place: -1, order: 0, endsAt: Number.POSITIVE_INFINITY },
    ...{ grant, leaseMs },
    due: () => void keeper.renew(held),
    renewed(from) {
      if (clock.now() - began >= maxHoldMs) keeper.end(held)
      else lease.extend({ from, forMs: leaseMs })
    },
    lost: () => lease.revoke(NOT_OURS),
  }
  const lease: Lease = new Lease(grant.key, BigInt(grant.fence), term, {
    clock,
    async renew() {
      const from = clock.now()
      const [ours] = await store.renew([grant], leaseMs).catch(() => [undefined])
      if (ours === true) lease.extend({ from, forMs: leaseMs })
      if (ours === false) lease.revoke(NOT_OURS)
      return ours === true
    },
    async release() {
      const isLost = lease.isLost
      end()
      const released = await on.release()
      // After a loss, a release only cleans up in the store.
      if (!isLost) monitor.end(released === 'lost' ? 'lock.lost' : 'lock.released', grant, began)
      return released
    },
    onLost() {
      end()
      monitor.end('lock.lost', grant, began)
      on.onLost()
    },
  })
  const end = () => {
    keeper.end(held)
    context.held.delete(lease)
  }
  context.held.add(lease)
  keeper.hold(held, term.forMs)
  return lease
}

/**
 * Requests a lock. If no reply came, the store may have granted the lock all the same. Then the
 * lock is released, because no caller knows of it.
 */
export function request(
  context: Pick<LockContext, 'store' | 'keeper' | 'pending'>,
  key: string,
  terms: LockRequest,
): Promise<LockReply> {
  const { store, keeper } = context
  const command = store.acquire(key, terms)
  const unheard = { key, token: terms.token, fence: ANY_FENCE }
  const release = () => store.release(unheard)
  command.catch((error) => {
    if (mayHaveRun(error)) void track(context, keeper.release(release))
  })
  return track(context, command)
}

/** Adds a command to `pending` until it settles. */
export function track<T>(context: Pick<LockContext, 'pending'>, command: Promise<T>): Promise<T> {
  context.pending.add(command)
  const done = () => context.pending.delete(command)
  command.then(done, done)
  return command
}
