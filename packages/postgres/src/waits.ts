// The keys that this process waits for. While it waits, its LISTEN connection holds the second
// advisory lock of the key, shared. So the end of an attempt knows whether to send a notice. The
// waiter also asks again, because a killed process sends none.

import { type Database, readReply } from './database.ts'
import type { Rows } from './line.ts'
import type { Fingerprints } from './transaction.ts'

/** Replies of `claim` and `begin_lease` in `sql/`. */
export type Looked =
  | {
      readonly status: 'begun'
      readonly fence: string
      readonly attempt: number
      readonly isRecovery: boolean
      readonly steps: Readonly<Record<string, string>> | null
    }
  | { readonly status: 'completed'; readonly forMs: number; readonly frame: string }
  | { readonly status: 'busy'; readonly forMs?: number }
  | { readonly status: 'mismatch' | 'uncertain' }

/** A reply of `claim` that begins no attempt. `free`: one may begin. */
export type Look = Looked | { readonly status: 'free' }

interface Wait {
  isLocked: boolean
  pauseMs: number
  /** The request of its last look, and when the next look is due. */
  prints: Fingerprints
  dueAt: number
}

const FIRST_PAUSE_MS = 100
const LAST_PAUSE_MS = 1_000
/** The holder of the key is in its commit, or the connection was lost. */
const COMMITS: Looked = { status: 'busy', forMs: 5 }
/** How long a waiter may be late with its next look. After that, it has probably given up. */
const LATE_MS = 10_000

export class Waits {
  readonly #db: Database
  readonly #byKey = new Map<string, Wait>()

  constructor(db: Database) {
    this.#db = db
  }

  /** Whether this process found the key busy. */
  has(key: string): boolean {
    return this.#byKey.has(key)
  }

  /**
   * How long this process need not look again, because a notice will come. Undefined: it must look
   * now, as for a request with another body.
   */
  restMs(key: string, { exact, canonical }: Fingerprints): number | undefined {
    const wait = this.#byKey.get(key)
    if (wait?.isLocked !== true) return undefined
    const { prints } = wait
    const restMs = wait.dueAt - performance.now()
    const isSame = prints.exact === exact && prints.canonical === canonical
    return isSame && restMs > 0 ? restMs : undefined
  }

  /**
   * Waits for a key that was found busy, and looks once more: its attempt may have ended before the
   * lock was held. A busy reply says when to look again.
   */
  async join(key: string, prints: Fingerprints, busy: Looked): Promise<Looked> {
    this.#dropOld()
    const wait = this.#byKey.get(key) ?? {
      isLocked: false,
      pauseMs: FIRST_PAUSE_MS / 2,
      prints,
      dueAt: performance.now(),
    }
    this.#byKey.set(key, wait)
    const { notices } = this.#db
    await notices.ready
    const looked =
      notices.isReceiving && !wait.isLocked ? await this.#watch(key, prints, wait) : busy
    // The attempt ended meanwhile. The caller begins at once.
    if (looked.status === 'free') return { status: 'busy', forMs: 0 }
    if (looked.status !== 'busy') return looked
    wait.pauseMs = Math.min(wait.pauseMs * 2, LAST_PAUSE_MS)
    const { forMs = Infinity } = looked
    // The end of a lease is known. That of a transaction is not.
    const pauseMs = wait.isLocked && forMs < Infinity ? forMs : Math.min(forMs, wait.pauseMs)
    wait.prints = prints
    wait.dueAt = performance.now() + pauseMs
    return { status: 'busy', forMs: pauseMs }
  }

  /** Takes the lock, and looks, in one round trip. */
  async #watch(key: string, { exact, canonical }: Fingerprints, wait: Wait): Promise<Look> {
    wait.isLocked = true
    const claim = this.#db.text('claim', key, exact, canonical, 0)
    const text = `${this.#db.text('watch', key)}; ${claim}`
    const [lock, look] = await this.#db.notices.query(text).catch((): Rows[] => [])
    // If the notice of the end came before this reply, the look is older, and the lock is given up.
    wait.isLocked &&= lock !== undefined && readReply<boolean>(lock)
    if (look === undefined || !wait.isLocked) return COMMITS
    return readReply<Look>(look)
  }

  /** Handles the notice that an attempt ended. Returns whether this process waited for it. */
  wake(key: string): boolean {
    const wait = this.#byKey.get(key)
    if (wait?.isLocked !== true) return false
    this.#unlock(key, wait)
    return true
  }

  /** The process no longer waits for this key. */
  leave(key: string): void {
    const wait = this.#byKey.get(key)
    if (wait === undefined) return
    this.#byKey.delete(key)
    if (wait.isLocked) this.#unlock(key, wait)
  }

  /** The connection was lost, and with it the locks. */
  unlocked(): void {
    for (const wait of this.#byKey.values()) wait.isLocked = false
  }

  #unlock(key: string, wait: Wait): void {
    wait.isLocked = false
    // If the connection is lost, so is the lock.
    void this.#db.notices.query(this.#db.text('unwatch', key)).catch(() => {})
  }

  #dropOld(): void {
    const before = performance.now() - LATE_MS
    for (const [key, { dueAt }] of this.#byKey) if (dueAt < before) this.leave(key)
  }
}
