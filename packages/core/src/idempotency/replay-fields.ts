// The parts of a stored response that a repeat gets. These are the fields that no middleware has
// set, and the body in a coding that the client accepts.

import { brotliDecompressSync, gunzipSync, inflateRawSync, inflateSync } from 'node:zlib'
import { acceptsCoding } from '../http/content-coding.ts'
import { headerValue, headerValues, trimOws } from '../http/headers.ts'
import type { HeaderList } from '../ports/exchange.ts'

/**
 * Security fields that middlewares set for each response, some with a nonce. If a middleware sets
 * one, the stored value is not used.
 */
const PROTECTING: ReadonlySet<string> = new Set([
  ...['strict-transport-security', 'x-frame-options', 'x-content-type-options', 'x-powered-by'],
  ...['referrer-policy', 'permissions-policy', 'origin-agent-cluster', 'x-xss-protection'],
  ...['x-dns-prefetch-control', 'x-download-options', 'x-permitted-cross-domain-policies'],
])
const PROTECTING_PREFIX = /^(?:content-security-policy|cross-origin-)/

/** The stored fields, without security fields that a middleware set already for this response. */
export function withoutSetFields(
  headers: HeaderList,
  isSet: (name: string) => boolean,
): HeaderList {
  return headers.filter(([name]) => {
    const protects = PROTECTING.has(name) || PROTECTING_PREFIX.test(name)
    return !protects || !isSet(name)
  })
}

/** Largest decompressed body, because a small compressed body may expand to a very large one. */
const MAX_DECODED_BYTES = 64 * 1024 * 1024

/** Fields about the compressed bytes: the coding, and digests (RFC 9530 and its predecessors). */
const CODED_CONTENT_FIELD = /^(?:content-encoding|(?:content-|repr-)?digest|content-md5)$/

/**
 * RFC 9110 §12.5.3: the stored body in a coding that this client accepts. A client without
 * Accept-Encoding gets an uncompressed body. The RFC allows any coding then, but such clients
 * seldom decode one. A body stays as it is if it is a range or damaged, or has an unknown coding or
 * several ones.
 */
export function decodeFor(
  acceptEncoding: string | undefined,
  headers: HeaderList,
  body: Uint8Array,
): { headers: HeaderList; body: Uint8Array } {
  const codings = headerValues(headers, 'content-encoding')
  const coding = trimOws(codings[0] ?? '').toLowerCase()
  const isPart = headerValue(headers, 'content-range') !== undefined
  if (codings.length !== 1 || isPart) return { headers, body }
  if (acceptsCoding(acceptEncoding ?? '', coding)) return { headers, body }
  const decoded = decode(coding, body)
  if (decoded === undefined) return { headers, body }
  const kept = headers.filter(([name]) => !CODED_CONTENT_FIELD.test(name))
  return { headers: kept.map((field) => withWeakEtag(field)), body: decoded }
}

/**
 * RFC 9110 §8.8.3.3: a strong ETag identifies the compressed bytes, so it becomes weak for the
 * decompressed ones. A weak ETag still works with If-None-Match.
 */
function withWeakEtag([name, value]: HeaderList[number]): HeaderList[number] {
  return name === 'etag' && value.startsWith('"') ? [name, `W/${value}`] : [name, value]
}

/** The decompressed body, or undefined if it cannot be decompressed. */
function decode(coding: string, body: Uint8Array): Uint8Array | undefined {
  const options = { maxOutputLength: MAX_DECODED_BYTES }
  try {
    if (coding === 'gzip' || coding === 'x-gzip') return gunzipSync(body, options)
    if (coding === 'br') return brotliDecompressSync(body, options)
    if (coding !== 'deflate') return undefined
    // RFC 9110 §8.4.1.2: `deflate` has a zlib header, which some servers leave out.
    const hasHeader = ((body[0] ?? 0) & 0x0f) === 8
    return hasHeader ? inflateSync(body, options) : inflateRawSync(body, options)
  } catch {
    return undefined
  }
}
