// Fast path: a fresh L1 hit for a plain GET. The fast path creates no promise. For any other
// request, `freshHit` returns undefined. Then the engine looks into L1 again.

import { selects } from '../http/vary.ts'
import { freshCopy } from '../l1/purges.ts'
import type { Reply, RequestView } from '../ports/exchange.ts'
import { traceHit } from '../traces.ts'
import { lookupTracing } from '../tracing.ts'
import type { CacheConfig } from './cache-options.ts'
import type { CacheParts } from './cache-parts.ts'
import { readyFrom } from './respond.ts'

export function freshHit(
  { rt, config, watch }: CacheParts,
  request: RequestView,
  key: string,
): Reply | undefined {
  if (!isPlain(request, config)) return undefined
  const now = rt.clock.now()
  const held = freshCopy(rt, key, now)
  if (held === undefined) return undefined
  const { entry } = held
  if (entry.type !== 'response' || !selects(entry, request.headers)) return undefined
  watch.isOver = true
  rt.events.hit(key, 'l1', false)
  rt.counts.hit(held, false)
  if (lookupTracing.hasSubscribers) traceHit(key)
  const facts = { type: 'hit', ttlS: (held.staleAt - now) / 1000 } as const
  return readyFrom(config, held, entry, facts, now)
}

/** Whether the request is a GET of the whole response, and the cache ignores its directives. */
export function isPlain({ method, headers }: RequestView, config: CacheConfig<never>): boolean {
  if (method !== 'GET' || config.requestDirectives === 'respect') return false
  return asksForWhole(headers)
}

/** Whether the request has neither a condition nor a range. */
export function asksForWhole(headers: RequestView['headers']): boolean {
  if (headers['if-none-match'] !== undefined) return false
  return headers['if-modified-since'] === undefined && headers.range === undefined
}
