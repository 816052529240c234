// Locks of this process for its report: the counters, and the leases that it holds.

import { type ProcessReport, reportedKey } from '@stampede/operate'

/** The methods of `createLocks(...)` that the dashboard calls. */
export interface WatchedLocks {
  /** Counters and current sizes, for the report. */
  stats(): object
  /** Calls `listener` for each event. Returns a function that removes the listener. */
  on?(type: '*', listener: (event: LockEventView) => void): () => void
}

/** An event of a lock. */
export interface LockEventView {
  /** Such as `lock.acquired`. */
  readonly type: string
  /** The key of the lock, without the option `prefix`. */
  readonly key: string
  /** Name of the lock in the store. */
  readonly internalKey: string
  /** The fence of the lease. A quorum lock has none. */
  readonly fence?: unknown
}

/** Limit of the leases in memory. A process with more locks shows the newest ones. */
const MOST_HELD = 200

interface Held {
  readonly key: string
  readonly internalKey: string
  readonly fence: string
  readonly since: number
}

export class LockWatch {
  readonly #locks: WatchedLocks
  readonly #held = new Map<string, Held>()
  readonly #stop: (() => void) | undefined

  constructor(locks: WatchedLocks) {
    this.#locks = locks
    this.#stop = locks.on?.('*', (event) => this.#see(event))
  }

  /** Its leases are those held now, oldest first. */
  report(showKeys: boolean): ProcessReport['locks'] {
    const now = performance.now()
    const held = [...this.#held.values()].map(({ key, internalKey, fence, since }) => ({
      ...reportedKey(internalKey, showKeys, key),
      fence,
      heldMs: Math.round(now - since),
    }))
    return { stats: { ...this.#locks.stats() }, held }
  }

  close(): void {
    this.#stop?.()
  }

  #see({ type, key, internalKey, fence }: LockEventView): void {
    // A quorum lock has no fence, and its key has one holder.
    const name = fence === undefined ? internalKey : `${internalKey} ${fence}`
    if (type === 'lock.released' || type === 'lock.lost') this.#held.delete(name)
    if (type !== 'lock.acquired') return
    const held = { key, internalKey, fence: String(fence ?? ''), since: performance.now() }
    this.#held.set(name, held)
    for (const oldest of this.#held.keys()) {
      if (this.#held.size <= MOST_HELD) break
      this.#held.delete(oldest)
    }
  }
}
