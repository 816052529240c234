// The option `audit`: warnings if a handler reads a part of the request that is not in the key. Two
// requests that differ only in such a part get the same response, which may be wrong for one of the
// two.

import { messageOf } from '../errors.ts'
import { requestField } from '../http/headers.ts'
import { varyNames } from '../http/vary.ts'
import type { CapturedHead, OriginObserver, ReadLog, RequestView } from '../ports/exchange.ts'
import type { CacheConfig } from './cache-options.ts'
import { ADDRESS_FIELDS } from './key.ts'

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
  config: CacheConfig<never>,
  head: CapturedHead,
  cookie: string,
): readonly string[] {
  if (config.identity !== undefined) return []
  const vary = varyNames(head.headers)
  const inVary = (name: string) => vary === '*' || vary.includes(name) || config.vary.includes(name)
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
  return name === 'cookie'
    ? 'use cookies: { key: [names] }'
    : `use vary: ['${name}'], or name it in Vary of the response`
}

function unkeyedParameters(reads: ReadLog, { key, query }: CacheConfig<never>): readonly string[] {
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
  config: CacheConfig<never>,
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
 * Wraps the observer of a run, to warn if the handler reads a part of the request that is not in
 * the key. A response that is not stored reaches one client only, so it needs no warning.
 */
export function audited(
  request: RequestView,
  config: CacheConfig<never>,
  observer: OriginObserver,
): OriginObserver {
  const { conditions, maxBodyBytes, onEnd, ended } = observer
  let reads: ReadLog | undefined
  return {
    ...{ conditions, maxBodyBytes, onEnd, ended },
    onInner: (inner) => observer.onInner?.(inner),
    onReads(log) {
      reads = log
    },
    onHead(head, ...rest) {
      const decision = observer.onHead(head, ...rest)
      const log = reads
      if (log?.endsAtHead) log.stop()
      const isShared = decision.action === 'send' && decision.capture
      // The check is delayed, because a handler often reads more after it has set the head.
      if (log && isShared) setImmediate(() => warn(request, log, config, head))
      return decision
    },
  }
}
