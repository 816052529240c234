// The options of getOrSet: their types, defaults and checks.

import { optionError } from '../errors.ts'
import type { Policy } from '../flight/policy.ts'
import {
  DEFAULT_LEASE_MS,
  DEFAULT_ORIGIN_TIMEOUT_MS,
  DEFAULT_WAIT_MS,
  earlyRefresh,
  jitter,
} from '../flight/policy.ts'
import { type Bag, checkNames, durationMs, flag, type Reader, readOptions } from '../options.ts'
import { readTags, type TagsRule } from '../tags.ts'

/** Options of getOrSet. All durations in milliseconds. `T` is what `tags` is given. */
export interface GetOrSetOptions<T = unknown> {
  /** How long the value is fresh. A function is given the value as callers get it. */
  ttlMs: number | ((value: T) => number)
  /** How long after that it is still answered with while one process refreshes it. Default 0. */
  staleWhileRevalidateMs?: number
  /** How long after that it is answered with when the factory fails. Default 0. */
  staleIfErrorMs?: number
  /** How long after going stale it is kept for the factory to compare with, as `context.previous`. Default 0. */
  keepMs?: number
  /** Names under which the value can be purged, together with others: `purge({ tag })`. A function is given the value. Default: none. */
  tags?: readonly string[] | ((value: T) => readonly string[])
  /** Shortens each lifetime by a random part of itself, up to this fraction. 0 to 0.5, default 0.1. */
  jitter?: number
  /** How long a silent filler is trusted before another may try; renewed while it lives. Default 5 000. */
  leaseMs?: number
  /** How long to wait for another's fill, or for a place among `originConcurrency`, before running the factory oneself. Default 30 000. */
  waitMs?: number
  /** When a fill is given up: its `signal` is aborted, and everybody who waits gets an error, or what `staleIfErrorMs` allows. Default 30 000. */
  originTimeoutMs?: number
  /**
   * When a fill is late: everybody who waits is given what is stale or kept for errors, if there is something, and the fill goes on behind.
   * Default: never.
   */
  softTimeoutMs?: number
  /**
   * Refreshes fresh values before their time, behind the answer, once in the fleet: the likelier the nearer their end and the slower the
   * factory, by this factor. 1 is as published (XFetch), more begins earlier. 0 to 100, default 0: off.
   */
  earlyRefresh?: number
  /** Purges the key first, in the whole fleet, and runs the factory. Default false. */
  forceFresh?: boolean
}

export interface Plan extends Policy {
  readonly ttlMs: number | ((value: never) => unknown)
  readonly staleWhileRevalidateMs: number
  readonly staleIfErrorMs: number
  readonly keepMs: number
  readonly tags: TagsRule
  readonly jitter: number
  readonly forceFresh: boolean
}

export const WHERE = 'getOrSet'
const lifetimeMs: Reader<number> = durationMs(0, 1)
const OPTIONS = {
  ttlMs: readTtlMs,
  staleWhileRevalidateMs: durationMs(0),
  staleIfErrorMs: durationMs(0),
  keepMs: durationMs(0),
  tags: readTags,
  jitter,
  leaseMs: durationMs(DEFAULT_LEASE_MS, 100),
  waitMs: durationMs(DEFAULT_WAIT_MS),
  originTimeoutMs: durationMs(DEFAULT_ORIGIN_TIMEOUT_MS, 1),
  softTimeoutMs: durationMs(undefined, 1),
  earlyRefresh,
  forceFresh: flag(false),
} satisfies Record<keyof GetOrSetOptions, Reader>

export const NAMES: readonly string[] = Object.keys(OPTIONS)

type Said = Readonly<Partial<Record<keyof GetOrSetOptions, unknown>>>

/** Options of late, as they were, with what they came to; the next call mostly says the same. */
interface Known {
  readonly said: Said
  readonly count: number
  readonly plan: Plan
}

const recent: Known[] = []
const MOST_RECENT = 8

export function readPlan<T>(options: GetOrSetOptions<T>): Plan {
  if (typeof options === 'object' && options !== null) {
    for (const known of recent) if (isSaid(options, known)) return known.plan
  }
  const bag = checkNames(WHERE, options, NAMES)
  // Each is read once, be it inherited or a getter: what is compared is what was checked.
  const said: Bag = Object.fromEntries(NAMES.map((name) => [name, bag[name]]))
  const plan: Plan = { ...readOptions(WHERE, said, OPTIONS), revalidate: 'background' }
  // A list may have other tags the next time.
  if (Array.isArray(said.tags)) return plan
  if (recent.length === MOST_RECENT) recent.pop()
  recent.unshift({ said, count: countIn(bag), plan })
  return plan
}

/** Compared by value: options may be one object for all calls, which its owner changes, or a new one for each. */
function isSaid(options: Said, { said, count }: Known): boolean {
  return countIn(options) === count && isSame(options, said)
}

/** Also of names that are unknown. What is `undefined` is left out, or an unknown name could stand in its place. */
function countIn(options: Bag): number {
  let count = 0
  for (const name in options) if (options[name] !== undefined) count += 1
  return count
}

/** Name by name, as engines are fast at; a test compares them with NAMES. */
function isSame(a: Said, b: Said): boolean {
  return (
    a.ttlMs === b.ttlMs &&
    a.staleWhileRevalidateMs === b.staleWhileRevalidateMs &&
    a.staleIfErrorMs === b.staleIfErrorMs &&
    a.keepMs === b.keepMs &&
    a.tags === b.tags &&
    a.jitter === b.jitter &&
    a.leaseMs === b.leaseMs &&
    a.waitMs === b.waitMs &&
    a.originTimeoutMs === b.originTimeoutMs &&
    a.softTimeoutMs === b.softTimeoutMs &&
    a.earlyRefresh === b.earlyRefresh &&
    a.forceFresh === b.forceFresh
  )
}

function readTtlMs(where: string, value: unknown): Plan['ttlMs'] {
  if (typeof value === 'function') return value as Plan['ttlMs']
  if (value !== undefined) return lifetimeMs(where, value)
  throw optionError(where, value, 'pass how long the value is fresh: { ttlMs: 10_000 }')
}

/** The lifetime of one value. Throws what the function threw, or that it returned no duration. */
export function ttlOf(rule: Plan['ttlMs'], value: () => unknown): number {
  if (typeof rule === 'number') return rule
  return lifetimeMs(`${WHERE}.ttlMs()`, rule(value() as never) ?? null)
}
