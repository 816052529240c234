// The re-entrant lock of the textbooks: one count per owner, released at zero. The count is kept in this
// process, where the owner is, and never in the store: a retried command must not count twice.

import type { Locks } from './create-locks.ts'
import { lost } from './errors.ts'
import type { Lease } from './lease.ts'
import type { AcquireOptions } from './options.ts'

export interface ReentrantLock {
  /**
   * Takes the lock for `owner`, or counts one more if that owner has it. Two calls of one owner at the same time
   * are two entries of one holder: what may not overlap needs an owner of its own.
   */
  acquire(owner: string, options?: AcquireOptions): Promise<Lease>
  /** Counts one less; at zero the lock is released. Rejects with `ERR_LOCK_LOST` if `owner` does not have it. */
  release(owner: string): Promise<number>
}

/** Re-entry by the name of an owner instead of by passing the lease. Prefer `lease.nest()`, which needs no name. */
export function createReentrantLock(locks: Locks, key: string): ReentrantLock {
  const holds = new Map<string, { readonly lease: Promise<Lease>; count: number }>()
  const hasEnded = (lease: Lease) => lease.isLost || lease.isReleased
  return {
    async acquire(owner, options) {
      const present = holds.get(owner)
      if (present !== undefined) {
        // Counted at once: a release that comes meanwhile is not the last one.
        present.count += 1
        const lease = await present.lease
        if (!hasEnded(lease)) return lease
        if (holds.get(owner) === present) holds.delete(owner)
      }
      const fresh = { lease: locks.acquire(key, options), count: 1 }
      holds.set(owner, fresh)
      try {
        return await fresh.lease
      } catch (error) {
        if (holds.get(owner) === fresh) holds.delete(owner)
        throw error
      }
    },
    async release(owner) {
      const hold = holds.get(owner)
      const lease = await hold?.lease
      if (hold === undefined || lease === undefined || hasEnded(lease)) {
        if (holds.get(owner) === hold) holds.delete(owner)
        throw lost(key, `owner ${JSON.stringify(owner)} does not have it`)
      }
      hold.count -= 1
      if (hold.count > 0) return hold.count
      holds.delete(owner)
      await lease.release()
      return 0
    },
  }
}
