// Which responses are kept, and what of them is given to a later request with the same key. What belongs to
// one request or one connection, or is set anew by middlewares around us, is not kept.

import { brotliDecompressSync, gunzipSync, inflateRawSync, inflateSync } from 'node:zlib'
import { headerValue, headerValues, lastingHeaders, trimOws } from '../http/headers.ts'
import { normaliseField } from '../http/vary.ts'
import type { HeaderList } from '../ports/exchange.ts'

/** Nothing was decided yet: who the caller is, whether it is its turn, or whether all of it arrived. */
const UNDECIDED: ReadonlySet<number> = new Set([401, 403, 407, 408, 421, 425, 429])

/** What is not kept is released, and the next request runs the handler. 304 speaks of a copy the first client had. */
export function isKept(status: number): boolean {
  return status >= 200 && status < 500 && status !== 304 && !UNDECIDED.has(status)
}

const NOT_REPLAYED: ReadonlySet<string> = new Set([
  // Of one answer, and the way it took.
  'date',
  'via',
  'idempotency-replayed',
])

/** CORS answers to one origin; limits are those of the moment. */
const NOT_REPLAYED_PREFIXES: readonly string[] = [
  'access-control-',
  'ratelimit',
  'x-ratelimit',
  'x-rate-limit',
]

/** On top of what the cache leaves out (RFC 9110 §7.6.1, cookies, ids of one request). */
export function replayableHeaders(headers: HeaderList): HeaderList {
  return lastingHeaders(headers).filter(([name]) => {
    if (NOT_REPLAYED.has(name)) return false
    return !NOT_REPLAYED_PREFIXES.some((prefix) => name.startsWith(prefix))
  })
}

/** Mostly set by middlewares around us for every answer, perhaps with a nonce of its own; then theirs counts. */
const PROTECTING: ReadonlySet<string> = new Set([
  'strict-transport-security',
  'x-frame-options',
  'x-content-type-options',
  'referrer-policy',
  'permissions-policy',
  'origin-agent-cluster',
  'x-dns-prefetch-control',
  'x-download-options',
  'x-permitted-cross-domain-policies',
  'x-powered-by',
  'x-xss-protection',
])
const PROTECTING_PREFIXES: readonly string[] = ['content-security-policy', 'cross-origin-']

/** What is kept, without what middlewares around us have set for this answer already. */
export function headersBeside(headers: HeaderList, isSet: (name: string) => boolean): HeaderList {
  return headers.filter(([name]) => {
    const protects =
      PROTECTING.has(name) || PROTECTING_PREFIXES.some((prefix) => name.startsWith(prefix))
    return !protects || !isSet(name)
  })
}

/** A small body may have been packed from a very large one. */
const MAX_DECODED_BYTES = 64 * 1024 * 1024

/** RFC 9530, and what came before it: hashes of the content as it was coded. */
const OF_CODED_CONTENT: ReadonlySet<string> = new Set([
  'content-encoding',
  'content-digest',
  'repr-digest',
  'digest',
  'content-md5',
])

/**
 * RFC 9110 §12.5.3: the kept body as this client can read it. A client that names no codings gets none:
 * it may take any by the letter, but what sends no Accept-Encoding seldom decodes. Unchanged where it
 * cannot be decoded: several codings, one that is not known here, part of a body, a broken one.
 */
export function decodeFor(
  acceptEncoding: string | undefined,
  headers: HeaderList,
  body: Uint8Array,
): { headers: HeaderList; body: Uint8Array } {
  const codings = headerValues(headers, 'content-encoding')
  const coding = trimOws(codings[0] ?? '').toLowerCase()
  const isPart = headerValue(headers, 'content-range') !== undefined
  if (codings.length !== 1 || isPart || accepts(acceptEncoding, coding)) return { headers, body }
  const decoded = decode(coding, body)
  if (decoded === undefined) return { headers, body }
  const kept = headers.filter(([name]) => !OF_CODED_CONTENT.has(name))
  return { headers: kept.map((field) => withWeakTag(field)), body: decoded }
}

/** RFC 9110 §12.5.3; `x-gzip` is gzip (§8.4.1.3). */
function accepts(acceptEncoding: string | undefined, coding: string): boolean {
  const members = normaliseField('accept-encoding', acceptEncoding ?? '').split(', ')
  const names = coding === 'gzip' || coding === 'x-gzip' ? ['gzip', 'x-gzip'] : [coding]
  if (names.some((name) => members.includes(`${name};q=0`))) return false
  return members.includes('*') || names.some((name) => members.includes(name))
}

/**
 * RFC 9110 §8.8.3.3: a strong tag names the coded bytes, and these are others; a weak one says that they
 * mean the same, which they do, and still answers If-None-Match.
 */
function withWeakTag([name, value]: HeaderList[number]): HeaderList[number] {
  return name === 'etag' && value.startsWith('"') ? [name, `W/${value}`] : [name, value]
}

/** `undefined` when it cannot be decoded. */
function decode(coding: string, body: Uint8Array): Uint8Array | undefined {
  const options = { maxOutputLength: MAX_DECODED_BYTES }
  try {
    if (coding === 'gzip' || coding === 'x-gzip') return gunzipSync(body, options)
    if (coding === 'br') return brotliDecompressSync(body, options)
    if (coding !== 'deflate') return undefined
    // RFC 9110 §8.4.1.2: with the header of zlib, which some leave out.
    const hasHeader = ((body[0] ?? 0) & 0x0f) === 8
    return hasHeader ? inflateSync(body, options) : inflateRawSync(body, options)
  } catch {
    return undefined
  }
}
