// Entries: stored responses and values, how long they may be used, and copies of their memory.

import { WINDOWS, type Windows } from '../fill-options.ts'
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
  /** All stale windows. They begin at `staleAt`. */
  readonly windows: Windows
  /** The counters of this process for the route of the entry. */
  readonly counts?: RouteCounts | undefined
}

/**
 * The entry with its times on the clock of this process. At `now`, its age is `ageMs`, and it stays
 * fresh for `freshMs`.
 */
export function heldEntry(
  entry: StoredEntry,
  fence: string,
  freshMs: number,
  windows: Windows,
  now: number,
  counts?: RouteCounts,
  ageMs = 0,
): HeldEntry {
  const staleAt = now + freshMs
  const revalidateUntil = staleAt + windows.staleWhileRevalidateMs
  return { entry, fence, bornAt: now - ageMs, staleAt, revalidateUntil, windows, counts }
}

/**
 * Ends the freshness of an entry at `at`, if that is earlier than before. Its stale windows then
 * begin at `at`.
 */
export function staleFrom(held: HeldEntry, at: number): HeldEntry {
  if (at >= held.staleAt) return held
  return { ...held, staleAt: at, revalidateUntil: at + held.windows.staleWhileRevalidateMs }
}

/** Ends the freshness of an entry and its stale window for refreshes. */
export function onlyForErrors(held: HeldEntry, now: number): HeldEntry {
  const stale = staleFrom(held, now)
  const staleIfErrorMs = errorMs(stale.windows)
  const windows = { ...stale.windows, staleWhileRevalidateMs: 0, staleIfErrorMs }
  return { ...stale, revalidateUntil: stale.staleAt, windows }
}

/** Time from which the entry is neither fresh nor in a stale window. */
export function endOfEntry(held: HeldEntry): number {
  return held.staleAt + longest(held.windows)
}

/** RFC 5861 §4: whether the entry may be served if the fill fails or takes too long. */
export function mayServeOnError(held: HeldEntry, now: number): boolean {
  return now < held.staleAt + errorMs(held.windows)
}

/** An entry that may be served during a refresh may also be served if the refresh fails. */
function errorMs({ staleWhileRevalidateMs, staleIfErrorMs }: Windows): number {
  return Math.max(staleWhileRevalidateMs, staleIfErrorMs)
}

// Code that treats all stale windows alike.

const NAMES = Object.keys(WINDOWS) as ReadonlyArray<keyof Windows>

export const NO_WINDOWS: Windows = Object.fromEntries(NAMES.map((name) => [name, 0])) as Windows

function longest(windows: Windows): number {
  let ms = 0
  for (const name of NAMES) ms = Math.max(ms, windows[name])
  return ms
}

// Lifetimes of a new entry, with jitter, so that keys filled together do not expire together. The
// jitter is applied once, when the entry is written, so that all processes agree.

/** The store keeps a record for this much longer than its entry may be used. */
const MARGIN_MS = 1_000

/** The rest of `lifetimes` after `elapsedMs`. Stale windows begin when freshness ends. */
export function remaining(lifetimes: Lifetimes, elapsedMs: number): Lifetimes {
  if (elapsedMs === 0) return lifetimes
  const overdueMs = Math.max(0, elapsedMs - lifetimes.freshMs)
  const left: Record<keyof Lifetimes, number> = { ...lifetimes }
  left.freshMs = Math.max(0, left.freshMs - elapsedMs)
  left.physicalMs = Math.max(1, left.physicalMs - elapsedMs)
  for (const name of NAMES) left[name] = Math.max(0, left[name] - overdueMs)
  return left
}

/**
 * Whether the entry is neither fresh nor in a stale window, so that no later request can use it.
 */
export function isSpent(lifetimes: Lifetimes): boolean {
  return lifetimes.freshMs <= 0 && longest(lifetimes) === 0
}

/**
 * Lifetimes with jitter. The logical TTL (freshness) is shortened by up to `jitter` of itself. It
 * is never lengthened, because caches between the client and this one rely on max-age. The physical
 * TTL (deletion) covers the longest stale window. It is lengthened by up to `jitter` of the logical
 * TTL, so that entries filled together are not deleted together.
 */
export function withJitter(
  lifetimeMs: number,
  windows: Windows,
  jitter: number,
  random: () => number,
): Lifetimes {
  const freshMs = Math.max(1, Math.round(lifetimeMs * (1 - jitter * random())))
  const extra = Math.round(lifetimeMs * jitter * random())
  const lives: Record<keyof Lifetimes, number> = { ...NO_WINDOWS, freshMs, physicalMs: 0 }
  let longestMs = 0
  for (const name of NAMES) {
    lives[name] = windows[name]
    longestMs = Math.max(longestMs, windows[name])
  }
  lives.physicalMs = freshMs + longestMs + MARGIN_MS + extra
  return lives
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
 * in memory. Header fields are copies already (`toFields`), and the body is not copied. `tookMs` is
 * the duration of the fill.
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
