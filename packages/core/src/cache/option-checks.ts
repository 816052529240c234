// Checks of the options of stampedeCache that are not a number, a choice or a function, with their
// defaults. Each check returns the value that the rest of the code uses.

import { optionError } from '../errors.ts'
import { bytes, checkNames, choice, DEFAULT_WAIT_MS, durationMs, readStrings } from '../options.ts'
import { OWN_FIELD } from '../ports/exchange.ts'

export type QueryRule =
  | { readonly only: readonly string[] }
  | { readonly ignore: readonly string[] }
type BodyKey = (native: unknown) => unknown
export interface QueryBodyRule {
  readonly maxBytes: number
  readonly key: 'canonical' | 'bytes' | BodyKey
}
export type AuthorizationRule = 'bypass' | 'ignore' | { readonly ignore: readonly string[] }
export type CookiesRule = 'bypass' | 'ignore' | { readonly key: readonly string[] }

/** A field name (RFC 9110 §5.1). */
const FIELD_NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/

const BODY = choice('canonical', 'bytes')
const MAX_BYTES = bytes(65_536)
const METHODS: ReadonlySet<unknown> = new Set(['GET', 'QUERY'])

/** The rules for the query of a URL and for the body of a QUERY. */
export interface QueryRules {
  readonly query: QueryRule
  readonly queryBody: QueryBodyRule
}

/** The checked options that decide which parts of a request are in the key. */
export interface KeyConfig extends QueryRules {
  /** Field names, lower-case and sorted. */
  readonly vary: readonly string[]
  readonly cookies: CookiesRule
}

/** Returns the methods, with HEAD. */
export function readMethods(where: string, value: unknown = ['GET']): ReadonlySet<string> {
  if (Array.isArray(value) && value.includes('GET') && value.every((each) => METHODS.has(each)))
    return new Set([...value, 'HEAD'])
  throw optionError(where, value, "use ['GET'] or ['GET', 'QUERY']")
}

/**
 * Returns copies. If the app could change a list later, the keys of stored entries would differ.
 */
export function readQuery(where: string, value: unknown): QueryRules {
  const isList = Array.isArray(value)
  if (!isList && typeof value !== 'object' && value !== undefined) {
    throw optionError(where, value, "use ['page'], or { ignore: ['utm_source'] }")
  }
  const names = ['ignore', ...BODY_RULES]
  const { ignore, body, maxBytes } = isList ? {} : checkNames(where, value, names)
  const needsIgnore = value !== undefined && body === undefined && maxBytes === undefined
  const ignored = needsIgnore ? ignore : (ignore ?? [])
  const key = typeof body === 'function' ? (body as BodyKey) : BODY(`${where}.body`, body)
  return {
    query: isList
      ? { only: value.length === 0 ? [] : [...readStrings(where, value)] }
      : { ignore: [...readStrings(`${where}.ignore`, ignored)] },
    queryBody: { key, maxBytes: MAX_BYTES(`${where}.maxBytes`, maxBytes) },
  }
}

const BODY_RULES = ['body', 'maxBytes'] as const

/** Throws for a rule for the body of a QUERY. */
export function refuseBodyRules(where: string, query: object | undefined): void {
  for (const name of BODY_RULES) {
    const value: unknown = query && Reflect.get(query, name)
    if (value !== undefined)
      throw optionError(`${where}.${name}`, value, "add methods: ['GET', 'QUERY']")
  }
}

export function readVary(where: string, value: unknown): readonly string[] {
  return lowerSorted(readFields(where, value, "name request headers: ['accept-language']", ALL))
}

/** Whether `Vary` of the response (`names`) or the option `vary` names a request field. */
export function variesBy(
  names: readonly string[] | '*',
  config: Pick<KeyConfig, 'vary'>,
  name: string,
): boolean {
  return names === '*' || names.includes(name) || config.vary.includes(name)
}

/** The fix if responses depend on a request field for which `variesBy` is false. */
export const varyFix = (name: string): string =>
  `use vary: ['${name}'], or name it in Vary of the response`

/** `*` is a valid field name, but stands for all fields in Vary. */
const ALL: ReadonlySet<string> = new Set(['*'])

function readFields(
  where: string,
  value: unknown,
  fix: string,
  refused: ReadonlySet<string>,
): readonly string[] {
  const names = value === undefined ? [] : readStrings(where, value)
  for (const name of names) {
    if (!FIELD_NAME.test(name) || refused.has(name.toLowerCase()))
      throw optionError(where, name, fix)
  }
  return names
}

export function readCookies(where: string, value: unknown): CookiesRule {
  if (value === undefined || value === 'bypass' || value === 'ignore') return value ?? 'bypass'
  if (typeof value !== 'object' || Array.isArray(value)) {
    throw optionError(where, value, "use 'bypass', 'ignore' or { key: ['name'] }")
  }
  const bag = checkNames(where, value, ['key'])
  const key = readStrings(`${where}.key`, bag.key)
  if (key.length > 0) return { key: [...key].sort() }
  throw optionError(`${where}.key`, key, "name a cookie, or use cookies: 'ignore'")
}

export function readAuthorization(where: string, value: unknown): AuthorizationRule {
  if (value === undefined || value === 'bypass' || value === 'ignore') return value ?? 'bypass'
  const fix = "use 'bypass', 'ignore' or { ignore: ['x-tenant-id'] }"
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw optionError(where, value, fix)
  const bag = checkNames(where, value, ['ignore'])
  const at = `${where}.ignore`
  const names = readStrings(at, bag.ignore)
  if (names.length === 0) throw optionError(at, names, 'name a request header')
  for (const name of readFields(at, names, "name request headers: ['x-tenant-id']", ALL)) {
    if (name.toLowerCase() === 'cookie') throw optionError(at, name, "use cookies: 'ignore'")
  }
  return { ignore: lowerSorted(names) }
}

/** Statuses that are stored although the response names no lifetime. The default of `statuses`. */
const STORED_BY_DEFAULT: ReadonlySet<number> = new Set([200, 203, 300, 301, 308])

/**
 * Statuses that are never stored. Such a response is for one caller, for one moment or for a part
 * of the body. A 304 has no body to store.
 */
export const NEVER_STORED: ReadonlySet<number> = new Set([
  206, 304, 401, 403, 407, 408, 421, 425, 429,
])

export function readStatuses(where: string, value: unknown): ReadonlySet<number> {
  if (value === undefined) return STORED_BY_DEFAULT
  const fix = 'use an array of statuses from 200 to 499'
  if (!Array.isArray(value)) throw optionError(where, value, fix)
  for (const [i, status] of value.entries()) {
    const at = `${where}[${i}]`
    if (!Number.isInteger(status) || status < 200 || status > 499)
      throw optionError(at, status, fix)
    if (NEVER_STORED.has(status))
      throw optionError(at, status, 'this status is never stored; leave it out')
  }
  return new Set(value)
}

/** Returns `OWN_FIELD`, followed by the names of the option in their order. */
export function readTargetedFields(where: string, value: unknown): readonly string[] {
  const fix = "name response fields: ['CDN-Cache-Control']"
  const names = readFields(where, value, fix, REPLACED_FIELDS)
  return [...new Set([OWN_FIELD, ...names.map((name) => name.toLowerCase())])]
}

/** Fields that a targeted field replaces. */
const REPLACED_FIELDS: ReadonlySet<string> = new Set(['cache-control', 'expires', 'pragma'])

/**
 * Checks `waitMs`. Before version 0.1 the option was an object `{ ms, fallback }`, so the error for
 * an object shows the present form.
 */
export function readWaitMs(where: string, value: unknown): number {
  if (typeof value !== 'object' || value === null) return durationMs(DEFAULT_WAIT_MS)(where, value)
  throw optionError(where, value, "use { waitMs: 30_000, afterWait: 'unavailable' }")
}

/** A token (RFC 9651 §3.3.4). */
const TOKEN = /^[A-Za-z*][\w!#$%&'*+\-.^`|~:/]*$/

/** The name becomes part of a header, so it must be a token. */
export function readCacheName(where: string, value: unknown): string | undefined {
  if (value === false) return undefined
  if (value === undefined || value === true) return 'Stampede'
  if (typeof value === 'string' && TOKEN.test(value)) return value
  throw optionError(where, value, 'use true, false, or a name such as "Stampede"')
}

function lowerSorted(names: readonly string[]): readonly string[] {
  return [...new Set(names.map((name) => name.toLowerCase()))].sort()
}
