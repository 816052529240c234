// What is kept, and for how long it may be used.

import type { HeaderList } from '../ports/exchange.ts'

/** A response that may be replayed. */
export interface StoredResponse {
  readonly type: 'response'
  readonly status: number
  readonly headers: HeaderList
  readonly body: Uint8Array
  /** Age the response had when it was stored (an upstream `Age` header). */
  readonly initialAgeMs: number
  /** Request header values this response was chosen by; `null` means the header was absent. */
  readonly vary: ReadonlyArray<readonly [name: string, value: string | null]>
}

/** A value of getOrSet, as the JSON it was written in, or raw bytes. */
export interface StoredValue {
  readonly type: 'value'
  readonly encoding: 'json' | 'bytes'
  readonly body: Uint8Array
  /** The JSON read, once per process. */
  parsed?: { readonly value: unknown }
}

export type StoredEntry = StoredResponse | StoredValue

/** An entry held in this process; its moments are on this process's monotonic clock. */
export interface HeldEntry {
  readonly entry: StoredEntry
  readonly fence: string
  readonly bornAt: number
  readonly staleAt: number
  readonly revalidateUntil: number
  readonly errorUntil: number
}

export type Freshness = 'fresh' | 'stale' | 'stale-if-error' | 'expired'

/** `stale` may be served while one refreshes; `stale-if-error` only when the origin failed. */
export function freshnessAt(held: HeldEntry, now: number): Freshness {
  if (now < held.staleAt) return 'fresh'
  if (now < held.revalidateUntil) return 'stale'
  if (now < held.errorUntil) return 'stale-if-error'
  return 'expired'
}
