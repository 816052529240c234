// Completed records this process has seen. They never change, but for an operator's word, which is heard; so a
// replay from here asks the store nothing. Bounded in bytes and in time.

import { LRUCache } from 'lru-cache'
import type { Clock } from '../ports/clock.ts'
import type { Fingerprints } from '../ports/idempotency-store.ts'
import type { Kept } from './kept-response.ts'

/** An operator's word that was not heard is known after this long. */
const LONGEST_MS = 60_000
const MAX_BYTES = 16 * 1024 * 1024
const RECORD_BYTES = 500

export interface Replay {
  readonly kept: Kept
  readonly fingerprints: Fingerprints
}

export class Replays {
  readonly #clock: Clock
  readonly #mayTrust: () => boolean
  readonly #records = new LRUCache<string, Replay & { readonly until: number }>({
    maxSize: MAX_BYTES,
    maxEntrySize: MAX_BYTES / 16,
    sizeCalculation: ({ kept }) => RECORD_BYTES + sizeOf(kept),
  })

  /** `mayTrust`: whether an operator's word would be heard now. */
  constructor(clock: Clock, mayTrust: () => boolean) {
    this.#clock = clock
    this.#mayTrust = mayTrust
  }

  get(key: string): Replay | undefined {
    const found = this.#records.get(key)
    if (found === undefined || !this.#mayTrust()) return undefined
    if (this.#clock.now() < found.until) return found
    this.#records.delete(key)
    return undefined
  }

  /** `forMs`: how long the store keeps it. */
  add(key: string, replay: Replay, forMs: number): void {
    const until = this.#clock.now() + Math.min(forMs, LONGEST_MS)
    this.#records.set(key, { ...replay, until })
  }

  delete(key: string): void {
    this.#records.delete(key)
  }

  clear(): void {
    this.#records.clear()
  }
}

export function sizeOf(kept: Kept): number {
  if (kept.type === 'not-retained') return 0
  if (kept.type === 'value') return kept.stored.body.byteLength
  const heads = kept.headers.reduce((sum, [name, value]) => sum + name.length + value.length, 0)
  return kept.body.byteLength + heads
}
