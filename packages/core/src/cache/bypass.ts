// Sends a request to the handler without the cache. An unsafe request still purges responses.

import type { Exchange } from '../ports/exchange.ts'
import type { Bypass } from './admit.ts'
import type { CacheParts } from './cache-parts.ts'
import { invalidation } from './invalidate.ts'
import { statusField } from './respond.ts'

export function bypass<Native>(
  cache: CacheParts<Native>,
  exchange: Exchange<Native>,
  { fwd, reason }: Bypass,
): void | Promise<void> {
  const { rt, config, framework, first } = cache
  if (!first.isOver) first.count(exchange.request, reason)
  rt.counts.bypass(reason, framework.routeOf?.(exchange.native))
  const detail = reason === 'method' ? undefined : reason
  const status = statusField(config, { type: 'forward', reason: fwd, detail })
  const watch = reason === 'method' ? { onHead: invalidation(cache, exchange) } : undefined
  return exchange.forward(status, watch)
}
