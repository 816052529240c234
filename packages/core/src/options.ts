// Checks of options: unknown names, wrong types and values out of range, with the fix in the error.
// An option with the value `undefined` has its default.

import { optionError } from './errors.ts'

/** Longest duration of an option: 366 days, in ms. */
export const LONGEST_MS: number = 366 * 24 * 3600 * 1000

export type Bag = Readonly<Record<string, unknown>>

/**
 * Throws if the options are not an object, or if one has an unknown name. The error suggests the
 * known name that is closest to it.
 */
export function checkNames(
  where: string,
  options: unknown,
  known: readonly string[],
  hints?: ReadonlyMap<string, string>,
): Bag {
  if (options === undefined) return {}
  if (typeof options !== 'object' || options === null || Array.isArray(options)) {
    throw optionError(where, options, 'pass an object of options')
  }
  for (const name of Object.keys(options)) {
    if (known.includes(name)) continue
    const fix = hints?.get(name) ?? meantBy(name, known)
    throw optionError(`${where}.${name}`, (options as Bag)[name], `there is no such option; ${fix}`)
  }
  return options as Bag
}

/**
 * Names that other libraries have for one option, in lower case, without hyphens and underscores.
 * Then our options and how to use them, of which the first that the function has counts. Then the
 * fix for a function that has none of them.
 */
const FOREIGN: ReadonlyArray<readonly [names: string, ours: readonly string[], fix: string]> = [
  [
    'ttl maxage expire expires expiry expiration expiresin duration lifetime cachetime',
    ['ttlMs', 'retentionMs', 'leaseMs'],
    'ttlMs is an option of stampedeCache and getOrSet',
  ],
  [
    'swr stale stalettl stalewhilerevalidate',
    ['staleWhileRevalidateMs'],
    'staleWhileRevalidateMs is an option of stampedeCache and getOrSet',
  ],
  [
    'grace graceperiod staleiferror',
    ['staleIfErrorMs'],
    'staleIfErrorMs is an option of stampedeCache and getOrSet',
  ],
  [
    'timeout timeoutms',
    ['originTimeoutMs', 'commandTimeoutMs', 'waitMs'],
    'originTimeoutMs is an option of stampedeCache and getOrSet, waitMs of acquire and run',
  ],
  ['store', ['stampede: createStampede({ store })'], 'store is an option of createStampede'],
  [
    'redis redisclient client',
    ['store: redisStore(redis)', 'stampede: createStampede({ store: redisStore(redis) })'],
    'pass it to the store: createStampede({ store: redisStore(redis) })',
  ],
  [
    'prefix keyprefix namespace',
    ['prefix'],
    'prefix is an option of the store: redisStore(redis, { prefix })',
  ],
]

/** Says which option is probably meant, or lists the known ones. */
function meantBy(name: string, known: readonly string[]): string {
  const near = nearest(name, known)
  const plain = name.toLowerCase().replace(/[-_]/g, '')
  const [, ours, elsewhere] = FOREIGN.find(([names]) => names.split(' ').includes(plain)) ?? []
  const nameOf = (use: string) => use.replace(/:.*/, '')
  const mine = ours?.find((use) => known.includes(nameOf(use)))
  const isNear = ours === undefined || (mine !== undefined && nameOf(mine) === near)
  if (near !== undefined && isNear) return `did you mean ${near}?`
  if (mine !== undefined) return `use ${mine}${mine.endsWith('Ms') ? ', in milliseconds' : ''}`
  return elsewhere ?? `known options: ${known.join(', ')}`
}

/**
 * Throws for a request or a Koa context. They come as options if an app mounts a function itself
 * instead of the middleware that it returns.
 */
export function checkCalled(where: string, options: unknown, example: string): void {
  if (typeof options !== 'object' || options === null) return
  const isRequest = 'method' in options && 'headers' in options
  if (!isRequest && !('req' in options && 'res' in options)) return
  throw optionError(where, options, `it is mounted without being called; mount ${example}`)
}

/** Checks the value of one option, or returns its default. `where` is its name in errors. */
export type Reader<T = unknown> = (where: string, value: unknown) => T

export type Readers = Readonly<Record<string, Reader>>

/** The type of the options that a table of readers has checked. */
export type ReadBy<R extends Readers> = { readonly [Name in keyof R]: ReturnType<R[Name]> }

/** Options that are all set. */
export type Defined<T> = { readonly [Name in keyof T]-?: Exclude<T[Name], undefined> }

/**
 * Checks an object of options with a table that has one reader per option. `hints`: names that a
 * user may try, each with its fix.
 */
export function readOptions<R extends Readers>(
  where: string,
  options: unknown,
  readers: R,
  hints?: ReadonlyMap<string, string>,
): ReadBy<R> {
  const names = Object.keys(readers)
  const bag = checkNames(where, options, names, hints)
  const read: Record<string, unknown> = {}
  for (const name of names) read[name] = readers[name]?.(`${where}.${name}`, bag[name])
  return read as ReadBy<R>
}

export interface NumberRule {
  readonly min: number
  readonly max: number
  /**
   * Unit in the error, such as `milliseconds`. For a fraction, it is the quantity that the fraction
   * multiplies.
   */
  readonly unit: string
  /** Whether fractions are allowed. Default false. */
  readonly fraction?: boolean
}

/** Reader of a number in a range. */
export function number<T>(fallback: T, rule: NumberRule): Reader<number | T> {
  const { min, max, unit, fraction = false } = rule
  const range = `from ${min} to ${max}`
  const fix = fraction
    ? `use a number ${range}, as a multiple of ${unit}`
    : `use a whole number of ${unit} ${range}`
  return (where, value) => {
    if (value === undefined) return fallback
    const isNumber = typeof value === 'number' && (fraction || Number.isInteger(value))
    if (isNumber && value >= min && value <= max) return value
    throw optionError(where, value, fix)
  }
}

/** A reader of an option that is a duration in ms, of at least `minMs`. */
export function durationMs<T>(fallback: T, minMs = 0): Reader<number | T> {
  return number(fallback, { min: minMs, max: LONGEST_MS, unit: 'milliseconds' })
}

export function bytes<T>(fallback: T): Reader<number | T> {
  return number(fallback, { min: 0, max: 2 ** 40, unit: 'bytes' })
}

/** Reader of a boolean. */
export function flag(fallback: boolean): Reader<boolean> {
  return (where, value = fallback) => {
    if (typeof value === 'boolean') return value
    throw optionError(where, value, 'use true or false')
  }
}

/** Reader of a function or undefined. The type of the function is not checked. */
export function callback<T>(): Reader<T | undefined> {
  return (where, value) => {
    if (value === undefined || typeof value === 'function') return value as T | undefined
    throw optionError(where, value, 'use a function')
  }
}

/** Reader of a value that is checked by the code that uses it, or that needs no check. */
export function unchecked<T = unknown>(fallback?: T): Reader<T> {
  return (_where, value = fallback) => value as T
}

/** Reader of one of the given strings. The first one is the default. */
export function choice<const T extends string>(...choices: readonly [T, ...T[]]): Reader<T> {
  return (where, value = choices[0]) => {
    if (choices.includes(value as T)) return value as T
    throw optionError(where, value, `use one of ${choices.map((c) => `'${c}'`).join(', ')}`)
  }
}

export function readStrings(where: string, value: unknown): readonly string[] {
  const fix = 'use an array of non-empty strings'
  if (!Array.isArray(value)) throw optionError(where, value, fix)
  for (const [i, item] of value.entries()) {
    if (typeof item !== 'string' || item === '') throw optionError(`${where}[${i}]`, item, fix)
  }
  return value as readonly string[]
}

/** The known name that is closest to a mistyped one, or undefined if none is close. */
export function nearest(name: string, known: readonly string[]): string | undefined {
  const lower = name.toLowerCase()
  const extended = known.find((k) => k.toLowerCase().startsWith(lower) && k !== name)
  if (extended !== undefined && lower.length >= 3) return extended
  let best: string | undefined
  let bestDistance = Math.max(2, Math.floor(name.length / 3)) + 1
  for (const candidate of known) {
    const distance = editDistance(lower, candidate.toLowerCase())
    if (distance < bestDistance) [best, bestDistance] = [candidate, distance]
  }
  return best
}

/** Levenshtein distance of two strings. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const substitution = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1)
      next.push(Math.min(substitution, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1))
    }
    row = next
  }
  return row[b.length] ?? 0
}

/** Readers of options for the packages around core. */
export const readers: {
  readonly choice: typeof choice
  readonly durationMs: typeof durationMs
  readonly flag: typeof flag
  readonly number: typeof number
} = { choice, durationMs, flag, number }

export const DEFAULT_WAIT_MS = 30_000
export const DEFAULT_ORIGIN_TIMEOUT_MS = 30_000
