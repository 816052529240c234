// A re-entrant lock: one count per owner, released at zero. The count is in this process, where the
// owner is, and not in the store: a retried command must not count twice.

import type { Locks } from './create-locks.ts'
import { aborted, lost } from './errors.ts'
import type { Lease } from './lease.ts'
import { onAbort } from './on-abort.ts'
import type { AcquireOptions } from './options.ts'

export interface ReentrantLock {
  /**
   * Takes the lock for `owner`, or counts one more if that owner has it. Two calls of one owner at the same time
   * are two entries of one holder: what may not overlap needs an owner of its own. Each call keeps its own `waitMs`
   * and `signal`; a call that fails fails alone. Rejects as `locks.acquire` does.
   */
  acquire(owner: string, options?: AcquireOptions): Promise<Lease>
  /**
   * Counts one less; at zero the lock is released. Rejects with `ERR_LOCK_LOST` if `owner` does not have it, also
   * if its `acquire` has not resolved yet.
   */
  release(owner: string): Promise<number>
}

interface Hold {
  readonly lease: Lease
  count: number
}

/** An acquire under way. `shared`: another call of the same owner got the lock first. */
interface Call {
  readonly giveUp: AbortController
  shared: Hold | undefined
}

/** Re-entry by the name of an owner instead of by passing the lease. Prefer `lease.nest()`, which needs no name. */
export function createReentrantLock(locks: Locks, key: string): ReentrantLock {
  const holds = new Map<string, Hold>()
  const calls = new Map<string, Set<Call>>()

  function heldBy(owner: string): Hold | undefined {
    const hold = holds.get(owner)
    if (hold === undefined || !(hold.lease.isLost || hold.lease.isReleased)) return hold
    holds.delete(owner)
    return undefined
  }

  /**
   * Each call acquires for itself, with its own options. The first to succeed shares its lease with
   * the others.
   */
  async function acquireAndShare(owner: string, options: AcquireOptions, call: Call) {
    const siblings = calls.get(owner) ?? new Set()
    calls.set(owner, siblings.add(call))
    const { signal } = options
    const stop = onAbort(signal, () => call.giveUp.abort(signal?.reason))
    try {
      const lease = await locks.acquire(key, { ...options, signal: call.giveUp.signal })
      const hold: Hold = { lease, count: 1 }
      holds.set(owner, hold)
      for (const sibling of siblings) {
        if (sibling === call || sibling.giveUp.signal.aborted) continue
        // Counted now, so that a release before the sibling resumes is not the last one.
        hold.count += 1
        sibling.shared = hold
        sibling.giveUp.abort()
      }
      return lease
    } catch (error) {
      if (call.shared === undefined) throw error
      return call.shared.lease
    } finally {
      stop()
      siblings.delete(call)
      if (siblings.size === 0) calls.delete(owner)
    }
  }

  return {
    async acquire(owner, options = {}) {
      if (options.signal?.aborted) throw aborted(key, options.signal.reason)
      const hold = heldBy(owner)
      if (hold === undefined) {
        return acquireAndShare(owner, options, { giveUp: new AbortController(), shared: undefined })
      }
      hold.count += 1
      return hold.lease
    },
    async release(owner) {
      const hold = heldBy(owner)
      if (hold === undefined) {
        throw lost(key, `owner ${JSON.stringify(owner)} does not have it`)
      }
      hold.count -= 1
      if (hold.count > 0) return hold.count
      holds.delete(owner)
      await hold.lease.release()
      return 0
    },
  }
}
