// The content of a QUERY (RFC 10008): its body, and a digest of it for the key. If a handler may
// treat two bodies differently, their digests differ.

import { createHash } from 'node:crypto'
import { bodyUnseen } from '../errors.ts'
import type { BypassDetail } from '../http/cache-status.ts'
import {
  canonicalValue,
  contentOf,
  countMembers,
  mediaOf,
  type Parts,
} from '../http/fingerprint.ts'
import { type RequestHeaders, requestField } from '../http/headers.ts'
import type { Exchange, QueryContent, RequestBody } from '../ports/exchange.ts'
import { CACHE_FUNCTION, type CacheConfig } from './cache-options.ts'
import { callOption } from './key.ts'

/**
 * Reads the body of a QUERY, and sets `content` of the request. Returns a reason instead if the
 * response cannot be shared. Rejects with `ERR_STAMPEDE_BODY_UNSEEN` if another layer has read the
 * body.
 */
export async function readContent<Native>(
  exchange: Exchange<Native>,
  { queryBody }: CacheConfig<Native>,
): Promise<BypassDetail | undefined> {
  const { request, native } = exchange
  const refused = refusal(request.headers, queryBody.maxBytes)
  if (refused !== undefined) return refused
  const body = (await exchange.readBody?.(queryBody.maxBytes)) ?? UNSEEN
  const content = describe(request.headers, body, queryBody, native)
  if (typeof content === 'string') return content
  request.content = content
  return undefined
}

/** The content of a QUERY with these fields and this body, or why the cache is bypassed. */
export function queryContent<Native>(
  headers: RequestHeaders,
  bytes: Uint8Array,
  { queryBody }: CacheConfig<Native>,
  native: Native,
): QueryContent | BypassDetail {
  if (bytes.byteLength > queryBody.maxBytes) return 'body-too-large'
  const body: RequestBody = bytes.byteLength === 0 ? { type: 'none' } : { type: 'bytes', bytes }
  return refusal(headers, queryBody.maxBytes) ?? describe(headers, body, queryBody, native)
}

/** The reason for which the body need not be read. */
function refusal(headers: RequestHeaders, maxBytes: number): BypassDetail | undefined {
  // RFC 10008 §2: the server must refuse such a request, perhaps with a response of its own.
  if (typeOf(headers) === undefined) return 'content-type'
  const transfer = requestField(headers, 'transfer-encoding') ?? 'chunked'
  if (!CODINGS.has(codingOf(headers)) || transfer.toLowerCase() !== 'chunked') return 'request-body'
  return Number(requestField(headers, 'content-length')) > maxBytes ? 'body-too-large' : undefined
}

const codingOf = (headers: RequestHeaders): string | undefined =>
  requestField(headers, 'content-encoding')?.toLowerCase()

const typeOf = (headers: RequestHeaders): string | undefined =>
  mediaType(requestField(headers, 'content-type') ?? '')

function describe<Native>(
  headers: RequestHeaders,
  body: RequestBody,
  { key }: CacheConfig<Native>['queryBody'],
  native: Native,
): QueryContent | BypassDetail {
  if (body.type === 'too-large') return 'body-too-large'
  if (body.type === 'incomplete') return 'request-body'
  const parts =
    typeof key === 'function' ? partsOfValue(key, native) : partsOfBody(headers, body, key)
  if (parts === undefined) return 'request-body'
  const language = requestField(headers, 'content-language')
  const head = JSON.stringify([typeOf(headers), language ?? null, codingOf(headers) ?? null])
  const hash = createHash('sha256').update(head)
  for (const part of parts) hash.update(part ?? '')
  return { body, digest: hash.digest('base64url') }
}

const UNSEEN: RequestBody = { type: 'unseen' }

/** Codings that handlers decode. The key has the coded bytes, so nothing is decoded here. */
const CODINGS: ReadonlySet<string | undefined> = new Set([
  ...[undefined, 'identity', 'gzip', 'x-gzip', 'deflate', 'br', 'zstd'],
])

const MEDIA_TYPE = /^([!#$%&'*+\-.^_`|~\w]+\/[!#$%&'*+\-.^_`|~\w]+)[ \t]*(?=;|$)/
const PARAMETER =
  /;[ \t]*(?:([!#$%&'*+\-.^_`|~\w]+)=([!#$%&'*+\-.^_`|~\w]+|"(?:[^"\\]|\\.)*")[ \t]*)?(?=;|$)/y

/** One spelling of a media type (RFC 9110 §8.3.1). Undefined if it is invalid. */
function mediaType(field: string): string | undefined {
  const [found, type] = MEDIA_TYPE.exec(field) ?? []
  if (found === undefined || type === undefined) return undefined
  const parameters: string[] = []
  for (PARAMETER.lastIndex = found.length; PARAMETER.lastIndex < field.length; ) {
    const [text, name, value = ''] = PARAMETER.exec(field) ?? []
    if (text === undefined) return undefined
    const isCharset = name?.toLowerCase() === 'charset'
    if (name !== undefined)
      parameters.push(`${name.toLowerCase()}=${isCharset ? value.toLowerCase() : value}`)
  }
  return [type.toLowerCase(), ...parameters].join(';')
}

function partsOfValue<Native>(key: (native: Native) => unknown, native: Native): Parts | undefined {
  try {
    const value = canonicalValue(callOption('query.body', key, native))
    return value === undefined ? undefined : ['value', value]
  } catch {
    return undefined
  }
}

/** The client forbids all changes, so only equal bytes are equal (RFC 10008 §2.7). */
const NO_TRANSFORM = /(?:^|[,\s])no-transform(?:[,\s]|$)/i

function partsOfBody(
  headers: RequestHeaders,
  body: RequestBody,
  mode: 'canonical' | 'bytes',
): Parts | undefined {
  if (body.type === 'unseen') throw bodyUnseen(CACHE_FUNCTION, 'query.body')
  if (body.type === 'too-large' || body.type === 'incomplete') return undefined
  const media = mediaOf(headers)
  const mayChange = !NO_TRANSFORM.test(requestField(headers, 'cache-control') ?? '')
  // The order of the fields of a form may matter, so a form is compared by its bytes.
  const isCanonical = mode === 'canonical' && media.isJson && mayChange
  const content = contentOf(body, media, isCanonical ? 'canonical' : 'bytes')
  if (typeof content === 'string') return undefined
  const { exact, canonical } = content
  if (canonical === undefined || (body.type === 'bytes' && isAmbiguous(body.bytes, canonical)))
    return exact && ['bytes', ...exact]
  return ['canonical', ...canonical]
}

/**
 * Whether parsers disagree about a JSON text with this canonical form: it has a byte order mark, or
 * two members of one name, of which some parsers take the first.
 */
function isAmbiguous(bytes: Uint8Array, [, canonical]: Parts): boolean {
  const text = Buffer.from(bytes).toString()
  return text.startsWith('\ufeff') || countMembers(text) !== countMembers(String(canonical))
}
