// Fingerprints of requests: hashes of method, path, query, media type, content coding and body.
// `exact` covers the bytes of the body, `canonical` its meaning. The order of JSON members, query
// parameters and form fields does not change `canonical`, nor does another multipart boundary.

import { isUtf8 } from 'node:buffer'
import { createHash } from 'node:crypto'
import { types } from 'node:util'
import type { RequestBody, RequestView } from '../ports/exchange.ts'
import type { Fingerprints } from '../ports/idempotency-store.ts'
import { type RequestHeaders, requestField, trimOws } from './headers.ts'

/** How bodies are compared. With `bytes`, only equal bytes are the same request. */
export type FingerprintMode = 'canonical' | 'bytes'

/**
 * Raised when the hashed parts change. After that, a repeat of a request from before the change
 * gets a 422.
 */
const VERSION = '2'
const EXACT: Parts = [VERSION, 'exact']
const CANONICAL: Parts = [VERSION, 'canonical']

/** The reason for which a body has no fingerprint. */
export type NoFingerprint = 'unseen' | 'too-large' | 'incomplete'

interface Hashes {
  fingerprint(parts: Parts): string
}

/**
 * The fingerprints of a request, or the reason why there are none. `unseen`: other code read the
 * body. `too-large`: also for a body that is nested too deep.
 */
export function fingerprint(
  names: Hashes,
  request: RequestView,
  body: RequestBody,
  mode: FingerprintMode,
): Fingerprints | NoFingerprint {
  if (body.type === 'too-large' || body.type === 'unseen' || body.type === 'incomplete')
    return body.type
  const media = mediaOf(request.headers)
  const content = contentOf(body, media, mode)
  if (typeof content === 'string') return content
  // Arrays that are built with `concat` have no spare places, unlike those of spread elements.
  const head = targetParts(request).concat(media.type, media.coding)
  const { exact, canonical } = content
  return {
    exact: exact ? names.fingerprint(EXACT.concat(head, exact)) : '',
    canonical: canonical ? names.fingerprint(CANONICAL.concat(head, canonical)) : '',
  }
}

/** Whether two requests are equal: one of their fingerprints is. An empty one equals none. */
export function isSameRequest(one: Fingerprints, other: Fingerprints): boolean {
  if (one.exact !== '' && one.exact === other.exact) return true
  return one.canonical !== '' && one.canonical === other.canonical
}

/**
 * The fingerprint from `value`, which the user's function returned. The fingerprint covers method,
 * path and `value`, but not the query. Undefined if JSON cannot represent `value`.
 */
export function fingerprintOfValue(
  names: Hashes,
  request: RequestView,
  value: unknown,
): Fingerprints | undefined {
  const json = canonicalValue(value)
  if (json === undefined) return undefined
  const [method, path] = targetParts(request)
  const parts = [VERSION, 'custom', method, path, json]
  return { exact: '', canonical: names.fingerprint(parts) }
}

export type Parts = ReadonlyArray<string | Uint8Array | undefined>

/** The parts of a body that are hashed. Undefined: the part is unknown. */
export type Content = Readonly<Record<keyof Fingerprints, Parts | undefined>>

/** Facts about a body, from the fields of its request. */
export interface Media {
  /** In lower case, without parameters. */
  readonly type: string | undefined
  readonly coding: string | undefined
  readonly isJson: boolean
  /** Whether the bytes are UTF-8 without a content coding. */
  readonly isPlain: boolean
  readonly boundary: string | undefined
}

/**
 * Method, path and query. A method has no space. After it comes the reason why the framework chose
 * the handler.
 */
function targetParts({ method: sent, chosenBy, target }: RequestView): Parts {
  const method = chosenBy === undefined ? sent : `${sent} ${chosenBy}`
  const mark = target.indexOf('?')
  if (mark === -1) return [method, target, undefined]
  return [method, target.slice(0, mark), sortedPairs(target.slice(mark + 1))]
}

export function mediaOf(headers: RequestHeaders): Media {
  const field = requestField(headers, 'content-type')
  const type = field === undefined ? undefined : trimOws(field.split(';', 1)[0] ?? '').toLowerCase()
  const coding = requestField(headers, 'content-encoding')?.toLowerCase()
  const isJson = type === 'application/json' || type?.endsWith('+json') === true
  const { charset, boundary } = field?.includes(';') === true ? parametersOf(field) : NONE
  const isUtf8 = charset.length === 0 || (charset.length === 1 && UTF_8.test(charset[0] ?? ''))
  const isPlain = isUtf8 && (coding === undefined || coding === '' || coding === 'identity')
  return { type, coding, isJson, isPlain, boundary: boundary.length > 1 ? undefined : boundary[0] }
}

const UTF_8 = /^utf-?8$/i

/**
 * RFC 9110 §5.6.6: all values of two parameters. If one has two values, parsers differ in which one
 * they use.
 */
interface Parameters {
  readonly charset: string[]
  readonly boundary: string[]
}

const NONE: Parameters = { charset: [], boundary: [] }

function parametersOf(field: string): Parameters {
  const found: Parameters = { charset: [], boundary: [] }
  for (const [, key, token, quoted] of field.matchAll(PARAMETER)) {
    const name = key?.toLowerCase()
    if (name === 'charset' || name === 'boundary')
      found[name].push(token ?? quoted?.replace(/\\(.)/g, '$1') ?? '')
  }
  return found
}

const PARAMETER =
  /;[ \t]*([!#$%&'*+\-.^_`|~\w]+)=(?:([!#$%&'*+\-.^_`|~\w]+)|"([^"\\]*(?:\\.[^"\\]*)*)")/g

/**
 * The parts of a body that identify it: its bytes, and its meaning if the mode and its type allow.
 */
export function contentOf(
  body: Exclude<RequestBody, { type: NoFingerprint }>,
  media: Media,
  mode: FingerprintMode,
): Content | 'unseen' | 'too-large' {
  if (body.type === 'none')
    return { exact: [undefined], canonical: mode === 'bytes' ? undefined : ['none'] }
  let bytes = body.type === 'bytes' ? body.bytes : body.value
  // With a JSON type, a string may be unparsed JSON text or a parsed JSON string. The mode `bytes`
  // treats it as text, the mode `canonical` as a parsed value.
  if (typeof bytes === 'string' && (mode === 'bytes' || !media.isJson)) bytes = Buffer.from(bytes)
  if (!types.isUint8Array(bytes)) return valueContent(bytes, mode)
  const isCanonical = media.isPlain && mode === 'canonical'
  return { exact: [bytes], canonical: isCanonical ? canonicalParts(bytes, media) : undefined }
}

function valueContent(value: unknown, mode: FingerprintMode): Content | 'unseen' | 'too-large' {
  const canonical = mode === 'bytes' ? undefined : canonicalValue(value)
  if (canonical !== undefined) return { exact: undefined, canonical: ['json', canonical] }
  try {
    const json = jsonOf(value)
    if (json === undefined) return 'unseen'
    return { exact: [Buffer.from(json)], canonical: undefined }
  } catch (error) {
    return error instanceof RangeError ? 'too-large' : 'unseen'
  }
}

function canonicalParts(bytes: Uint8Array, { type, isJson, boundary }: Media): Parts | undefined {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  if (isJson) {
    // Invalid UTF-8 has no canonical form. Decoding would replace different bytes by the same
    // U+FFFD. A byte order mark is dropped, as in parsers.
    if (!isUtf8(buffer)) return undefined
    const canonical = canonicalJson(buffer.toString().replace(/^\ufeff/, ''))
    return canonical === undefined ? undefined : ['json', canonical]
  }
  if (type === 'application/x-www-form-urlencoded') {
    return ['pairs', sortedPairs(buffer.toString('latin1'))]
  }
  if (type !== 'multipart/form-data' || boundary === undefined) return undefined
  const parts = multipart(buffer, boundary)
  return parts === undefined ? undefined : ['multipart', ...parts]
}

/** Parsers stop at some number of pairs (qs at 1 000). Beyond it, the order of pairs matters. */
const MOST_PAIRS = 1_000

/**
 * The pairs of a query or form, sorted by name. Each pair stays as received, so `+` differs from
 * `%20`. Pairs with one name stay in order. `a`, `a[]` and `a.b` count as one name, because parsers
 * build one list from them. The text stays unsorted if parsers disagree about its names, because it
 * has `;` or an invalid percent-encoding.
 */
function sortedPairs(text: string): string {
  const pairs = text.split('&', MOST_PAIRS + 1)
  if (pairs.length < 2 || pairs.length > MOST_PAIRS || text.includes(';')) return text
  const named: Array<readonly [name: string, pair: string]> = []
  for (const pair of pairs) {
    const [name = ''] = pair.split('=', 1)
    try {
      named.push([decodeURIComponent(name.replaceAll('+', ' ')).split(/[[.]/, 1)[0] ?? '', pair])
    } catch {
      return text
    }
  }
  named.sort(([a], [b]) => (a < b ? -1 : Number(a > b)))
  return named.map(([, pair]) => pair).join('&')
}

/** RFC 2046 §5.1.1. The search for a long delimiter would take quadratic time. */
const LONGEST_BOUNDARY = 70

/**
 * RFC 2046 §5.1.1: the parts between the delimiters. Undefined if there is other text, or a
 * delimiter that only some parsers accept.
 */
function multipart(body: Buffer, boundary: string): Uint8Array[] | undefined {
  if (boundary.length > LONGEST_BOUNDARY) return undefined
  const delimiter = Buffer.from(`\r\n--${boundary}`, 'latin1')
  if (boundary === '' || !body.subarray(0, delimiter.length - 2).equals(delimiter.subarray(2))) {
    return undefined
  }
  const parts: Uint8Array[] = []
  for (let at = delimiter.length - 2; ; ) {
    const line = body.toString('latin1', at, at + 4)
    const isClose = line === '--' || line === '--\r\n'
    if (isClose && at + line.length === body.length) return parts
    const end = line.startsWith('\r\n') ? body.indexOf(delimiter, at) : -1
    if (end === -1) return undefined
    parts.push(body.subarray(at, end))
    at = end + delimiter.length
  }
}

// Canonical JSON: one text for all JSON texts that JSON.parse reads as the same value. Members are
// sorted by name, and the last of several members of one name counts.

/** Deepest nesting. Real requests stay below it, and recursive code in handlers can process it. */
const DEEPEST = 512

/** A number that JSON.parse may round, or read as 0 or Infinity. A double has 15 exact digits. */
const ROUNDED = /\d(?:\.?\d){15}|\d[eE][+-]?\d{3}/
/** Without its last quote, a string ends with the text. That keeps the time linear. */
const STRINGS = /"[^"\\]*(?:\\.[^"\\]*)*"?/g

/**
 * Canonical form of a text. Undefined if it is not valid JSON (RFC 8259) or nested too deep, or has
 * a number that JSON.parse may round: 9007199254740993 would equal 9007199254740992.
 */
export function canonicalJson(text: string): string | undefined {
  try {
    const value: unknown = JSON.parse(text)
    const isRounded = ROUNDED.test(text) && ROUNDED.test(text.replace(STRINGS, ''))
    return isRounded ? undefined : sorted(value, 0)
  } catch {
    return undefined
  }
}

/** The members of all objects in a JSON text. Each has a colon, and strings are left out. */
export function countMembers(json: string): number {
  return json.replace(STRINGS, '').split(':').length - 1
}

/** Canonical form of a value. Undefined if JSON cannot represent it, or it is nested too deep. */
export function canonicalValue(value: unknown): string | undefined {
  try {
    return sorted(value, 0) ?? sorted(JSON.parse(jsonOf(value) ?? ''), 0)
  } catch {
    return undefined
  }
}

const PLAIN_TEXT = /^[ !#-[\]-~]*$/

function quoted(text: string): string {
  return PLAIN_TEXT.test(text) ? `"${text}"` : JSON.stringify(text)
}

/**
 * Undefined unless the value is as JSON.parse returns it, in at most `DEEPEST` levels. JSON writes
 * NaN, Infinity and an undefined item as null. Here each has its name, so that it is not null.
 */
function sorted(value: unknown, depth: number): string | undefined {
  if (typeof value === 'string') return quoted(value)
  if (typeof value === 'number') return Object.is(value, -0) ? '-0' : String(value)
  if (value === null || typeof value === 'boolean') return String(value)
  if (typeof value !== 'object' || depth === DEEPEST) return undefined
  const isArray = Array.isArray(value)
  const prototype: unknown = Object.getPrototypeOf(value)
  if (prototype !== (isArray ? Array.prototype : Object.prototype)) return undefined
  const members = value as Readonly<Record<string, unknown>>
  if (typeof members.toJSON === 'function') return undefined
  // `+=` does not copy. `join` would copy an inner value once per level.
  let text = ''
  for (const name of isArray ? value.keys() : Object.keys(members).sort()) {
    const item = members[name]
    const inner = isArray && item === undefined ? 'undefined' : sorted(item, depth + 1)
    if (inner === undefined) return undefined
    text += `${text === '' ? '' : ','}${isArray ? '' : `${quoted(name as string)}:`}${inner}`
  }
  return isArray ? `[${text}]` : `{${text}}`
}

/**
 * JSON.stringify, but with the hash of bytes in place of the bytes. Throws the errors of
 * JSON.stringify (a RangeError for deep nesting). Also throws for an object with content that JSON
 * writes as `{}`.
 */
function jsonOf(value: unknown): string | undefined {
  return JSON.stringify(value, replacer)
}

function replacer(this: unknown, key: string, value: unknown): unknown {
  // `value` of a Buffer is already an array of numbers, because its toJSON runs before the
  // replacer.
  const own = (this as Record<string, unknown>)[key]
  if (types.isUint8Array(own)) {
    return { 'stampede:bytes': createHash('sha256').update(own).digest('base64url') }
  }
  if (isEmptyInJson(value)) throw new TypeError('JSON cannot represent this object')
  return value
}

/** Whether JSON writes an object as `{}` although it has content: a Promise, Map, Set or RegExp. */
function isEmptyInJson(value: unknown): boolean {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  // The prototype of a plain object in each realm is the end of its prototype chain.
  if (prototype === null || Object.getPrototypeOf(prototype) === null) return false
  return Object.keys(value).length === 0
}
