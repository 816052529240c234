// The reply to the client whose request runs the handler. The handler does not see the conditions
// and the range of that client.
//
// Revalidation (RFC 9111 §4.3): if the store has an entry from before a fill, the handler gets the
// `ETag` and `Last-Modified` of that entry as conditions, in place of the client's own conditions.
// If the handler responds 304, the client gets the full response that the 304 confirms. If the
// client's own conditions match, it gets a 304.
//
// A 304 with other validators cannot update the entry, and the cache has no other body. So the
// client of the fill gets the stored response, the entry is dropped, and the next fill gets a full
// response.

import type { HeldEntry, StoredResponse } from '../entry/entry.ts'
import { contentRange, selectRange } from '../http/byte-range.ts'
import type { Detail } from '../http/cache-status.ts'
import { conditionsFor, confirms, freshen, headersOf304, notModified } from '../http/conditional.ts'
import { initialAgeMs } from '../http/freshness.ts'
import {
  headerValue,
  headerValues,
  storableHeaders,
  toFields,
  toHeaders,
  trimOws,
} from '../http/headers.ts'
import { selects } from '../http/vary.ts'
import {
  type CapturedHead,
  type HeaderList,
  OWN_FIELD,
  OWN_FIELDS,
  type PartOfBody,
  type Reply,
  type RequestView,
} from '../ports/exchange.ts'
import type { CacheParts } from './cache-parts.ts'
import { replyFrom, unsatisfiable } from './respond.ts'

/** A revalidation: the entry from before the fill, and the conditions that the handler gets. */
export interface Revalidation {
  readonly previous: HeldEntry
  readonly stored: StoredResponse
  readonly conditions: HeaderList
}

/**
 * The revalidation of an entry. Undefined if its status is not 200 (RFC 9110 §15.4.5), or if the
 * cache generated the ETag, because the handler does not know it.
 */
export function revalidationOf(held: HeldEntry, request: RequestView): Revalidation | undefined {
  const { entry } = held
  if (entry.type !== 'response' || entry.status !== 200 || entry.minted) return undefined
  const conditions = conditionsFor(toHeaders(entry.fields))
  if (conditions.length === 0 || !selects(entry, request.headers)) return undefined
  return { previous: held, stored: entry, conditions }
}

/** The stored head with the updates of a 304. Undefined if the 304 is about another response. */
export function updatedHead(
  { stored }: Revalidation,
  head: CapturedHead,
  wallNow: number,
): CapturedHead | undefined {
  const headers = toHeaders(stored.fields)
  if (!confirms(headers, head.headers)) return undefined
  const { own } = stored
  const before = own === undefined ? headers : [...headers, [OWN_FIELD, own] as const]
  return { status: stored.status, headers: freshen(before, head, wallNow) }
}

/**
 * The reply to the client of the fill after a 304. `newHead` is the stored head with the updates of
 * the 304. If it is undefined, the client gets the stored response unchanged.
 */
export function replyUnchanged(
  { rt, config }: CacheParts,
  request: RequestView,
  { previous, stored }: Revalidation,
  head: CapturedHead,
  newHead: CapturedHead | undefined,
  detail: Detail | undefined,
): Reply {
  const now = rt.clock.now()
  const facts = { fwd: 'stale', status: head.status, detail } as const
  if (newHead === undefined) return replyFrom(request, config, previous, stored, facts, now)
  const fields = toFields(newHead.headers.filter(([name]) => !PER_REPLY.has(name)))
  const entry = { ...stored, fields, initialAgeMs: initialAgeMs(head.headers, rt.clock.wallNow()) }
  const reply = replyFrom(request, config, { ...previous, bornAt: now }, entry, facts, now)
  return reply.status === 304 ? withOwnFields(reply, head) : reply
}

/** Fields that the cache sets for each reply, or that are for this cache only. */
const PER_REPLY: ReadonlySet<string> = new Set(['age', 'cache-status', ...OWN_FIELDS])

/**
 * Adds the fields of the handler's 304, including cookies, to the 304 for its client. `Vary` is not
 * replaced, because `updatedHead` has merged both fields.
 */
function withOwnFields(reply: Reply, { headers }: CapturedHead): Reply {
  const own = headers.filter(([name]) => !PER_REPLY.has(name) && name !== 'vary')
  const names = new Set(own.map(([name]) => name))
  return { ...reply, headers: [...reply.headers.filter(([name]) => !names.has(name)), ...own] }
}

// A new response. The cache applies the conditions and the range of the client, and sends 304, 206
// or 416 in place of the handler's 200.

/** The head of the handler's response, with the facts that decide about the reply. */
export interface LeaderHead extends CapturedHead {
  /**
   * Why the response is not stored. Then its client gets what the handler would have sent.
   * Undefined: it may be stored.
   */
  readonly refused: string | undefined
  /** The ETag that the cache adds. */
  readonly minted: HeaderList
  readonly cacheStatus: HeaderList
  /** The body, if the handler wrote all of it at once. */
  readonly whole: Uint8Array | undefined
  /** Unix time in ms. It replaces a missing `Date`. */
  readonly wallNow: number
}

/** Returns the reply that replaces the handler's 200. Undefined: the client gets the 200. */
export function leaderReply(
  request: RequestView,
  head: LeaderHead,
): Reply | PartOfBody | undefined {
  if (request.method === 'HEAD' || head.status !== 200) return undefined
  return unchanged(request, head) ?? partOf(request, head)
}

/** The 304, if the client's copy is still valid (RFC 9110 §13.2.2). */
function unchanged(
  request: RequestView,
  { status, headers, refused, minted, cacheStatus }: LeaderHead,
): Reply | undefined {
  if (refused === undefined) {
    const whole = [...storableHeaders(headers), ...minted]
    if (!notModified(request.headers, whole, status)) return undefined
    return { status: 304, headers: [...headersOf304(whole), ...cacheStatus], body: undefined }
  }
  // `notModified` would fall back to `Date`, as caches do. The handler's own check would not, so
  // `Date` is left out.
  const validators = headers.filter(([name]) => name === 'etag' || name === 'last-modified')
  if (!notModified(request.headers, validators, status)) return undefined
  // The response is for this client alone, so the 304 keeps its cookies and other fields.
  const own = headers.filter(([name]) => !NOT_IN_304.has(name))
  return { status: 304, headers: [...own, ...cacheStatus], body: undefined }
}

/** Fields that describe the body, that the cache replaces, or that are for caches only. */
const NOT_IN_304: ReadonlySet<string> = new Set([
  'content-length',
  'content-type',
  'transfer-encoding',
  'cache-status',
  ...OWN_FIELDS,
])

/**
 * The 206 or 416 (RFC 9110 §14.2). A response that is not stored must have `Accept-Ranges: bytes`,
 * as from a file server, because only such a handler would have sent the part itself. Large files
 * are parts without it, because some file servers send it only with a part.
 */
function partOf(request: RequestView, head: LeaderHead): Reply | PartOfBody | undefined {
  const { headers, refused, minted, whole, wallNow } = head
  const length = lengthOf(headers, whole)
  const mayCut = refused === undefined || refused === 'too-large' || offersRanges(headers)
  if (length === undefined || !mayCut) return undefined
  const selected = selectRange(request.headers, dated([...headers, ...minted], wallNow), length)
  if (selected.type === 'whole') return undefined
  if (selected.type === 'unsatisfiable') {
    const cookies = refused === undefined ? [] : headers.filter(([name]) => name === 'set-cookie')
    return unsatisfiable(length, [...cookies, ...head.cacheStatus])
  }
  const { start, end } = selected
  const fields: HeaderList = [
    ['content-range', contentRange(selected, length)],
    ['content-length', String(end - start)],
    ['cache-control', untransformed(headerValues(headers, 'cache-control').join(', '))],
  ]
  return { status: 206, start, end, fields }
}

/**
 * The length of the body. Undefined if it is not known before the body ends, or if the response is
 * already a part.
 */
function lengthOf(headers: HeaderList, whole: Uint8Array | undefined): number | undefined {
  const isFramed = headers.some(
    ([name]) => name === 'transfer-encoding' || name === 'content-range',
  )
  if (isFramed) return undefined
  const declared = headerValue(headers, 'content-length')
  if (declared === undefined) return whole?.byteLength
  const length = /^\d+$/.test(declared) ? Number(declared) : undefined
  return whole === undefined || whole.byteLength === length ? length : undefined
}

function offersRanges(headers: HeaderList): boolean {
  const units = headerValues(headers, 'accept-ranges').join(',').split(',')
  return units.some((unit) => trimOws(unit).toLowerCase() === 'bytes')
}

function dated(headers: HeaderList, wallNow: number): HeaderList {
  if (headerValue(headers, 'date') !== undefined) return headers
  return [...headers, ['date', new Date(wallNow).toUTCString()]]
}

/**
 * Adds `no-transform`: a compressor in front of the cache must not compress a part (RFC 9110 §7.7).
 */
function untransformed(cacheControl: string): string {
  if (/no-transform/i.test(cacheControl)) return cacheControl
  return cacheControl === '' ? 'no-transform' : `${cacheControl}, no-transform`
}
