// Attempts that ended while the store could not be told. What they did must not be done again, so the result is
// held here, answers duplicates that reach this process, and is stored as soon as that is possible; the lease is
// renewed meanwhile, so that nobody else begins.

import { LRUCache } from 'lru-cache'
import type { Clock, Timer } from '../ports/clock.ts'
import type { Fingerprints } from '../ports/idempotency-store.ts'
import type { Kept } from './kept-response.ts'
import { type Replay, sizeOf } from './replays.ts'

const FIRST_RETRY_MS = 100
const LAST_RETRY_MS = 5_000
const MAX_BYTES = 64 * 1024 * 1024
const RECORD_BYTES = 500

export interface Unfinished {
  /** Undefined for a release: then there is nothing to answer with. */
  readonly kept: Kept | undefined
  readonly fingerprints: Fingerprints
  /** Tries once more; false: still not. Never rejects. */
  retry(): Promise<boolean>
  /** It will not be stored by this process. */
  giveUp(): void
}

export class Unstored {
  readonly #clock: Clock
  readonly #waiting = new LRUCache<string, Unfinished & { readonly until: number }>({
    maxSize: MAX_BYTES,
    sizeCalculation: ({ kept }) => RECORD_BYTES + (kept === undefined ? 0 : sizeOf(kept)),
    dispose: (unfinished, _, reason) => {
      if (reason !== 'delete') unfinished.giveUp()
    },
  })
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

  get(key: string): Replay | undefined {
    const found = this.#waiting.get(key)
    return found?.kept === undefined
      ? undefined
      : { kept: found.kept, fingerprints: found.fingerprints }
  }

  /** Whether there is room for the whole of it; if not, only that it was done can be held. */
  fits(kept: Kept): boolean {
    return this.#waiting.calculatedSize + RECORD_BYTES + sizeOf(kept) <= MAX_BYTES
  }

  add(key: string, unfinished: Unfinished, forMs: number): void {
    const until = this.#clock.now() + forMs
    if (!this.#stopped) this.#waiting.set(key, { ...unfinished, until })
    // Too late.
    if (!this.#waiting.has(key)) unfinished.giveUp()
    this.#delayMs = FIRST_RETRY_MS
    this.#schedule()
  }

  /** The store may be back. */
  retryNow(): void {
    if (this.#waiting.size === 0) return
    this.#timer?.cancel()
    this.#timer = undefined
    this.#retrying ??= this.#retryAll().finally(() => {
      this.#retrying = undefined
      this.#schedule()
    })
  }

  stop(): void {
    this.#stopped = true
    this.#timer?.cancel()
    for (const each of this.#waiting.values()) each.giveUp()
    this.#waiting.clear()
  }

  #schedule(): void {
    if (this.#waiting.size === 0 || this.#timer !== undefined) return
    this.#timer = this.#clock.setTimer(this.#delayMs, () => this.retryNow())
    this.#delayMs = Math.min(this.#delayMs * 2, LAST_RETRY_MS)
  }

  async #retryAll(): Promise<void> {
    // One after the other: a store that is just coming back is not to be met by everything at once.
    for (const [key, unfinished] of [...this.#waiting.entries()]) {
      if (this.#clock.now() >= unfinished.until) unfinished.giveUp()
      else if (!(await unfinished.retry())) continue
      // Not what came after it.
      if (this.#waiting.peek(key) === unfinished) this.#waiting.delete(key)
    }
  }
}
