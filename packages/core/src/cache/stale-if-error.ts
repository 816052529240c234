// Stage: an older answer stands in for an error (RFC 5861 §4).

import { type HeldEntry, mayCover } from '../entry/entry.ts'
import type { Late, Runtime } from '../flight/runtime.ts'
import { isWelcomeOnError } from '../http/request-directives.ts'
import { sameSelection } from '../http/vary.ts'
import { trusted } from '../l1/trust.ts'
import type { Reply, RequestView } from '../ports/exchange.ts'
import type { CacheConfig } from './cache-options.ts'
import { offerOf, replyFrom, wishOf } from './respond.ts'

/** RFC 5861 §4: the answers that count as an error an older response may stand in for. */
const COVERED = new Set([500, 502, 503, 504])

/** RFC 5861 §4: what to answer with instead of an error (a status) or what is late, if there is something. */
export function staleReply(
  rt: Runtime,
  request: RequestView,
  config: CacheConfig<never>,
  previous: HeldEntry | undefined,
  why: number | Late,
): Reply | undefined {
  const now = rt.clock.now()
  if (typeof why === 'number' && !COVERED.has(why)) return undefined
  // It may have been purged while the origin was at work.
  const held = previous && trusted(rt, previous)
  if (held === undefined || !mayCover(held, now)) return undefined
  const { entry } = held
  if (entry.type !== 'response' || !sameSelection(entry.vary, request.headers)) return undefined
  if (!isWelcomeOnError(wishOf(config, request), offerOf(held, entry, now))) return undefined
  const ttlS = (held.staleAt - now) / 1000
  const detail = typeof why === 'number' ? `stale-if-error/${why}` : why
  const facts = { type: 'hit', ttlS, detail } as const
  return replyFrom(request, config, held, entry, facts, now)
}
