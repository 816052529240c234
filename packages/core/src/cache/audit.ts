// The option `audit`: warnings if a handler reads a part of the request that is not in the key. Two
// requests that differ only in such a part get the same response, which may be wrong for one of the
// two.

import { messageOf } from '../errors.ts'
import { ADDRESS_FIELDS, requestField } from '../http/headers.ts'
import { varyNames } from '../http/vary.ts'
import { flag, type Reader } from '../options.ts'
import type { CapturedHead, OriginObserver, RequestView } from '../ports/exchange.ts'
import { type KeyConfig, variesBy, varyFix } from './option-checks.ts'

export interface AuditRules {
  /**
   * For development: warns if the handler reads a header, cookie or query parameter that is not in
   * the key. Default false.
   */
  audit?: boolean | undefined
}

export const AUDIT: Record<keyof AuditRules, Reader<boolean>> = { audit: flag(false) }

interface KeyRules extends KeyConfig {
  readonly key: unknown
  readonly identity: unknown
}

/** The parts of a request that the handler has read so far. Header names are lower-case. */
export interface ReadLog {
  readonly headers: ReadonlySet<string>
  readonly cookies: ReadonlySet<string>
  readonly query: ReadonlySet<string>
  /** Data that layers in front of the cache have set, such as `req.session.user`. */
  readonly layers: ReadonlySet<string>
  /** Whether reads of single cookies are in `cookies`. Otherwise they are reads of the field. */
  readonly namesCookies: boolean
  /** Whether the handler has ended when its head is known. Later reads are those of layers. */
  readonly endsAtHead: boolean
  /** Ends the recording. */
  stop(): void
}

/**
 * Fields that need no warning. Some are in the key, and some are hidden from the handler. The
 * others are about the connection, the request body or caches.
 */
const NEEDS_NO_WARNING: ReadonlySet<string> = new Set([
  ...['host', ':authority', ':scheme', ':path', ':method', ...ADDRESS_FIELDS],
  ...['if-none-match', 'if-modified-since', 'if-match', 'if-unmodified-since', 'if-range', 'range'],
  ...['connection', 'upgrade', 'expect', 'te', 'content-length', 'transfer-encoding'],
  ...['content-type', 'cache-control', 'pragma'],
])

/**
 * Describes each part of the request that the handler read and that is not in the key. Each text
 * names the option that adds the part to the key.
 */
export function unkeyedReads(
  reads: ReadLog,
  config: KeyRules,
  head: CapturedHead,
  cookie: string,
): readonly string[] {
  if (config.identity !== undefined) return []
  const vary = varyNames(head.headers)
  const inVary = (name: string) => variesBy(vary, config, name)
  const keyedCookies = typeof config.cookies === 'object' ? config.cookies.key : []
  const sent = cookie.split(';').map((pair) => pair.split('=', 1)[0]?.trim() ?? '')
  const isCovered = keyedCookies.length > 0 && sent.every((name) => keyedCookies.includes(name))
  const headers = [...reads.headers].filter((name) => {
    if (NEEDS_NO_WARNING.has(name) || inVary(name)) return false
    // The Cookie field is not listed if the handler read single cookies, which are listed below.
    // Nor is it listed if all cookies of the request are in the key.
    const isKeyed = isCovered || (keyedCookies.length > 0 && !reads.namesCookies)
    return name !== 'cookie' || (reads.cookies.size === 0 && !isKeyed)
  })
  const cookies = [...reads.cookies].filter((name) => !keyedCookies.includes(name))
  return [
    ...headers.map(
      (name) => `the request header ${name}, which is not in the key; ${fixFor(name)}`,
    ),
    ...(inVary('cookie') ? [] : cookies).map(
      (name) => `the cookie ${name}, which is not in the key; use cookies: { key: ['${name}'] }`,
    ),
    // Layers usually derive their data from the credentials of the request.
    ...(isCovered || ['cookie', 'authorization'].some(inVary) ? [] : [...reads.layers]).map(
      (name) => `${name}, which is not in the key; use identity, or bypass`,
    ),
    ...unkeyedParameters(reads, config).map(
      (name) => `the query parameter ${name}, which is not in the key; change the query option`,
    ),
  ]
}

function fixFor(name: string): string {
  return name === 'cookie' ? 'use cookies: { key: [names] }' : varyFix(name)
}

function unkeyedParameters(reads: ReadLog, { key, query }: KeyRules): readonly string[] {
  // With a `key` option, the app decides which parameters are in the key.
  if (key !== undefined) return []
  return [...reads.query].filter((name) =>
    'only' in query ? !query.only.includes(name) : query.ignore.includes(name),
  )
}

/** Warnings that this process has emitted. It emits each text once. */
const warned = new Set<string>()
const MOST_WARNINGS = 1_000

/** Never throws. */
function warn(
  { method, target, headers }: RequestView,
  reads: ReadLog,
  config: KeyRules,
  head: CapturedHead,
): void {
  try {
    const [path] = target.split('?', 1)
    for (const read of unkeyedReads(reads, config, head, requestField(headers, 'cookie') ?? '')) {
      const text = `${method} ${path}: the handler read ${read}`
      if (warned.has(text) || warned.size >= MOST_WARNINGS) continue
      warned.add(text)
      process.emitWarning(text, { type: 'StampedeAuditWarning', code: 'STAMPEDE_AUDIT' })
    }
  } catch (error) {
    process.emitWarning(messageOf(error), 'StampedeAuditWarning')
  }
}

/**
 * Warns if the handler of a run reads a part of the request that is not in the key. A response that
 * is not stored reaches one client only, so it needs no warning.
 */
export function audit(
  config: KeyRules,
  request: RequestView,
  run: OriginObserver,
  reads: ReadLog,
): void {
  const onHead = run.onHead.bind(run)
  const watched: OriginObserver['onHead'] = (head, ...rest) => {
    const decision = onHead(head, ...rest)
    if (reads.endsAtHead) reads.stop()
    const isShared = decision.action === 'send' && decision.capture
    // The check is delayed, because a handler often reads more after it has set the head.
    if (isShared) setImmediate(() => warn(request, reads, config, head))
    return decision
  }
  run.onHead = watched
}
