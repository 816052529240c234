// Attempts that ended while the store was unavailable. Their handlers must not run again. So this
// process keeps the result, replays it to repeats, and retries to store it. Meanwhile it renews the
// lease, so that no other attempt begins.

import type { Clock, Timer } from '../ports/clock.ts'
import type { Fingerprints } from '../ports/idempotency-store.ts'
import { bytesOf, type Kept, ownKept, type Replay, withoutBody } from './kept-response.ts'

const FIRST_RETRY_MS = 100
const LAST_RETRY_MS = 5_000
const MAX_BYTES = 64 * 1024 * 1024
/** Memory of an attempt without its body, measured by `test/soak/heap.test.ts`. */
const RECORD_BYTES = 1_500

/** An attempt whose end is not stored yet. */
export interface Unfinished {
  /** Undefined for an attempt without a result: released or uncertain. */
  readonly kept: Kept | undefined
  readonly fingerprints: Fingerprints
  /**
   * Retries to store the end of the attempt, with the current `kept`. Returns whether the store has
   * it now. Never rejects.
   */
  retry(kept: Kept | undefined): Promise<boolean>
  /** Stops the renewal of the lease, because this process does not retry any more. */
  giveUp(): void
}

interface Entry extends Unfinished {
  kept: Kept | undefined
  bytes: number
  readonly until: number
}

export class Unstored {
  readonly #clock: Clock
  /** Oldest first. */
  readonly #waiting = new Map<string, Entry>()
  /** Keys of the entries that may have a body, oldest first. */
  readonly #withBody = new Set<string>()
  #bytes = 0
  #timer: Timer | undefined
  #delayMs = FIRST_RETRY_MS
  #retrying: Promise<void> | undefined
  #stopped = false

  constructor(clock: Clock) {
    this.#clock = clock
  }

  get size(): number {
    return this.#waiting.size
  }

  get bytes(): number {
    return this.#bytes
  }

  get(key: string): Replay | undefined {
    const { kept, fingerprints } = this.#waiting.get(key) ?? {}
    return kept && fingerprints && { kept, fingerprints }
  }

  /**
   * Adds an attempt. If there are too many bytes, the oldest bodies are dropped. Those attempts are
   * then stored as completed without a response.
   */
  add(key: string, unfinished: Unfinished, forMs: number): void {
    if (this.#stopped) {
      unfinished.giveUp()
      return
    }
    this.#waiting.get(key)?.giveUp()
    this.#delete(key)
    const kept = unfinished.kept && ownKept(unfinished.kept)
    const entry: Entry = { ...unfinished, kept, until: this.#clock.now() + forMs, bytes: 0 }
    entry.bytes = RECORD_BYTES + bytesOf(key, entry)
    this.#waiting.set(key, entry)
    this.#withBody.add(key)
    this.#bytes += entry.bytes
    this.#bound()
    this.#delayMs = FIRST_RETRY_MS
    this.#schedule()
  }

  /**
   * Called when the store is available again. Retries at once, and after failures with short
   * delays.
   */
  storeIsBack(): void {
    this.#delayMs = FIRST_RETRY_MS
    this.retryNow()
  }

  retryNow(): Promise<void> | undefined {
    if (this.#waiting.size === 0) return undefined
    this.#timer?.cancel()
    this.#timer = undefined
    this.#retrying ??= this.#retryAll().finally(() => {
      this.#retrying = undefined
      this.#schedule()
    })
    return this.#retrying
  }

  stop(): void {
    this.#stopped = true
    this.#timer?.cancel()
    for (const each of this.#waiting.values()) each.giveUp()
    this.#waiting.clear()
    this.#withBody.clear()
    this.#bytes = 0
  }

  #delete(key: string): void {
    this.#bytes -= this.#waiting.get(key)?.bytes ?? 0
    this.#waiting.delete(key)
    this.#withBody.delete(key)
  }

  #bound(): void {
    for (const key of this.#withBody) {
      if (this.#bytes <= MAX_BYTES) return
      this.#withBody.delete(key)
      const entry = this.#waiting.get(key)
      if (entry?.kept === undefined) continue
      this.#bytes -= entry.bytes
      entry.kept = withoutBody(entry.kept)
      entry.bytes = RECORD_BYTES + bytesOf(key, entry)
      this.#bytes += entry.bytes
    }
    // All bodies have been dropped. If the entries still exceed the bound, the oldest ones are
    // dropped.
    for (const [key, entry] of this.#waiting) {
      if (this.#bytes <= MAX_BYTES) return
      this.#delete(key)
      entry.giveUp()
    }
  }

  #schedule(): void {
    if (this.#waiting.size === 0 || this.#timer !== undefined) return
    this.#timer = this.#clock.setTimer(this.#delayMs, () => this.retryNow())
    this.#delayMs = Math.min(this.#delayMs * 2, LAST_RETRY_MS)
  }

  async #retryAll(): Promise<void> {
    // One after the other, so that a store which has just become available is not overloaded.
    for (const [key, unfinished] of [...this.#waiting.entries()]) {
      // The entry was dropped or replaced meanwhile.
      if (this.#waiting.get(key) !== unfinished) continue
      if (this.#clock.now() >= unfinished.until) unfinished.giveUp()
      else if (!(await unfinished.retry(unfinished.kept))) continue
      // If another entry has replaced this one meanwhile, that entry must stay.
      if (this.#waiting.get(key) === unfinished) this.#delete(key)
    }
  }
}
