// Decides whether a response is stored and for how long. The head is enough to decide, so
// the body is not delayed. A response that is not storable reaches its own client unchanged.

import type { FillResult, Lead } from '../engine/types.ts'
import type { HeldEntry } from '../entry/entry.ts'
import type { Windows } from '../fill-options.ts'
import { type NotStoredDetail, OF_ONE_REQUEST } from '../http/cache-status.ts'
import { conditionsFor } from '../http/conditional.ts'
import {
  type CacheControl,
  explicitLifetimeMs,
  initialAgeMs,
  responseDirectives,
  staleWindowsAllowed,
} from '../http/freshness.ts'
import { CREDENTIAL_FIELDS, headerValue, headerValues, trimOws } from '../http/headers.ts'
import { varyNames } from '../http/vary.ts'
import { LONGEST_MS } from '../options.ts'
import type { CapturedHead, HeaderList, OriginEnd, RequestView } from '../ports/exchange.ts'
import { SUBJECT_FIELDS } from '../tags.ts'
import type { CacheConfig } from './cache-options.ts'
import { isKeyed, parseUrl, urlKey } from './key.ts'
import { NEVER_STORED, variesBy } from './option-checks.ts'

/** Why a response is not storable. */
export type NotStorableReason = NotStoredDetail | 'method'

export interface Storable extends Windows {
  readonly freshMs: number
  readonly initialAgeMs: number
  readonly varyNames: readonly string[]
  /** Tags and cache groups. Empty until withSubjects() adds them. */
  readonly subjects: readonly string[]
}

/**
 * Decides by its head whether a response is stored (RFC 9111 §3), or returns why it is not.
 * `wallNow` is Unix time in ms. `bodyBytes` is the length of the body if all of it is known, or 0.
 */
export function judgeHead<Native>(
  head: CapturedHead,
  request: RequestView,
  config: CacheConfig<Native>,
  wallNow: number,
  bodyBytes = 0,
): Storable | NotStorableReason {
  if (head.status >= 500) return 'server-error'
  const directives = responseDirectives(head.headers, config.targetedFields)
  const { cc } = directives
  const vary = varyNames(head.headers)
  const explicit = explicitLifetimeMs(directives, head.headers, wallNow)
  const refused =
    (request.method === 'HEAD' ? 'method' : undefined) ??
    statusReason(head.status, explicit !== undefined, config) ??
    headerReason(head.headers, cc) ??
    // Such a body need not be collected at all.
    (Number(headerValue(head.headers, 'content-length') ?? bodyBytes) > config.maxBodyBytes
      ? 'too-large'
      : undefined) ??
    sharingReason(head.headers, vary, config) ??
    (head.status >= 300 && redirectsToItself(head, request, config.query)
      ? 'self-redirect'
      : undefined)
  if (refused !== undefined || vary === '*') return refused ?? 'vary-star'

  const ageMs = initialAgeMs(head.headers, wallNow)
  const freshMs = lifetimeMs(head.status, explicit, ageMs, config)
  if (freshMs === undefined) return 'no-freshness'
  if (freshMs <= 0) return 'expired'
  const mayBeStale = staleWindowsAllowed(cc)
  return {
    freshMs,
    staleWhileRevalidateMs: mayBeStale
      ? windowMs(cc.get('stale-while-revalidate'), config.staleWhileRevalidateMs)
      : 0,
    staleIfErrorMs: mayBeStale ? windowMs(cc.get('stale-if-error'), config.staleIfErrorMs) : 0,
    // The handler can respond 304 later: about a 200, to a condition from a valid field.
    keepMs: head.status === 200 && conditionsFor(head.headers).length > 0 ? config.keepMs : 0,
    initialAgeMs: ageMs,
    varyNames: withCoding(head.headers, vary),
    subjects: NO_SUBJECTS,
  }
}

/**
 * Returns a reason if the status is not storable. RFC 9110 §15.1 lists more cacheable statuses, but
 * some, such as 405 and 414, are about the request.
 */
function statusReason<Native>(
  status: number,
  explicit: boolean,
  config: CacheConfig<Native>,
): NotStorableReason | undefined {
  if (status < 200 || NEVER_STORED.has(status)) return 'status'
  if (config.statuses.has(status)) return undefined
  const isNegative = NEGATIVE.has(status)
  if (isNegative && config.negativeTtlMs !== undefined) return undefined
  // Other 4xx are about the request, often about a header that is not in the key. Explicit
  // freshness does not make them storable, because it may be unintended: Express keeps the
  // Cache-Control that a handler sets before it throws.
  return explicit && (status < 400 || isNegative) ? undefined : 'status'
}

/** The statuses of the option `negativeTtlMs`. */
const NEGATIVE: ReadonlySet<number> = new Set([404, 410])

const SET_COOKIE: ReadonlySet<string> = new Set(['set-cookie', 'set-cookie2'])

/** Media types of responses that never end. Waiters would wait for their end until `waitMs`. */
const ENDLESS = /^\s*(text\/event-stream|multipart\/x-mixed-replace)\b/i

/**
 * Returns a reason if a field forbids storage (RFC 9111 §3). RFC 9111 §7.3 allows
 * Set-Cookie, but then clients would share cookies.
 */
function headerReason(headers: HeaderList, cc: CacheControl): NotStorableReason | undefined {
  for (const name of ['no-store', 'private', 'no-cache'] as const) if (cc.has(name)) return name
  for (const [name] of headers) if (SET_COOKIE.has(name)) return 'set-cookie'
  for (const [name] of headers) if (CREDENTIAL_FIELDS.has(name)) return 'credentials'
  if (headerValue(headers, 'content-range') !== undefined) return 'content-range'
  return ENDLESS.test(headerValue(headers, 'content-type') ?? '') ? 'endless' : undefined
}

/**
 * Returns a reason if the response depends on its caller (RFC 9111 §4.1) but the key does not.
 */
function sharingReason<Native>(
  headers: HeaderList,
  vary: readonly string[] | '*',
  config: CacheConfig<Native>,
): NotStorableReason | undefined {
  if (vary === '*') return 'vary-star'
  if (vary.includes('cookie') && !isKeyed(config, 'cookie')) return 'vary-cookie'
  if (vary.includes('authorization') && !isKeyed(config, 'authorization'))
    return 'vary-authorization'
  // Browsers refuse a response whose Access-Control-Allow-Origin names another site (Fetch §3.3.6).
  const origins = headerValues(headers, 'access-control-allow-origin')
  const isShared = origins.every((origin) => origin === '*') || variesBy(vary, config, 'origin')
  return isShared ? undefined : 'cors-origin'
}

/**
 * Adds Accept-Encoding to the `Vary` fields of a response with a coding, if the handler forgot it.
 * Other clients may not be able to decode the body (RFC 9110 §12.5.3).
 */
function withCoding(headers: HeaderList, vary: readonly string[]): readonly string[] {
  const field = headerValue(headers, 'content-encoding')
  if (field === undefined) return vary
  const coding = trimOws(field).toLowerCase()
  const isPlain = coding === '' || coding === 'identity'
  if (isPlain || vary.includes('accept-encoding')) return vary
  return [...vary, 'accept-encoding'].sort()
}

/**
 * The freshness lifetime, counted from the arrival of the head (RFC 9111 §4.2). A configured
 * lifetime begins at that moment. An explicit lifetime began when the response was generated, so
 * the age of the response is subtracted.
 */
function lifetimeMs<Native>(
  status: number,
  explicit: number | undefined,
  ageMs: number,
  config: CacheConfig<Native>,
): number | undefined {
  const negativeMs = NEGATIVE.has(status) ? config.negativeTtlMs : undefined
  const configured = negativeMs ?? config.ttlMs
  const overrides = config.overrideHeaders && negativeMs === undefined
  if (configured !== undefined && (explicit === undefined || overrides)) return configured
  if (explicit === undefined) return undefined
  // No response is fresh for longer than the largest value of an option.
  return Math.min(configured ?? LONGEST_MS, explicit - ageMs)
}

/** The length of a stale window. A directive (RFC 5861 §3 and §4) replaces the option. */
function windowMs(seconds: number | undefined, configured: number): number {
  return seconds === undefined ? configured : Math.min(seconds * 1000, LONGEST_MS)
}

const NO_SUBJECTS: readonly string[] = []

/** Stands for the host of the request, which may be invalid in a URL. */
const OWN_HOST = 'own.invalid'

/**
 * Whether `Location` (RFC 9110 §10.2.2) leads to a URL with the same key as the request.
 *
 * Apps redirect other spellings of a URL to the canonical one: a host in capitals, reordered
 * parameters, a bare `?`. All spellings have one key. A stored redirect would be served for the
 * canonical URL too, and clients would loop. The scheme is not compared, because both requests may
 * arrive as `http` behind a proxy that ends TLS.
 */
export function redirectsToItself(
  { status, headers }: CapturedHead,
  request: RequestView,
  rule: CacheConfig['query'],
): boolean {
  if (status < 300 || status > 399) return false
  const location = headerValue(headers, 'location')
  const own = parseUrl(`http://${OWN_HOST}${request.target}`)
  const next = location !== undefined && own !== undefined ? parseUrl(location, own) : undefined
  if (own === undefined || next === undefined) return false
  if (next.protocol !== 'http:' && next.protocol !== 'https:') return false
  const ownHost = parseUrl(`${request.scheme}://${request.host}`)?.host ?? request.host
  const nextHost = next.host === OWN_HOST ? ownHost : next.host
  const keyOf = (host: string, { pathname, search }: URL) =>
    urlKey({ ...request, host, target: pathname + search }, rule)
  return keyOf(ownHost, own) === keyOf(nextHost, next)
}

/** Whether a response that cannot be shared is about the previous entry: confirmed, or gone. */
export function dropsPrevious(status: number | undefined): boolean {
  return status === 304 || (status !== undefined && NEGATIVE.has(status))
}

/** Whether withSubjects() may find subjects. Hardly any response has some. */
export function hasSubjects({ headers }: CapturedHead, config: CacheConfig<never>): boolean {
  for (const [name] of headers) if (SUBJECT_FIELDS.has(name)) return true
  return config.addsSubjects
}

/** The result of a run whose response is not storable. */
export function notStored(reason: NotStorableReason, status: number): FillResult {
  if (reason !== 'server-error') {
    const remember = concernsResource(reason, status)
    return { type: 'pass', reason, remember, dropsPrevious: dropsPrevious(status) }
  }
  const failure = { status, message: `the status was ${status}` }
  return { type: 'failure', failure, error: undefined }
}

function concernsResource(reason: string, status: number): boolean {
  if (OF_ONE_REQUEST.has(reason)) return false
  return reason !== 'status' || status < 400 || NEGATIVE.has(status)
}

export function failedRun({ status, error }: Extract<OriginEnd, { type: 'failed' }>): FillResult {
  if (status < 500) {
    return { type: 'pass', reason: 'status', remember: concernsResource('status', status) }
  }
  const message = `the handler failed with status ${status}`
  return { type: 'failure', failure: { status: Math.min(status, 599), message }, error }
}

/** Whether the run ended because an inner cache stores the response. */
export function isLeftToInner(result: FillResult): boolean {
  return result.type === 'pass' && result.reason === 'inner-cache'
}

/** Why the response of a run is not in the store, if it ends with this result. */
export function refusalOf(
  result: FillResult,
  { fence, hasTimedOut }: Pick<Lead, 'fence' | 'hasTimedOut'>,
): string | undefined {
  if (result.type === 'pass') return isLeftToInner(result) ? undefined : result.reason
  if (result.type === 'failure') return 'server-error'
  if (!('entry' in result)) return undefined
  if (hasTimedOut) return 'origin-timeout'
  return fence === '' ? 'store-unavailable' : undefined
}

/**
 * Whether a 204 or 205 would replace an entry with a body. Such a response is more often an error
 * of the handler than intended. So it is sent to its client but not stored (RFC 9111 §3 allows
 * that). Once the stored entry is gone, a 204 or 205 is stored like any other response.
 */
export function replacesBody({ status }: CapturedHead, { entry }: HeldEntry): boolean {
  return (status === 204 || status === 205) && entry.body.byteLength > 0
}
