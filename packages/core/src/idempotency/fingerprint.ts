// What makes two requests the same: method, path, query, media type, content coding and body, each with its
// length. `exact` is of the bytes; `canonical` of what they mean, where that can be told for certain: JSON
// members, query parameters and form fields in another order, and another multipart boundary, are the same.

import { isUtf8 } from 'node:buffer'
import { types } from 'node:util'
import { type RequestHeaders, requestField, trimOws } from '../http/headers.ts'
import type { RequestView } from '../ports/exchange.ts'
import type { Fingerprints } from '../ports/idempotency-store.ts'
import type { RequestBody } from '../ports/idempotent-exchange.ts'
import {
  canonicalJson,
  canonicalPlain,
  canonicalText,
  canonicalValue,
  jsonOf,
} from './canonical-json.ts'
import type { KeyedHash } from './keyed-hash.ts'

/** `bytes`: only the same bytes are the same. */
export type FingerprintMode = 'canonical' | 'bytes'

/** Changes with what the parts below mean; records of before then match nothing, which is answered with 422. */
const VERSION = '1'

/** There was a body that nothing can be said of. */
export type NotSeen = 'unseen' | 'too-large' | 'incomplete'

/** `unseen`: there was a body, and nothing is known of it; `too-large` also when it is nested too deep. */
export function fingerprint(
  names: KeyedHash,
  request: RequestView,
  body: RequestBody,
  mode: FingerprintMode,
): Fingerprints | NotSeen {
  if (body.type === 'too-large' || body.type === 'unseen' || body.type === 'incomplete')
    return body.type
  const media = mediaOf(request.headers)
  const content = contentOf(body, media, mode)
  if (typeof content === 'string') return content
  const head = [...target(request), media.type, media.coding]
  const hash = (part: 'exact' | 'canonical', rest: Parts | undefined): string =>
    rest === undefined ? '' : names.fingerprint([VERSION, part, ...head, ...rest])
  return {
    exact: hash('exact', content.exact),
    canonical: mode === 'bytes' ? '' : hash('canonical', content.canonical),
  }
}

/**
 * What the user's own function made of the request; method and path still count, the query does not.
 * `undefined` when there is no JSON for `value`.
 */
export function customFingerprint(
  names: KeyedHash,
  { method, target }: RequestView,
  value: unknown,
): Fingerprints | undefined {
  const json = canonicalValue(value)
  if (json === undefined) return undefined
  const [path] = target.split('?', 1)
  return { exact: '', canonical: names.fingerprint([VERSION, 'custom', method, path, json]) }
}

type Parts = ReadonlyArray<string | Uint8Array | undefined>

/** `undefined`: not known. */
interface Content {
  readonly exact: Parts | undefined
  readonly canonical: Parts | undefined
}

interface Media {
  /** Lower-case, without parameters. */
  readonly type: string | undefined
  readonly coding: string | undefined
  readonly isJson: boolean
  /** Nothing is to be undone before the bytes can be read as UTF-8. */
  readonly isPlain: boolean
  readonly boundary: string | undefined
}

function target({ method, target }: RequestView): Parts {
  const mark = target.indexOf('?')
  if (mark === -1) return [method, target, undefined]
  return [method, target.slice(0, mark), sortedPairs(target.slice(mark + 1))]
}

function mediaOf(headers: RequestHeaders): Media {
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

/** RFC 9110 §5.6.6: every value of a parameter. Readers differ in which of two they take. */
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
  body: Exclude<RequestBody, { type: NotSeen }>,
  media: Media,
  mode: FingerprintMode,
): Content | 'unseen' | 'too-large' {
  if (body.type === 'none') return { exact: [undefined], canonical: ['none'] }
  if (body.type === 'bytes') return ofBytes(body.bytes, media)
  const { value } = body
  if (types.isUint8Array(value)) return ofBytes(value, media)
  // A string under a JSON type may be text or a JSON string: its bytes say which only when they are asked for.
  if (typeof value === 'string' && (mode === 'bytes' || !media.isJson)) {
    return ofBytes(Buffer.from(value), media)
  }
  return ofValue(value, mode)
}

function ofValue(value: unknown, mode: FingerprintMode): Content | 'unseen' | 'too-large' {
  let json: string | undefined
  try {
    const plain = mode === 'bytes' ? undefined : canonicalPlain(value)
    if (plain !== undefined) return { exact: undefined, canonical: ['json', plain] }
    json = jsonOf(value)
  } catch (error) {
    return error instanceof RangeError ? 'too-large' : 'unseen'
  }
  if (json === undefined) return 'unseen'
  const canonical = canonicalText(json)
  const isExact = mode === 'bytes' || canonical === undefined
  return {
    exact: isExact ? [Buffer.from(json)] : undefined,
    canonical: canonical === undefined ? undefined : ['json', canonical],
  }
}

function ofBytes(bytes: Uint8Array, media: Media): Content {
  return { exact: [bytes], canonical: media.isPlain ? meaning(bytes, media) : undefined }
}

function meaning(bytes: Uint8Array, { type, isJson, boundary }: Media): Parts | undefined {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  if (isJson) {
    // Bad bytes mean nothing, and are not made U+FFFD; a byte order mark is dropped, as parsers do.
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

/** Parsers stop at some number of parameters (qs at 1 000): of more, the order says which are read. */
const MOST_PAIRS = 1_000

/**
 * Pairs as received (`+` is not `%20`), sorted by the name a parser reads in them; those of one name stay in
 * order, and `a`, `a[]` and `a.b` are of one name, because a list is made of them. As received where
 * parsers disagree about names: `;` separates in some, and bad escapes are read differently.
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

/**
 * RFC 2046 §5.1.1: the parts between the delimiters; `undefined` unless that is all there is, and no
 * delimiter is one to some readers only.
 */
function multipart(body: Buffer, boundary: string): Uint8Array[] | undefined {
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
