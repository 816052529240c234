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

/**
 * Options of getOrSet. All durations are whole milliseconds, up to 366 days. A wrong value rejects
 * the call with `ERR_STAMPEDE_OPTION`. `T` is the type of the value.
 */
export interface GetOrSetOptions<T = unknown> {
  /**
   * How long the value is fresh, at least 1. Or a function of the value as callers get it. If the
   * function throws or returns no duration, the call rejects. Required.
   */
  ttlMs: number | ((value: T) => number)
  /** How long a stale value is served while one process refreshes it. Default 0. */
  staleWhileRevalidateMs?: number
  /** How long a stale value is served if the factory fails. Default 0. */
  staleIfErrorMs?: number
  /** How long a stale value is kept for the factory, as `context.previous`. Default 0. */
  keepMs?: number
  /**
   * Names by which `purge({ tag })` finds the value, at most 256: `['products']`, or a function of
   * the value as callers get it. If the function throws, the call rejects. Default: none.
   */
  tags?: readonly string[] | ((value: T) => readonly string[])
  /**
   * Shortens each lifetime by a random part, up to this fraction of it, so that values do not
   * expire together. 0 to 0.5. Default 0.1.
   */
  jitter?: number
  /**
   * How long other processes wait for a process that fills but no longer renews its lease. A living
   * process renews it. It is at least 100. Default 5 000.
   */
  leaseMs?: number
  /**
   * How long a call waits for the fill of another call, or for a concurrency slot (see
   * `originConcurrency` of `createStampede`). Then it runs the factory itself, if a slot is free.
   * Else it rejects with `ERR_STAMPEDE_WAIT_TIMEOUT`. Default 30 000.
   */
  waitMs?: number
  /**
   * How long a fill may take. Then its `signal` is aborted, and the fill counts as failed: all
   * callers get an error, or the stale value that `staleIfErrorMs` allows. It is at least 1.
   * Default 30 000.
   */
  originTimeoutMs?: number
  /**
   * How long calls wait for a fill before they get a stale value, if there is one. The fill goes
   * on. It is at least 1. Default: no such limit.
   */
  softTimeoutMs?: number
  /**
   * Random early refresh: values are refreshed in the background shortly before they expire, once
   * in the fleet. The published factor (XFetch) is 1. Larger factors refresh earlier. 0 to 100.
   * Default 0: off.
   */
  earlyRefresh?: number
  /**
   * True: the call purges the key in the whole fleet first, and runs the factory. Default false.
   */
  forceFresh?: boolean
}

/** The checked options of one call, with all defaults. */
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

type Options = Readonly<Partial<Record<keyof GetOrSetOptions, unknown>>>

/** Options that were checked recently, and their result. The next call mostly has equal ones. */
interface Checked {
  readonly options: Options
  /** Number of options that are not `undefined`. */
  readonly count: number
  readonly plan: Plan
}

const recent: Checked[] = []
const MOST_RECENT = 8

export function readPlan<T>(options: GetOrSetOptions<T>): Plan {
  if (typeof options === 'object' && options !== null) {
    for (const checked of recent) if (isEqual(options, checked)) return checked.plan
  }
  const bag = checkNames(WHERE, options, NAMES)
  // Each option is read once, because a getter may return another value the next time.
  const copy: Bag = Object.fromEntries(NAMES.map((name) => [name, bag[name]]))
  const plan: Plan = { ...readOptions(WHERE, copy, OPTIONS), revalidate: 'background' }
  // The caller may change an array of tags later.
  if (Array.isArray(copy.tags)) return plan
  if (recent.length === MOST_RECENT) recent.pop()
  recent.unshift({ options: copy, count: countIn(bag), plan })
  return plan
}

/**
 * Compares the values, not the objects. A caller may use one object for all calls and change it, or
 * make a new one for each call.
 */
function isEqual(options: Options, checked: Checked): boolean {
  return countIn(options) === checked.count && isSame(options, checked.options)
}

/**
 * The number of options that are not `undefined`, including unknown names. A higher number than
 * that of the checked options means that there is an unknown name, which must be refused.
 */
function countIn(options: Bag): number {
  let count = 0
  for (const name in options) if (options[name] !== undefined) count += 1
  return count
}

/** Compares each option by name, because that is faster than a loop. A test checks the names. */
function isSame(a: Options, b: Options): boolean {
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

/** The lifetime of one value. Throws if the function throws or returns no duration. */
export function ttlOf(rule: Plan['ttlMs'], value: () => unknown): number {
  if (typeof rule === 'number') return rule
  return lifetimeMs(`${WHERE}.ttlMs()`, rule(value() as never) ?? null)
}
