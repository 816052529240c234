// Fingerprints of requests: hashes of method, path, query, media type, content coding and body.
// `exact` covers the bytes of the body, `canonical` its meaning. The order of JSON members, query
// parameters and form fields does not change `canonical`, nor does another multipart boundary.

import { isUtf8 } from 'node:buffer'
import { types } from 'node:util'
import { type RequestHeaders, requestField, trimOws } from '../http/headers.ts'
import type { RequestView } from '../ports/exchange.ts'
import type { Fingerprints } from '../ports/idempotency-store.ts'
import type { RequestBody } from '../ports/idempotent-exchange.ts'
import { canonicalJson, canonicalValue, jsonOf } from './canonical-json.ts'
import type { KeyedHash } from './keyed-hash.ts'

/** How bodies are compared. With `bytes`, only equal bytes are the same request. */
export type FingerprintMode = 'canonical' | 'bytes'

/**
 * Raised when the hashed parts change. After that, a repeat of a request from before the change
 * gets a 422.
 */
const VERSION = '2'

/** The reason for which a body has no fingerprint. */
export type NoFingerprint = 'unseen' | 'too-large' | 'incomplete'

/**
 * The fingerprints of a request, or the reason why there are none. `unseen`: other code read the
 * body. `too-large`: also for a body that is nested too deep.
 */
export function fingerprint(
  names: KeyedHash,
  request: RequestView,
  body: RequestBody,
  mode: FingerprintMode,
): Fingerprints | NoFingerprint {
  if (body.type === 'too-large' || body.type === 'unseen' || body.type === 'incomplete')
    return body.type
  const media = mediaOf(request.headers)
  const content = contentOf(body, media, mode)
  if (typeof content === 'string') return content
  const head = [...targetParts(request), media.type, media.coding]
  const { exact, canonical } = content
  return {
    exact: exact ? names.fingerprint([VERSION, 'exact', ...head, ...exact]) : '',
    canonical: canonical ? names.fingerprint([VERSION, 'canonical', ...head, ...canonical]) : '',
  }
}

/**
 * The fingerprint from `value`, which the user's function returned. The fingerprint covers method,
 * path and `value`, but not the query. Undefined if JSON cannot represent `value`.
 */
export function fingerprintOfValue(
  names: KeyedHash,
  request: RequestView,
  value: unknown,
): Fingerprints | undefined {
  const json = canonicalValue(value)
  if (json === undefined) return undefined
  const [path] = request.target.split('?', 1)
  const parts = [VERSION, 'custom', methodPart(request), path, json]
  return { exact: '', canonical: names.fingerprint(parts) }
}

type Parts = ReadonlyArray<string | Uint8Array | undefined>

/** The parts of a body that are hashed. Undefined: the part is unknown. */
type Content = Readonly<Record<keyof Fingerprints, Parts | undefined>>

/**
 * `type` is in lower case, without parameters. `isPlain`: whether the bytes are UTF-8 without a
 * content coding.
 */
type Media = ReturnType<typeof mediaOf>

/** The method, which has no space, and the reason why the framework chose the handler. */
function methodPart({ method, chosenBy }: RequestView): string {
  return chosenBy === undefined ? method : `${method} ${chosenBy}`
}

function targetParts(request: RequestView): Parts {
  const { target } = request
  const method = methodPart(request)
  const mark = target.indexOf('?')
  if (mark === -1) return [method, target, undefined]
  return [method, target.slice(0, mark), sortedPairs(target.slice(mark + 1))]
}

function mediaOf(headers: RequestHeaders) {
  const field = requestField(headers, 'content-type')
  const type = field === undefined ? undefined : trimOws(field.split(';', 1)[0] ?? '').toLowerCase()
  const coding = requestField(headers, 'content-encoding')?.toLowerCase()
  const isJson = type === 'application/json' || type?.endsWith('+json') === true
  const [charset = 'utf-8', ...others] = parameters(field, 'charset')
  const isUtf8 = others.length === 0 && /^utf-?8$/i.test(charset)
  const isPlain = isUtf8 && [undefined, '', 'identity'].includes(coding)
  const [boundary, another] = parameters(field, 'boundary')
  return { type, coding, isJson, isPlain, boundary: another === undefined ? boundary : undefined }
}

/**
 * RFC 9110 §5.6.6: all values of a parameter. If there are two, parsers differ in which one they
 * use.
 */
function parameters(field: string | undefined, name: string): string[] {
  const values: string[] = []
  if (field?.includes(';') !== true) return values
  for (const [, key, token, quoted] of field.matchAll(PARAMETER)) {
    if (key?.toLowerCase() === name) values.push(token ?? quoted?.replace(/\\(.)/g, '$1') ?? '')
  }
  return values
}

const PARAMETER =
  /;[ \t]*([!#$%&'*+\-.^_`|~\w]+)=(?:([!#$%&'*+\-.^_`|~\w]+)|"([^"\\]*(?:\\.[^"\\]*)*)")/g

function contentOf(
  body: Exclude<RequestBody, { type: NoFingerprint }>,
  media: Media,
  mode: FingerprintMode,
): Content | 'unseen' | 'too-large' {
  if (body.type === 'none')
    return { exact: [undefined], canonical: mode === 'bytes' ? undefined : ['none'] }
  const value = body.type === 'bytes' ? body.bytes : body.value
  if (types.isUint8Array(value)) return bytesContent(value, media, mode)
  // With a JSON type, a string may be unparsed JSON text or a parsed JSON string. The mode `bytes`
  // treats it as text, the mode `canonical` as a parsed value.
  if (typeof value === 'string' && (mode === 'bytes' || !media.isJson)) {
    return bytesContent(Buffer.from(value), media, mode)
  }
  return valueContent(value, mode)
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

function bytesContent(bytes: Uint8Array, media: Media, mode: FingerprintMode): Content {
  const isCanonical = media.isPlain && mode === 'canonical'
  return { exact: [bytes], canonical: isCanonical ? canonicalParts(bytes, media) : undefined }
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
