// Builds responses from entries: adds Age and Cache-Status, and applies conditions and ranges.
// First comes the fast path, a fresh hit in memory for a plain GET.

import type { HeldEntry, StoredResponse } from '../entry/entry.ts'
import { mayServeOnError } from '../entry/entry.ts'
import type { LateReason } from '../events.ts'
import { contentRange, selectRange } from '../http/byte-range.ts'
import type { CacheStatusFacts, Detail, ForwardReason } from '../http/cache-status.ts'
import { headersOf304, notModified } from '../http/conditional.ts'
import {
  type CacheControl,
  isAcceptableOnError,
  NO_DIRECTIVES,
  requestDirectives,
  type StoredAge,
} from '../http/freshness.ts'
import { type Fields, toHeaders } from '../http/headers.ts'
import { problem } from '../http/problem.ts'
import { selects } from '../http/vary.ts'
import { confirmedCopy, freshCopy } from '../l1/purges.ts'
import type { BodyKind, HeaderList, Reply, RequestView } from '../ports/exchange.ts'
import { traceHit } from '../traces.ts'
import { lookupTracing } from '../tracing.ts'
import type { CacheConfig } from './cache-options.ts'
import type { CacheParts } from './cache-parts.ts'

/**
 * The reply of the fast path, which creates no promise. Undefined for any other request: then the
 * engine looks into L1 again.
 */
export function freshHit(
  { rt, config, first }: CacheParts,
  request: RequestView,
  key: string,
): Reply | undefined {
  if (!isPlain(request, config)) return undefined
  const now = rt.clock.now()
  const held = freshCopy(rt, key, now)
  if (held === undefined) return undefined
  const { entry } = held
  if (entry.type !== 'response' || !selects(entry, request.headers)) return undefined
  if (!first.isOver) first.count(request, 'hit')
  rt.events.hit(key, 'l1', false)
  rt.counts.served(held)
  if (lookupTracing.hasSubscribers) traceHit(key)
  return readyFrom(config, held, entry, { ttlS: (held.staleAt - now) / 1000 }, now)
}

/** Whether the request asks for the whole response, and the cache ignores its directives. */
export function isPlain({ method, headers }: RequestView, config: CacheConfig<never>): boolean {
  if (method === 'HEAD' || config.requestDirectives === 'respect') return false
  return asksForWhole(headers)
}

/** Whether the request has neither a condition nor a range. */
export function asksForWhole(headers: RequestView['headers']): boolean {
  if (headers['if-none-match'] !== undefined) return false
  return headers['if-modified-since'] === undefined && headers.range === undefined
}

/** The Cache-Status field as a header list. It is empty if the option switches the field off. */
export function statusField(config: CacheConfig<never>, facts: CacheStatusFacts): HeaderList {
  if (config.cacheName === undefined) return []
  return [['cache-status', cacheStatus(config.cacheName, facts)]]
}

/**
 * RFC 9211 §2: the value of Cache-Status. `name` is a token, which the option ensures. The field
 * never has the parameter `key`, because the key contains data of the request.
 */
export function cacheStatus(name: string, facts: CacheStatusFacts): string {
  const { fwd, status, ttlS = Number.NaN, stored, collapsed, detail } = facts
  let text = name
  if (fwd === undefined) {
    text = hitStatus(name, Math.floor(ttlS))
  } else {
    text += `; fwd=${fwd}`
    text += integer('fwd-status', status) + integer('ttl', ttlS)
    // RFC 9651 §4.1.1.2: a parameter that is true has no value.
    if (stored !== undefined) text += stored ? '; stored' : '; stored=?0'
    if (collapsed !== undefined) text += collapsed ? '; collapsed' : '; collapsed=?0'
  }
  return detail === undefined ? text : `${text}; detail=${detail}`
}

interface HitText {
  readonly name: string
  readonly ttlS: number
  readonly text: string
}

/**
 * Values for recent hits, by the last bits of `ttlS`. A new string for each hit would cost 5 % of
 * the CPU of a hit on Koa, because Node joins and validates it again.
 */
const recentHits: Array<HitText | undefined> = Array.from({ length: 256 })

function hitStatus(name: string, ttlS: number): string {
  const slot = ttlS & 255
  let recent = recentHits[slot]
  if (recent?.ttlS !== ttlS || recent.name !== name) {
    recent = { name, ttlS, text: `${name}; hit${integer('ttl', ttlS)}` }
    recentHits[slot] = recent
  }
  return recent.text
}

const LARGEST_INTEGER = 999_999_999_999_999

/** RFC 9651 §4.1.4. Rounds down, so a response that is stale for less than 1 s has `ttl=-1`. */
function integer(name: string, value: number | undefined): string {
  if (value === undefined || Number.isNaN(value)) return ''
  const whole = Math.max(-LARGEST_INTEGER, Math.min(LARGEST_INTEGER, Math.floor(value)))
  return `; ${name}=${whole}`
}

/** The cache directives of the request, if the option `requestDirectives` respects them. */
export function directivesOf(config: CacheConfig<never>, { headers }: RequestView): CacheControl {
  return config.requestDirectives === 'respect' ? requestDirectives(headers) : NO_DIRECTIVES
}

/** The age and the remaining freshness that a stored response has at `now`. */
export function ageAt(held: HeldEntry, { initialAgeMs }: StoredResponse, now: number): StoredAge {
  const ageMs = initialAgeMs + Math.max(0, now - held.bornAt)
  return { ageMs, freshForMs: held.staleAt - now }
}

/**
 * The reply from a stored response, with its Age (RFC 9111 §4). `now` is a time on the same clock
 * as the times in `held`.
 */
export function replyFrom(
  request: RequestView,
  config: CacheConfig<never>,
  held: HeldEntry,
  stored: StoredResponse,
  facts: CacheStatusFacts,
  now: number,
): Reply {
  const ageS = Math.floor(ageAt(held, stored, now).ageMs / 1000)
  const shownStatus = statusField(config, facts)
  const added: HeaderList = [['age', String(ageS)], ...shownStatus]
  const { status, fields, body, kind } = stored
  const headers = toHeaders(fields)
  if (notModified(request.headers, headers, status)) {
    return { status: 304, headers: [...headersOf304(headers), ...added], body: undefined }
  }
  const whole = { status, headers: [...headers, ...added], body, kind }
  return request.method !== 'HEAD' && status === 200 ? partOf(whole, request, shownStatus) : whole
}

/** The full stored response, with its Age, for a request without condition and range. */
export function readyFrom(
  config: CacheConfig<never>,
  held: HeldEntry,
  stored: StoredResponse,
  facts: CacheStatusFacts,
  now: number,
): ReadyReply {
  const { status, fields, body, kind } = stored
  const ageS = Math.floor(ageAt(held, stored, now).ageMs / 1000)
  const ready = [...fields, 'age', String(ageS)]
  const { cacheName } = config
  if (cacheName !== undefined) ready.push('cache-status', cacheStatus(cacheName, facts))
  if (status !== 204) ready.push('content-length', String(body.byteLength))
  return new ReadyReply(status, ready, body, kind)
}

/** A reply that makes its list of headers only if an adapter reads the list. */
class ReadyReply implements Reply {
  readonly status: number
  readonly fields: Fields
  readonly body: Uint8Array
  readonly kind: BodyKind | undefined

  constructor(status: number, fields: Fields, body: Uint8Array, kind: BodyKind | undefined) {
    this.status = status
    this.fields = fields
    this.body = body
    this.kind = kind
  }

  get headers(): HeaderList {
    return toHeaders(this.fields)
  }
}

/** The part of a stored 200 that the Range field selects (RFC 9110 §15.3.7 and §15.5.17). */
function partOf(
  whole: Reply & { body: Uint8Array },
  request: RequestView,
  status: HeaderList,
): Reply {
  const { headers, body } = whole
  const selected = selectRange(request.headers, headers, body.byteLength)
  if (selected.type === 'whole') return whole
  if (selected.type === 'unsatisfiable') return unsatisfiable(body.byteLength, status)
  const { start, end } = selected
  return {
    status: 206,
    headers: [...headers, ['content-range', contentRange(selected, body.byteLength)]],
    body: body.subarray(start, end),
    part: true,
  }
}

/** The 416 for a range outside of the body (RFC 9110 §15.5.17). */
export function unsatisfiable(length: number, added: HeaderList): Reply {
  const detail = `The response has ${length} bytes, and none of them is in the requested range.`
  return problem(416, 'range-not-satisfiable', 'Range Not Satisfiable', detail, [
    ['content-range', contentRange({ type: 'unsatisfiable' }, length)],
    ...added,
  ])
}

/**
 * The reply for a request that shares the failed run of another request: a problem document with
 * the status of that run.
 */
export function sharedFailure(
  config: CacheConfig<never>,
  fwd: ForwardReason,
  status: number,
  retryAfterMs: number,
): Reply {
  return problem(
    status,
    'origin-failed',
    titleOf(status),
    'The handler failed a moment ago. Retry later.',
    [
      ['retry-after', String(Math.max(1, Math.ceil(retryAfterMs / 1000)))],
      ...statusField(config, { fwd, status, collapsed: true, detail: 'origin-failed' }),
    ],
  )
}

/** The phrase of a status (RFC 9110 §15.6). */
function titleOf(status: number): string {
  const titles: Readonly<Record<number, string>> = {
    501: 'Not Implemented',
    502: 'Bad Gateway',
    503: 'Service Unavailable',
    504: 'Gateway Timeout',
  }
  return titles[status] ?? 'Internal Server Error'
}

/**
 * The 504 for `only-if-cached` without a stored response (RFC 9111 §5.2.1.7). It has no
 * Cache-Status, because the request was neither a hit nor forwarded.
 */
export function gatewayTimeout(): Reply {
  const detail = 'No suitable response is stored, and the request has only-if-cached.'
  return problem(504, 'only-if-cached', titleOf(504), detail)
}

/**
 * The 503 for a request whose response is not ready in time. With `afterWait: 'unavailable'`, a
 * request gets it after `waitMs`.
 */
export function serviceUnavailable(config: CacheConfig<never>, fwd: ForwardReason): Reply {
  return problem(503, 'wait-timeout', titleOf(503), 'The response is not ready yet. Retry later.', [
    ['retry-after', '1'],
    ...statusField(config, { fwd, collapsed: false, detail: 'wait-timeout' }),
  ])
}

/** RFC 5861 §4: the error statuses that a stale response may replace. */
const STALE_IF_ERROR_STATUSES: ReadonlySet<number> = new Set([500, 502, 503, 504])

/**
 * The reply from a stale entry, in place of an error or of a response that takes too long (RFC 5861
 * §4). `why` is the status of the error, or the reason for the delay, for Cache-Status. Undefined
 * if no entry may be served.
 */
export function staleReply(
  { rt, config }: CacheParts,
  request: RequestView,
  previous: HeldEntry | undefined,
  why?: number | LateReason,
): Reply | undefined {
  const now = rt.clock.now()
  if (typeof why === 'number' && !STALE_IF_ERROR_STATUSES.has(why)) return undefined
  // The entry may have been purged during the run.
  const held = previous && confirmedCopy(rt, previous)
  if (held === undefined || !mayServeOnError(held, now)) return undefined
  const { entry } = held
  if (entry.type !== 'response' || !selects(entry, request.headers)) return undefined
  if (!isAcceptableOnError(directivesOf(config, request), ageAt(held, entry, now))) return undefined
  const ttlS = (held.staleAt - now) / 1000
  const detail: Detail | undefined = typeof why === 'number' ? `stale-if-error/${why}` : why
  return replyFrom(request, config, held, entry, { ttlS, detail }, now)
}
