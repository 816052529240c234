// For development: what a handler read of its request and the key does not cover. Two requests that differ there get
// one answer, which is right only if it did not matter.

import { messageOf } from '../errors.ts'
import { varyNames } from '../http/vary.ts'
import type { CapturedHead, Exchange, OriginObserver, ReadLog } from '../ports/exchange.ts'
import type { CacheConfig } from './cache-config.ts'
import { CLAIMS } from './key.ts'

/** In the key, hidden from the handler, or of the connection and its framing. */
const COVERED: ReadonlySet<string> = new Set([
  ...['host', ':authority', ':scheme', ':path', ':method', ...CLAIMS],
  ...['if-none-match', 'if-modified-since', 'if-match', 'if-unmodified-since', 'if-range', 'range'],
  ...['connection', 'upgrade', 'expect', 'te', 'content-length', 'transfer-encoding'],
  ...['content-type', 'cache-control', 'pragma'],
])

/** What was read and is not in the key, each with what to do about it. */
export function unkeyedReads(
  reads: ReadLog,
  config: CacheConfig<never>,
  head: CapturedHead,
): readonly string[] {
  if (config.identity !== undefined) return []
  const vary = varyNames(head.headers)
  const inVary = (name: string) => vary === '*' || vary.includes(name) || config.vary.includes(name)
  const keyedCookies = typeof config.cookies === 'object' ? config.cookies.key : []
  const headers = [...reads.headers].filter((name) => {
    if (COVERED.has(name) || inVary(name)) return false
    // Cookies are told one by one, where somebody has taken them apart.
    return name !== 'cookie' || (reads.cookies.size === 0 && keyedCookies.length === 0)
  })
  const cookies = [...reads.cookies].filter((name) => !keyedCookies.includes(name))
  return [
    ...headers.map((name) => `the request header ${name}, which is not in the key; ${wayOf(name)}`),
    ...(inVary('cookie') ? [] : cookies).map(
      (name) => `the cookie ${name}, which is not in the key; use cookies: { key: ['${name}'] }`,
    ),
    ...unkeyedParameters(reads, config).map(
      (name) => `the query parameter ${name}, which is not in the key; change the query option`,
    ),
  ]
}

function wayOf(name: string): string {
  return name === 'cookie'
    ? 'use cookies: { key: [names] }'
    : `use vary: ['${name}'], or name it in Vary of the response`
}

function unkeyedParameters(reads: ReadLog, { key, query }: CacheConfig<never>): readonly string[] {
  // What the `key` option makes of the query is its own business.
  if (key !== undefined) return []
  return [...reads.query].filter((name) =>
    'only' in query ? !query.only.includes(name) : query.ignore.includes(name),
  )
}

/** Things and paths that are told of, each once. */
const TOLD_AT_MOST = 1_000
const told = new Set<string>()

/** Never throws. */
function tell(path: string, reads: ReadLog, config: CacheConfig<never>, head: CapturedHead): void {
  try {
    for (const read of unkeyedReads(reads, config, head)) {
      const text = `GET ${path}: the handler read ${read}`
      if (told.has(text) || told.size >= TOLD_AT_MOST) continue
      told.add(text)
      process.emitWarning(text, { type: 'StampedeAuditWarning', code: 'STAMPEDE_AUDIT' })
    }
  } catch (error) {
    process.emitWarning(messageOf(error), 'StampedeAuditWarning')
  }
}

/** The observer of a run whose reads are watched. What is not shared is nobody's concern. */
export function audited<Native>(
  exchange: Exchange<Native>,
  config: CacheConfig<Native>,
  observer: OriginObserver,
): OriginObserver {
  const reads = exchange.watchReads?.()
  if (reads === undefined) return observer
  const [path = ''] = exchange.request.target.split('?', 1)
  return {
    ...observer,
    onHead(head, ...rest) {
      const decision = observer.onHead(head, ...rest)
      const isShared = decision.action === 'send' && decision.capture
      // What makes the body is often read after the head has left.
      if (isShared) setImmediate(() => tell(path, reads, config, head))
      return decision
    },
  }
}
