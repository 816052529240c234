// Stage: may this response be kept for others, and for how long? Decided on its head alone, before the
// body leaves. What is refused here reaches its own client untouched.

import { type CacheControl, parseCacheControl } from '../http/cache-control.ts'
import type { NotStoredDetail } from '../http/cache-status-details.ts'
import { explicitLifetimeMs, initialAgeMs, staleWindowsAllowed } from '../http/freshness.ts'
import { CREDENTIALS, headerValue, headerValues, trimOws } from '../http/headers.ts'
import { NEVER_STORED } from '../http/statuses.ts'
import { responseDirectives } from '../http/targeted-fields.ts'
import { varyNames } from '../http/vary.ts'
import { LONGEST_MS } from '../options.ts'
import type { CapturedHead, HeaderList, RequestView } from '../ports/exchange.ts'
import type { CacheConfig } from './cache-config.ts'
import { urlKey } from './key.ts'

/** Why a response is not kept. */
export type NotStorableReason = NotStoredDetail | 'method'

export interface Storable {
  readonly store: true
  readonly freshMs: number
  /** Both windows begin when freshness ends. */
  readonly staleWhileRevalidateMs: number
  readonly staleIfErrorMs: number
  readonly initialAgeMs: number
  readonly varyNames: readonly string[]
  /** Its tags and groups, once they were asked for. */
  readonly subjects: readonly string[]
}

export interface NotStorable {
  readonly store: false
  readonly reason: NotStorableReason
  /** The origin failed, so an older entry may stand in. */
  readonly failure: boolean
}

/** RFC 9111 §3. `wallNow` is Unix time in ms. */
export function judgeHead<Native>(
  head: CapturedHead,
  request: RequestView,
  config: CacheConfig<Native>,
  wallNow: number,
): Storable | NotStorable {
  if (head.status >= 500) return { store: false, reason: 'server-error', failure: true }
  const said = responseDirectives(head.headers, config.targetedFields)
  const vary = varyNames(head.headers)
  const explicit = explicitLifetimeMs(said, head.headers, wallNow)
  const refused =
    (request.method === 'GET' ? undefined : 'method') ??
    statusReason(head.status, explicit !== undefined, config) ??
    headerReason(head.headers, said.cc) ??
    sizeReason(head.headers, config.maxBodyBytes) ??
    sharingReason(head.headers, vary, config) ??
    (redirectsToItself(head, request, config.query) ? 'self-redirect' : undefined)
  if (refused !== undefined || vary === '*') return refuse(refused ?? 'vary-star')

  const ageMs = initialAgeMs(head.headers, wallNow)
  const freshMs = lifetimeMs(head.status, explicit, ageMs, config)
  if (freshMs === undefined) return refuse('no-freshness')
  if (freshMs <= 0) return refuse('expired')
  const { staleWhileRevalidateS, staleIfErrorS } = said.cc
  const mayBeStale = staleWindowsAllowed(said.cc)
  return {
    store: true,
    freshMs,
    staleWhileRevalidateMs: mayBeStale
      ? windowMs(staleWhileRevalidateS, config.staleWhileRevalidateMs)
      : 0,
    staleIfErrorMs: mayBeStale ? windowMs(staleIfErrorS, config.staleIfErrorMs) : 0,
    initialAgeMs: ageMs,
    varyNames: chosenBy(head.headers, vary),
    subjects: NO_SUBJECTS,
  }
}

function refuse(reason: NotStorableReason): NotStorable {
  return { store: false, reason, failure: false }
}

/** RFC 9110 §15.1, narrowed to statuses that say something about the resource. */
function statusReason<Native>(
  status: number,
  explicit: boolean,
  config: CacheConfig<Native>,
): NotStorableReason | undefined {
  if (status < 200 || NEVER_STORED.has(status)) return 'status'
  if (config.statuses.has(status)) return undefined
  if (isNegative(status) && config.negativeTtlMs !== undefined) return undefined
  // Other 4xx blame the request, often a header that is in no key. Express keeps the Cache-Control that
  // the handler had set before it threw, so explicit freshness says nothing about them.
  const mayBeExplicit = status < 400 || isNegative(status)
  return explicit && mayBeExplicit ? undefined : 'status'
}

function isNegative(status: number): boolean {
  return status === 404 || status === 410
}

/** Those who wait for its end would wait for ever. */
const ENDLESS = /^\s*(text\/event-stream|multipart\/x-mixed-replace)\b/i

/** RFC 9111 §3 and §5.4. Set-Cookie is allowed by §7.3, and refused by every careful cache. */
function headerReason(headers: HeaderList, cc: CacheControl): NotStorableReason | undefined {
  if (cc.noStore) return 'no-store'
  if (cc.private) return 'private'
  if (cc.noCache) return 'no-cache'
  const pragma = cc.present ? [] : headerValues(headers, 'pragma')
  if (parseCacheControl(pragma).noCache) return 'no-cache'
  if (headers.some(([name]) => name === 'set-cookie' || name === 'set-cookie2')) return 'set-cookie'
  if (headers.some(([name]) => CREDENTIALS.has(name))) return 'credentials'
  if (headerValue(headers, 'content-range') !== undefined) return 'content-range'
  return ENDLESS.test(headerValue(headers, 'content-type') ?? '') ? 'endless' : undefined
}

/** What is said to be too large need not be collected to be found so. */
function sizeReason(headers: HeaderList, maxBodyBytes: number): NotStorableReason | undefined {
  const length = Number(headerValue(headers, 'content-length') ?? 0)
  return length > maxBodyBytes ? 'too-large' : undefined
}

/** RFC 9111 §4.1: a response chosen by who asked is kept only where the key tells callers apart. */
function sharingReason<Native>(
  headers: HeaderList,
  vary: readonly string[] | '*',
  config: CacheConfig<Native>,
): NotStorableReason | undefined {
  if (vary === '*') return 'vary-star'
  const inKey = (name: string) => config.identity !== undefined || config.vary.includes(name)
  const cookiesInKey = typeof config.cookies === 'object' || inKey('cookie')
  if (vary.includes('cookie') && !cookiesInKey) return 'vary-cookie'
  if (vary.includes('authorization') && !inKey('authorization')) return 'vary-authorization'
  // Fetch §3.3.6: an echoed origin, given to another origin, is refused by the browser.
  const varies = vary.includes('origin') || config.vary.includes('origin')
  const origins = headerValues(headers, 'access-control-allow-origin')
  return varies || origins.every((origin) => origin === '*') ? undefined : 'cors-origin'
}

/** RFC 9110 §12.5.3: a coding was chosen for one client, also where Vary was forgotten; another may not be able to read it. */
function chosenBy(headers: HeaderList, vary: readonly string[]): readonly string[] {
  const coding = trimOws(headerValue(headers, 'content-encoding') ?? '').toLowerCase()
  const isPlain = coding === '' || coding === 'identity'
  if (isPlain || vary.includes('accept-encoding')) return vary
  return [...vary, 'accept-encoding'].sort()
}

/**
 * RFC 9111 §4.2: freshness lifetime from this head on. A configured lifetime begins here. An
 * explicit one began at the first origin, so the Age is subtracted.
 */
function lifetimeMs<Native>(
  status: number,
  explicit: number | undefined,
  ageMs: number,
  config: CacheConfig<Native>,
): number | undefined {
  const negativeMs = isNegative(status) ? config.negativeTtlMs : undefined
  const configured = negativeMs ?? config.ttlMs
  const overrides = config.overrideHeaders && negativeMs === undefined
  if (configured !== undefined && (explicit === undefined || overrides)) return configured
  if (explicit === undefined) return undefined
  // Nothing is kept longer than any option may say.
  return Math.min(configured ?? LONGEST_MS, explicit - ageMs)
}

/** A stale window: RFC 5861 §3 and §4 before the option. RFC 9111 §4.2.4 comes before both. */
function windowMs(seconds: number | undefined, configured: number): number {
  return seconds === undefined ? configured : Math.min(seconds * 1000, LONGEST_MS)
}

const NO_SUBJECTS: readonly string[] = []

/** Placeholder for the request's own host, which may not be valid in a URL. */
const OWN_HOST = 'own.invalid'

/**
 * Redirects from one spelling of a URL to another under the same key. Apps redirect a host in
 * capitals, reordered parameters or a bare `?` to the canonical URL. The key does not tell these
 * spellings apart: a stored redirect would answer the canonical URL too, and clients would loop.
 *
 * Whether `Location` (RFC 9110 §10.2.2) leads to the URL key of the request itself. The scheme does
 * not count: behind a proxy that ends TLS, both requests may arrive as `http`.
 */
export function redirectsToItself(
  { status, headers }: CapturedHead,
  request: RequestView,
  rule: CacheConfig['query'],
): boolean {
  if (status < 300 || status > 399) return false
  const location = headerValue(headers, 'location')
  const own = parse(`http://${OWN_HOST}${request.target}`)
  const next = location !== undefined && own !== undefined ? parse(location, own) : undefined
  if (own === undefined || next === undefined) return false
  if (next.protocol !== 'http:' && next.protocol !== 'https:') return false
  const ownHost = parse(`${request.scheme}://${request.host}`)?.host ?? request.host
  const nextHost = next.host === OWN_HOST ? ownHost : next.host
  const keyOf = (host: string, { pathname, search }: URL) =>
    urlKey({ ...request, host, target: pathname + search }, rule)
  return keyOf(ownHost, own) === keyOf(nextHost, next)
}

function parse(url: string, base?: URL): URL | undefined {
  return URL.canParse(url, base?.href) ? new URL(url, base) : undefined
}
