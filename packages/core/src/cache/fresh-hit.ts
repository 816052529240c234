// Fast path: a fresh L1 hit for a plain GET. The fast path creates no promise. For any other
// request, `freshHit` returns undefined. Then handle-cached.ts looks into L1 again and goes on from
// there.

import { selects } from '../http/vary.ts'
import { freshCopy } from '../l1/purges.ts'
import type { Reply, RequestView } from '../ports/exchange.ts'
import type { Runtime } from '../runtime.ts'
import { traceHit } from '../traces.ts'
import { lookupTracing } from '../tracing.ts'
import type { CacheConfig } from './cache-config.ts'
import { cacheKey } from './key.ts'
import { readyFrom } from './respond.ts'
import type { VaryIndex } from './vary-index.ts'

export function freshHit<Native>(
  rt: Runtime,
  config: CacheConfig<Native>,
  index: VaryIndex,
  request: RequestView,
  native: Native,
  plainKey: string,
): Reply | undefined {
  if (!isPlain(request, config)) return undefined
  const now = rt.clock.now()
  const names = index.namesFor(plainKey, request.headers)
  const key = names.length === 0 ? plainKey : cacheKey(request, native, config, names)
  const held = freshCopy(rt, key, now)
  if (held === undefined) return undefined
  const { entry } = held
  if (entry.type !== 'response' || !selects(entry, request.headers)) return undefined
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
