// Entries: stored responses and values, how long they may be used, and copies of their memory.

import { detachedText, type Fields, shared } from '../http/headers.ts'
import type { BodyKind } from '../ports/exchange.ts'
import type { Lifetimes, Position } from '../ports/store.ts'
import type { RouteCounts } from './counts.ts'
import type { ParsedValue } from './parsed-value.ts'

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
  /**
   * The value itself, frozen, for the caller whose factory returned it. No entry in L1 has it,
   * because its strings may be parts of longer ones.
   */
  readonly copy?: unknown
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

/**
 * The entry with its times on the clock of this process. At `now`, its age is `ageMs`, and
 * `lifetimes` are left.
 */
export function heldEntry(
  entry: StoredEntry,
  fence: string,
  lifetimes: Windows,
  now: number,
  counts?: RouteCounts,
  ageMs = 0,
): HeldEntry {
  const staleAt = now + lifetimes.freshMs
  return {
    entry,
    fence,
    bornAt: now - ageMs,
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

/** Ends the freshness of an entry and its stale window for refreshes. */
export function onlyForErrors(held: HeldEntry, now: number): HeldEntry {
  const stale = staleFrom(held, now)
  const { staleAt, revalidateUntil, errorUntil } = stale
  const forErrors = Math.max(revalidateUntil, errorUntil)
  return { ...stale, revalidateUntil: staleAt, errorUntil: forErrors }
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

// Lifetimes of a new entry, with jitter, so that keys filled together do not expire together. The
// jitter is applied once, when the entry is written, so that all processes agree.

/** The store keeps a record for this much longer than its entry may be used. */
const MARGIN_MS = 1_000

export type Windows = Omit<Lifetimes, 'physicalMs'>

/** The rest of `lifetimes` after `elapsedMs`. Stale windows begin when freshness ends. */
export function remaining(lifetimes: Lifetimes, elapsedMs: number): Lifetimes {
  if (elapsedMs === 0) return lifetimes
  const overdueMs = Math.max(0, elapsedMs - lifetimes.freshMs)
  const left = (windowMs: number) => Math.max(0, windowMs - overdueMs)
  return {
    freshMs: Math.max(0, lifetimes.freshMs - elapsedMs),
    staleWhileRevalidateMs: left(lifetimes.staleWhileRevalidateMs),
    staleIfErrorMs: left(lifetimes.staleIfErrorMs),
    keepMs: left(lifetimes.keepMs),
    physicalMs: Math.max(1, lifetimes.physicalMs - elapsedMs),
  }
}

/**
 * Whether the entry is neither fresh nor in a stale window, so that no later request can use it.
 */
export function isSpent(lifetimes: Lifetimes): boolean {
  const { freshMs, staleWhileRevalidateMs, staleIfErrorMs, keepMs } = lifetimes
  return Math.max(freshMs, staleWhileRevalidateMs, staleIfErrorMs, keepMs) <= 0
}

/**
 * Lifetimes with jitter. The logical TTL (freshness) is shortened by up to `jitter` of itself. It
 * is never lengthened, because caches between the client and this one rely on max-age. The physical
 * TTL (deletion) covers the longest stale window. It is lengthened by up to `jitter` of the logical
 * TTL, so that entries filled together are not deleted together.
 */
export function withJitter(windows: Windows, jitter: number, random: () => number): Lifetimes {
  const freshMs = Math.max(1, Math.round(windows.freshMs * (1 - jitter * random())))
  const { staleWhileRevalidateMs, staleIfErrorMs, keepMs } = windows
  const longest = Math.max(staleWhileRevalidateMs, staleIfErrorMs, keepMs)
  const extra = Math.round(windows.freshMs * jitter * random())
  return {
    freshMs,
    staleWhileRevalidateMs,
    staleIfErrorMs,
    keepMs,
    physicalMs: freshMs + longest + MARGIN_MS + extra,
  }
}

// Copies of bytes and strings that do not reference a larger buffer or string. A view of bytes
// keeps its whole buffer in memory, and a substring may keep its whole parent string. L1 does not
// count that memory.

/**
 * A copy of `view`, or `view` itself if it covers nearly its whole buffer. Node allocates small
 * buffers as views of a buffer of 8 KiB. Redis replies are views of the socket's buffer.
 */
export function ownBytes(view: Uint8Array): Uint8Array {
  const rest = view.buffer.byteLength - view.byteLength
  if (rest <= Math.max(64, view.byteLength / 32)) return view
  const own = Buffer.allocUnsafeSlow(view.byteLength)
  own.set(view)
  return own
}

/**
 * The entry with copies of its strings: `Vary` values, tags, path, host and route. Such a string
 * may be a part of a longer one, as the path is a part of the URL. The longer one would then stay
 * in memory. Fields are copies already, and the body is not copied. `tookMs` is the duration of the
 * fill.
 */
export function withOwnStrings(entry: StoredEntry, tookMs: number): StoredEntry {
  const { asOf, subjects, path, host, route } = entry.provenance
  const provenance = {
    asOf,
    tookMs,
    subjects: subjects.length === 0 ? NONE : subjects.map(detachedText),
    path: path === undefined ? undefined : detachedText(path),
    host: host === undefined ? undefined : shared(host),
    route: route === undefined ? undefined : shared(route),
  }
  if (entry.type === 'value') {
    const { encoding, body } = entry
    return { type: 'value', encoding, body, provenance, parsed: undefined, copy: undefined }
  }
  const vary = entry.vary.length === 0 ? NONE : deepCopy(entry.vary)
  return copyOf(entry, vary, provenance, entry.initialAgeMs)
}

/** The entry with a greater age. */
export function agedBy(entry: StoredEntry, ms: number): StoredEntry {
  if (entry.type === 'value') return entry
  return copyOf(entry, entry.vary, entry.provenance, entry.initialAgeMs + ms)
}

/**
 * One object literal, because each spread object gets its own hidden class and costs ten times as
 * much.
 */
function copyOf(
  { status, fields, body, minted, own, kind }: StoredResponse,
  vary: StoredResponse['vary'],
  provenance: Provenance,
  initialAgeMs: number,
): StoredResponse {
  return {
    type: 'response',
    status,
    fields,
    body,
    initialAgeMs,
    vary,
    provenance,
    minted,
    own,
    kind,
  }
}

const NONE: readonly never[] = []

/** A deep copy of JSON data, whose strings do not reference longer ones. */
function deepCopy<T>(part: T): T {
  return JSON.parse(JSON.stringify(part)) as T
}

/** Memory of an array with a name and a value, without their characters. */
export const PAIR_BYTES = 64

/** A constant, because a literal in a function is a new object for each call. */
const WIDE = /[^\0-\xff]/

/**
 * Memory of a string: a header, and one byte per character. If any character is outside Latin-1, V8
 * uses two bytes per character.
 */
export function stringBytes(text: string): number {
  return 24 + (WIDE.test(text) ? 2 : 1) * text.length
}
