// The options of getOrSet, with their defaults and checks, and the context that its factory gets.

import type { Lead, Policy } from '../engine/types.ts'
import type { HeldEntry, StoredValue } from '../entry/entry.ts'
import { noPreviousValue, optionError, valueError } from '../errors.ts'
import { FILL_OPTIONS, type FillConfig, type FillRules } from '../fill-options.ts'
import {
  type Bag,
  checkNames,
  DEFAULT_ORIGIN_TIMEOUT_MS,
  DEFAULT_WAIT_MS,
  durationMs,
  number,
  type Reader,
  readOptions,
} from '../options.ts'
import { publicFence } from '../ports/grant.ts'
import { tagSubject } from '../ports/subject.ts'
import type { Runtime } from '../runtime.ts'
import { evaluateTags, TAGS, type TagsConfig, type ValueTags } from '../tags.ts'
import { decodeData, type Serializer } from './value.ts'

/**
 * Options of getOrSet. All durations are whole milliseconds, up to 366 days. A wrong option rejects
 * the call with `ERR_STAMPEDE_OPTION`. `T` is the type of the value.
 */
export interface GetOrSetOptions<T = unknown> extends FillRules, ValueTags<T> {
  /**
   * Required. How long the value is fresh, at least 1. A function gets the value in the form that
   * callers get. If the function throws or returns no duration, the call rejects.
   */
  ttlMs: number | ((value: T) => number)
  /**
   * How long a call waits for the fill of another caller, or for one of the `originConcurrency`
   * slots. If a slot is free after that time, the call runs the factory itself. Otherwise it gets
   * the stale value, or rejects with `ERR_STAMPEDE_WAIT_TIMEOUT`. Default 30 000.
   */
  waitMs?: number | undefined
  /**
   * A fill that takes longer than this counts as failed. Its `signal` is aborted, and callers get
   * the stale value that `staleIfErrorMs` allows, or an error. At least 1, default 30 000.
   */
  originTimeoutMs?: number | undefined
}

export interface Plan extends Policy, FillConfig, TagsConfig {
  readonly ttlMs: number | ((value: never) => unknown)
}

/** The cache and the checked options of a call. */
export interface DataScope {
  readonly rt: Runtime
  readonly plan: Plan
  readonly serializer: Serializer | undefined
  readonly keys: {
    /** Prefix of each key: the name of the cache and a colon, or empty. */
    readonly prefix: string
    /** The subject of the cache, which each of its values has. Empty without a name. */
    readonly subjects: readonly string[]
  }
}

export const WHERE = 'getOrSet'
const lifetimeMs: Reader<number> = durationMs(0, 1)
const OPTIONS = {
  ttlMs: readTtlMs,
  ...TAGS,
  waitMs: durationMs(DEFAULT_WAIT_MS),
  originTimeoutMs: durationMs(DEFAULT_ORIGIN_TIMEOUT_MS, 1),
  ...FILL_OPTIONS,
} satisfies Record<keyof GetOrSetOptions, Reader>

export const NAMES: readonly string[] = Object.keys(OPTIONS)

/**
 * Recently used options, with the result of their check (`plan`). Most calls use equal options,
 * which need no second check.
 */
interface Remembered {
  /** Names and checked values of the defined options, in the order in which the call had them. */
  readonly names: readonly string[]
  readonly values: readonly unknown[]
  /** Names of the options that are undefined. */
  readonly absent: readonly string[]
  readonly plan: Plan
}

const recent: Remembered[] = []
const MOST_RECENT = 8

export function readPlan<T>(options: GetOrSetOptions<T>): Plan {
  if (typeof options === 'object' && options !== null) {
    // By value: each call may have a new object, or one object that its owner changes.
    for (const known of recent) if (isSame(options as unknown as Bag, known)) return known.plan
  }
  const bag = checkNames(WHERE, options, NAMES)
  // Each option is read only once, because a getter could return another value the second time. So
  // the values that are remembered are those that were checked.
  const read: Bag = Object.fromEntries(NAMES.map((name) => [name, bag[name]]))
  const plan: Plan = { ...readOptions(WHERE, read, OPTIONS), revalidate: 'background' }
  const names: string[] = []
  for (const name in bag) if (read[name] !== undefined) names.push(name)
  // Options are not remembered if one cannot be listed, or if the owner of an array may change it.
  const defined = Object.values(read).filter((value) => value !== undefined)
  if (names.length < defined.length || defined.some(Array.isArray)) return plan
  if (recent.length === MOST_RECENT) recent.pop()
  const absent = NAMES.filter((name) => read[name] === undefined)
  recent.unshift({ names, values: names.map((name) => read[name]), absent, plan })
  return plan
}

/** Whether the defined options are those that are remembered, and no others. */
function isSame(options: Bag, { names, values, absent }: Remembered): boolean {
  let at = 0
  for (const name in options) {
    if (name === names[at] && options[name] === values[at]) at += 1
    else if (options[name] !== undefined) return false
  }
  if (at < names.length) return false
  // The loop above lists no accessors of a class, and no hidden members.
  for (const name of absent) if (options[name] !== undefined) return false
  return true
}

function readTtlMs(where: string, value: unknown): Plan['ttlMs'] {
  if (typeof value === 'function') return value as Plan['ttlMs']
  if (value !== undefined) return lifetimeMs(where, value)
  throw optionError(where, value, 'pass how long the value is fresh: { ttlMs: 10_000 }')
}

/**
 * The TTL of one value. Throws the error of the function, or an error if it returned no duration.
 */
export function ttlOf(rule: (value: never) => unknown, value: unknown): number {
  const where = `${WHERE}.ttlMs()`
  const ms = rule(value as never) ?? null
  if (ms !== 0) return lifetimeMs(where, ms)
  throw optionError(where, ms, 'to store nothing, return skip(value) from the factory')
}

/**
 * The subjects of a value: its cache and its tags. Throws the error of the function `tags`, or an
 * error if it returned no tags.
 */
export function subjectsOf(
  { plan: { tags }, serializer, keys }: DataScope,
  stored: StoredValue,
): readonly string[] {
  if (tags === undefined) return keys.subjects
  // A function gets the value in the form that callers get.
  const given = typeof tags === 'function' ? decodeData(stored, serializer) : undefined
  const named = evaluateTags(`${WHERE}.tags`, tags, given)
  return [...keys.subjects, ...named.map(tagSubject)]
}

// The context of a factory: fence, deadline, previous value, `notModified()` and `skip()`.

/**
 * The context of a factory. Its fields are getters, so `{ ...context }` copies none of them. `T` is
 * `unknown` if TypeScript infers the type of the value from the factory.
 */
export interface FactoryContext<T = unknown> {
  /**
   * Fencing token of this fill, greater than that of each earlier fill of the key. Undefined
   * without a lease, for example if the store is unavailable.
   */
  readonly fence: bigint | undefined
  /** Aborted after `originTimeoutMs`. The result is then not stored. */
  readonly signal: AbortSignal
  /**
   * The value from before this fill, if this process has it (see `keepMs`). `ageMs` is the time
   * since the value was computed or confirmed with `notModified()`.
   */
  readonly previous: { readonly value: T; readonly ageMs: number } | undefined
  /**
   * A factory returns `notModified()` if `previous` is still current. The lifetimes of `previous`
   * then begin again. Throws if there is no `previous`.
   */
  notModified(): never
  /**
   * A factory returns `skip(value)` to store nothing: `return skip(rates)`. Its caller gets the
   * value, and so do calls of this process that wait for it. An older value stays as it is. For
   * `skipMs`, other processes do not wait for this one but run their own factory, and a stale value
   * is not refreshed. 0 to 60 000, default 1 000. Throws `ERR_STAMPEDE_OPTION`.
   */
  skip<V>(value: V, skipMs?: number): V
}

/** Computes the value of a key for `getOrSet`. If it throws, the caller gets the error. */
export type Factory<T, P = T> = (context: FactoryContext<P>) => T | Promise<T>

/** The result of `notModified()`: a symbol, which no factory returns by chance. */
export const NOT_MODIFIED: unique symbol = Symbol('not modified')

/** The result of `skip()`, for the call with this lead only. */
export class Skip {
  readonly value: unknown
  readonly skipMs: number
  readonly lead: object

  constructor(value: unknown, skipMs: number, lead: object) {
    this.value = value
    this.skipMs = skipMs
    this.lead = lead
  }
}

export const DEFAULT_SKIP_MS = 1_000
const readSkipMs = number(DEFAULT_SKIP_MS, { min: 0, max: 60_000, unit: 'milliseconds' })

type ContextLead = Pick<Lead, 'fence' | 'signal'>

/** The parts of a `getOrSet` call that its context needs. */
interface ContextCall {
  /** Name of the call in errors. */
  readonly where: string
  parseHeld<V>(held: HeldEntry): { readonly value: V } | undefined
}

/**
 * Each field is computed when it is read. Hardly any factory reads one, and the signal alone would
 * be a tenth of the cost of a fill. This is a class, because V8 gives each object literal with
 * getters a hidden class of its own.
 */
export class FillContext<P> implements FactoryContext<P> {
  readonly #lead: ContextLead
  readonly #held: HeldEntry | undefined
  readonly #now: number
  readonly #call: ContextCall

  constructor(lead: ContextLead, held: HeldEntry | undefined, now: number, call: ContextCall) {
    this.#lead = lead
    this.#held = held
    this.#now = now
    this.#call = call
  }

  get fence(): bigint | undefined {
    return publicFence(this.#lead.fence)
  }

  get signal(): AbortSignal {
    return this.#lead.signal
  }

  get previous(): { readonly value: P; readonly ageMs: number } | undefined {
    const held = this.#held
    const parsed = held && this.#call.parseHeld<P>(held)
    return parsed && { value: parsed.value, ageMs: this.#now - held.bornAt }
  }

  /** Returns a function that does not use `this`, so that a factory can destructure the context. */
  get notModified(): () => never {
    return () => {
      if (this.#held === undefined) throw noPreviousValue(this.#call.where)
      return NOT_MODIFIED as never
    }
  }

  get skip(): <V>(value: V, skipMs?: number) => V {
    const lead = this.#lead
    return (value, skipMs) => new Skip(value, readSkipMs('skip: skipMs', skipMs), lead) as never
  }
}

export function storedValue(held: HeldEntry): StoredValue {
  if (held.entry.type === 'value') return held.entry
  throw valueError('getOrSet', 'a response is stored under a data key; purge that key')
}
