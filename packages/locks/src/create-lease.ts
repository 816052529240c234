// A lease with its renewal: by the process's one timer, until it is released, lost, or held for `maxHoldMs`.

import type { Clock, Grant, Hold, LeaseKeeper, LockStore } from '@stampede/core'
import { Lease, type Released, type Term } from './lease.ts'
import { elapsedMs, type Instant, now } from './stopwatch.ts'

/** Taken by another after a pause of ours, or lost with the data of the store. */
const NOT_OURS = 'the store does not know it as ours any more'

/** What leases and contenders work with. */
export interface Bench {
  readonly store: LockStore
  readonly clock: Clock
  readonly keeper: LeaseKeeper
  readonly random: () => number
  readonly maxHoldMs: number
  /** Held now, and asked of the store and not answered yet: what close() has to see to. */
  readonly held: Set<Lease>
  readonly underWay: Set<Promise<unknown>>
  /** Names without the caller's prefix, for messages. */
  readonly nameOf: (key: string) => string
}

export function createLease(
  bench: Bench,
  grant: Grant,
  term: Term,
  leaseMs: number,
  on: { release(): Promise<Released>; onLost(): void },
): Lease {
  const { clock, keeper, store, maxHoldMs } = bench
  const began = now(clock)
  let hold: Hold | undefined
  const renewed = (from: Instant) => {
    if (elapsedMs(clock, began) >= maxHoldMs) hold?.end()
    else lease.extend({ from, forMs: leaseMs })
  }
  const lease: Lease = new Lease(bench.nameOf(grant.key), BigInt(grant.fence), term, {
    clock,
    async renew() {
      const from = now(clock)
      const [ours] = await store.renew([grant], leaseMs).catch(() => [undefined])
      if (ours === true) lease.extend({ from, forMs: leaseMs })
      if (ours === false) lease.revoke(NOT_OURS)
      return ours === true
    },
    release() {
      end()
      return on.release()
    },
    onLost() {
      end()
      on.onLost()
    },
  })
  const end = () => {
    hold?.end()
    bench.held.delete(lease)
  }
  bench.held.add(lease)
  hold = keeper.hold(
    grant,
    leaseMs,
    {
      renewed,
      lost: () => lease.revoke(NOT_OURS),
    },
    term.forMs,
  )
  return lease
}

/** Remembers a question to the store until it is answered. */
export function track<T>(bench: Bench, asking: Promise<T>): Promise<T> {
  bench.underWay.add(asking)
  const done = () => bench.underWay.delete(asking)
  asking.then(done, done)
  return asking
}
