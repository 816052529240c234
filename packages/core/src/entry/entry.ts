// What is kept, and for how long it may be used.

import type { Fields } from '../http/fields.ts'
import type { BodyKind } from '../ports/exchange.ts'
import type { Lifetimes, Position } from '../ports/store.ts'
import type { ParsedValue } from './parsed-value.ts'

/** From where an entry comes: what it takes to know whether a purge was about it, and when to refresh it early. */
export interface Made {
  /** Purges up to this one were known to the one who made it, before he began. */
  readonly asOf: Position
  /** How long that took, smoothed over refreshes. */
  readonly tookMs: number
  /** Its tags and groups (`ports/subject.ts`). */
  readonly subjects: readonly string[]
  /** Of a response: the path, as canonicalPath gives it, and the authority, in lower case. */
  readonly path?: string
  readonly host?: string
}

/** Nothing is known of it; a purge of everything is about it. */
export const UNKNOWN_ORIGIN: Made = { asOf: 0, tookMs: 0, subjects: [] }

/** A response that may be replayed. */
export interface StoredResponse {
  readonly type: 'response'
  readonly status: number
  readonly fields: Fields
  readonly body: Uint8Array
  /** Age the response had when it was written: an upstream `Age`, and the time since its head (RFC 9111 §4.2.3). */
  readonly initialAgeMs: number
  /** Request header values this response was chosen by; `null` means the header was absent. */
  readonly vary: ReadonlyArray<readonly [name: string, value: string | null]>
  readonly made: Made
  /** Its ETag is of ours: the app does not know it. */
  readonly minted?: true
  /** What it said to this cache alone (OWN_FIELD). */
  readonly own?: string
  readonly kind?: BodyKind
}

/** A value of getOrSet, as the JSON it was written in, or raw bytes. */
export interface StoredValue {
  readonly type: 'value'
  readonly encoding: 'json' | 'bytes'
  readonly body: Uint8Array
  readonly made: Made
  parsed?: ParsedValue | undefined
}

export type StoredEntry = StoredResponse | StoredValue

/** The same entry, made in another way. A value is named part by part: engines take longer for a spread. */
export function withMade(entry: StoredEntry, made: Made): StoredEntry {
  if (entry.type === 'response') return { ...entry, made }
  const { encoding, body, parsed } = entry
  return { type: 'value', encoding, body, made, parsed }
}

/** An entry held in this process; its moments are on this process's monotonic clock. */
export interface HeldEntry {
  readonly entry: StoredEntry
  readonly fence: string
  readonly bornAt: number
  readonly staleAt: number
  readonly revalidateUntil: number
  readonly errorUntil: number
  /** Until then it may still be compared with what the origin has. */
  readonly keepUntil: number
}

/** An entry written at this moment, as this process holds it. */
export function holdFor(
  entry: StoredEntry,
  fence: string,
  lifetimes: Lifetimes,
  writtenAt: number,
): HeldEntry {
  const staleAt = writtenAt + lifetimes.freshMs
  return {
    entry,
    fence,
    bornAt: writtenAt,
    staleAt,
    revalidateUntil: staleAt + lifetimes.staleWhileRevalidateMs,
    errorUntil: staleAt + lifetimes.staleIfErrorMs,
    keepUntil: staleAt + lifetimes.keepMs,
  }
}

/** The entry with every window moved to begin at `at`, if that is earlier. */
export function staleSince(held: HeldEntry, at: number): HeldEntry {
  const earlierMs = held.staleAt - at
  if (earlierMs <= 0) return held
  return {
    ...held,
    staleAt: at,
    revalidateUntil: held.revalidateUntil - earlierMs,
    errorUntil: held.errorUntil - earlierMs,
    keepUntil: held.keepUntil - earlierMs,
  }
}

export type Freshness = 'fresh' | 'stale' | 'stale-if-error' | 'expired'

/** RFC 5861 §4: whether it may stand in for what failed, or is late. */
export function mayCover(held: HeldEntry, now: number): boolean {
  return now < Math.max(held.errorUntil, held.revalidateUntil)
}

/**
 * `stale` may be served while one refreshes; `stale-if-error` only when the origin failed; `expired` not at all, though the origin
 * may say that it is still so.
 */
export function freshnessAt(held: HeldEntry, now: number): Freshness {
  if (now < held.staleAt) return 'fresh'
  if (now < held.revalidateUntil) return 'stale'
  if (now < held.errorUntil) return 'stale-if-error'
  return 'expired'
}
