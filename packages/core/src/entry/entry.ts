// Entries: stored responses and values, and how long they may be used.

import type { Fields } from '../http/fields.ts'
import type { BodyKind } from '../ports/exchange.ts'
import type { Lifetimes, Position } from '../ports/store.ts'
import type { ParsedValue } from './parsed-value.ts'
import type { RouteCounts } from './route-counts.ts'

/** Facts about the fill of an entry. They decide whether a purge covers the entry. */
export interface Provenance {
  /** Position of the newest purge that the process knew when the fill began. */
  readonly asOf: Position
  /** Duration of the fill in ms. */
  readonly tookMs: number
  /** Subjects of its tags and cache groups (`ports/subject.ts`). */
  readonly subjects: readonly string[]
  /** Path of a response, as `canonicalPath` returns it. */
  readonly path?: string | undefined
  /** Host of a response, with its port if there is one, in lower case. */
  readonly host?: string | undefined
  /** Pattern of the route that made a response, for counters. */
  readonly route?: string | undefined
}

/** The provenance of an entry whose fill is unknown. A purge of everything covers such an entry. */
export const UNKNOWN_PROVENANCE: Provenance = { asOf: 0, tookMs: 0, subjects: [] }

/** A response that may be replayed. */
export interface StoredResponse {
  readonly type: 'response'
  readonly status: number
  readonly fields: Fields
  readonly body: Uint8Array
  /**
   * Age of the response when it was written into the store: the age that its head had on arrival,
   * and the time since then (RFC 9111 §4.2.3).
   */
  readonly initialAgeMs: number
  /** Request fields that select this response, with their values. `null`: the field was absent. */
  readonly vary: ReadonlyArray<readonly [name: string, value: string | null]>
  readonly provenance: Provenance
  /** Whether the cache generated the ETag. The handler does not know such an ETag. */
  readonly minted?: true | undefined
  /** Value of the field `OWN_FIELD` (`stampede-cache-control`) in the response. */
  readonly own?: string | undefined
  readonly kind?: BodyKind | undefined
}

/** A value of `getOrSet`, as JSON or as raw bytes. */
export interface StoredValue {
  readonly type: 'value'
  readonly encoding: 'json' | 'bytes'
  readonly body: Uint8Array
  readonly provenance: Provenance
  parsed?: ParsedValue | undefined
}

export type StoredEntry = StoredResponse | StoredValue

/**
 * An entry in the memory of this process. Its times are on the monotonic clock of the process.
 */
export interface HeldEntry {
  readonly entry: StoredEntry
  readonly fence: string
  /** Time from which its age and lifetimes count. */
  readonly bornAt: number
  readonly staleAt: number
  /** End of the stale window for refreshes (`stale-while-revalidate`). */
  readonly revalidateUntil: number
  /** End of the stale window for errors (`stale-if-error`). */
  readonly errorUntil: number
  /** End of the time in which the entry may be revalidated. */
  readonly keepUntil: number
  /** The counters of this process for the route of the entry. */
  readonly counts?: RouteCounts | undefined
}

/** The entry with its times on the clock of this process, if it was written at `writtenAt`. */
export function heldEntry(
  entry: StoredEntry,
  fence: string,
  lifetimes: Lifetimes,
  writtenAt: number,
  counts?: RouteCounts,
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
    counts,
  }
}

/**
 * Ends the freshness of an entry at `at`, if that is earlier than before. Its stale windows then
 * begin at `at`.
 */
export function staleFrom(held: HeldEntry, at: number): HeldEntry {
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

/** Time from which the entry is neither fresh nor in a stale window. */
export function endOfEntry(held: HeldEntry): number {
  return Math.max(held.staleAt, held.revalidateUntil, held.errorUntil, held.keepUntil)
}

export type Freshness = 'fresh' | 'stale' | 'stale-if-error' | 'expired'

/** RFC 5861 §4: whether the entry may be served if the fill fails or takes too long. */
export function mayServeOnError(held: HeldEntry, now: number): boolean {
  return now < Math.max(held.errorUntil, held.revalidateUntil)
}

/**
 * - `fresh`: the entry may be served.
 * - `stale`: it may be served while a request refreshes it.
 * - `stale-if-error`: it may be served only if the origin fails.
 * - `expired`: it may not be served, unless the origin confirms it (304).
 */
export function freshnessAt(held: HeldEntry, now: number): Freshness {
  if (now < held.staleAt) return 'fresh'
  if (now < held.revalidateUntil) return 'stale'
  if (now < held.errorUntil) return 'stale-if-error'
  return 'expired'
}
