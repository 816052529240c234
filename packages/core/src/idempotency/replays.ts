// Completed records in the memory of this process, so that a replay needs no command. A completed
// record changes only when an operator settles it, and then all processes get a message. Bytes and
// time are bounded.

import type { Clock, Timer } from '../ports/clock.ts'
import { bytesOf, type Replay } from './kept-response.ts'

/** Longest time for which a record is kept here. It bounds the effect of a lost message. */
const LONGEST_MS = 60_000
/** Least time between sweeps. One timer serves all records. */
const SWEEP_MS = 1_000
const MAX_BYTES = 16 * 1024 * 1024
const MAX_ENTRY_BYTES = MAX_BYTES / 16
/** Memory of a record without its strings and bytes, measured by `test/soak/heap.test.ts`. */
const RECORD_BYTES = 450

interface Known extends Replay {
  readonly until: number
  readonly bytes: number
}

export class Replays {
  readonly #clock: Clock
  readonly #mayTrust: () => boolean
  /** Oldest first. Nearly all records expire in this order. */
  readonly #records = new Map<string, Known>()
  #bytes = 0
  #timer: Timer | undefined
  #sequence = 0

  /**
   * `mayTrust`: whether messages arrive now, so that this process would notice a settled record.
   */
  constructor(clock: Clock, mayTrust: () => boolean) {
    this.#clock = clock
    this.#mayTrust = mayTrust
  }

  get size(): { entries: number; bytes: number } {
    return { entries: this.#records.size, bytes: this.#bytes }
  }

  /**
   * Number of the last settlement or gap. Get it before a command is sent, and pass it to `add`.
   */
  sequence(): number {
    return this.#sequence
  }

  get(key: string): Replay | undefined {
    const found = this.#records.get(key)
    if (found === undefined || !this.#mayTrust()) return undefined
    return this.#clock.now() < found.until ? found : undefined
  }

  /**
   * Adds a record, unless a record was settled after `since`. The reply with this one may be from
   * before. `kept` must come from `ownKept`. `forMs`: how long the store still keeps the record.
   */
  add(key: string, { kept, fingerprints }: Replay, forMs: number, since: number): void {
    if (since !== this.#sequence) return
    this.#delete(key)
    const bytes = RECORD_BYTES + bytesOf(key, { kept, fingerprints })
    if (bytes > MAX_ENTRY_BYTES) return
    const until = this.#clock.now() + Math.min(forMs, LONGEST_MS)
    this.#records.set(key, { kept, fingerprints, until, bytes })
    this.#bytes += bytes
    if (this.#bytes > MAX_BYTES) this.#dropOldest()
    if (this.#timer === undefined) this.#sweepLater()
  }

  #dropOldest(): void {
    for (const oldest of this.#records.keys()) {
      if (this.#bytes <= MAX_BYTES) break
      this.#delete(oldest)
    }
  }

  /** An operator settled this record. */
  settle(key: string): void {
    this.#sequence += 1
    this.#delete(key)
  }

  #delete(key: string): void {
    const known = this.#records.get(key)
    if (known === undefined) return
    this.#records.delete(key)
    this.#bytes -= known.bytes
  }

  /** Settlements may have been missed. */
  clear(): void {
    this.#sequence += 1
    this.#timer?.cancel()
    this.#timer = undefined
    this.#records.clear()
    this.#bytes = 0
  }

  /**
   * Deletes expired records from the oldest one to the first valid one. An expired record after
   * that one stays until a later sweep.
   */
  #sweep(): void {
    const now = this.#clock.now()
    for (const [key, { until }] of this.#records) {
      if (now < until) break
      this.#delete(key)
    }
    this.#sweepLater()
  }

  #sweepLater(): void {
    const [oldest] = this.#records.values()
    if (oldest === undefined) return
    const leftMs = Math.max(SWEEP_MS, oldest.until - this.#clock.now())
    this.#timer = this.#clock.setTimer(leftMs, () => {
      this.#timer = undefined
      this.#sweep()
    })
  }
}
