// Stage: an older answer stands in for an error (RFC 5861 §4).

import type { HeldEntry } from '../entry/entry.ts'
import { isWelcomeOnError } from '../http/request-directives.ts'
import { sameSelection } from '../http/vary.ts'
import type { Reply, RequestView } from '../ports/exchange.ts'
import type { CacheConfig } from './cache-options.ts'
import { offerOf, replyFrom, wishOf } from './respond.ts'
import type { Runtime } from './runtime.ts'
import { afterPurges } from './trust.ts'

/** RFC 5861 §4: the answers that count as an error an older response may stand in for. */
const COVERED = new Set([500, 502, 503, 504])

/** RFC 5861 §4: what to answer with instead of an error, if there is something. */
export function staleReply(
  rt: Runtime,
  request: RequestView,
  config: CacheConfig<never>,
  previous: HeldEntry | undefined,
  status: number,
): Reply | undefined {
  const now = rt.clock.now()
  if (!COVERED.has(status)) return undefined
  // It may have been purged while the origin was at work.
  const held = previous && afterPurges(rt, previous)
  if (held === undefined || now >= Math.max(held.errorUntil, held.revalidateUntil)) return undefined
  const { entry } = held
  if (entry.type !== 'response' || !sameSelection(entry.vary, request.headers)) return undefined
  if (!isWelcomeOnError(wishOf(config, request), offerOf(held, entry, now))) return undefined
  const ttlS = (held.staleAt - now) / 1000
  const facts = { type: 'hit', ttlS, detail: `stale-if-error/${status}` } as const
  return replyFrom(request, config, held, entry, facts, now)
}
