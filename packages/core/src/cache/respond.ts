// Stage: an entry becomes an answer: Age, Cache-Status, and 304 where the client has it already.

import type { HeldEntry, StoredResponse } from '../entry/entry.ts'
import { type CacheStatusFacts, cacheStatus } from '../http/cache-status.ts'
import { headersOf304, notModified } from '../http/conditional.ts'
import { problem } from '../http/problem.ts'
import type { HeaderList, Reply, RequestView } from '../ports/exchange.ts'
import type { CacheConfig } from './cache-options.ts'

/** The Cache-Status field as headers to add; none when it is switched off. */
export function statusField(config: CacheConfig<never>, facts: CacheStatusFacts): HeaderList {
  if (config.cacheName === undefined) return []
  return [['cache-status', cacheStatus(config.cacheName, facts)]]
}

/** RFC 9111 §4: the stored answer, with its Age. `now` is on the clock of `held`. */
export function replyFrom(
  request: RequestView,
  config: CacheConfig<never>,
  held: HeldEntry,
  stored: StoredResponse,
  facts: CacheStatusFacts,
  now: number,
): Reply {
  const ageS = Math.floor((stored.initialAgeMs + Math.max(0, now - held.bornAt)) / 1000)
  const added: HeaderList = [['age', String(ageS)], ...statusField(config, facts)]
  if (notModified(request.headers, stored.headers, stored.status)) {
    return { status: 304, headers: [...headersOf304(stored.headers), ...added], body: undefined }
  }
  return { status: stored.status, headers: [...stored.headers, ...added], body: stored.body }
}

/** Another request ran the origin and it failed: the same status, without repeating the attempt. */
export function sharedFailure(
  config: CacheConfig<never>,
  status: number,
  retryAfterMs: number,
): Reply {
  const facts = { type: 'forward', reason: 'uri-miss', status, collapsed: true } as const
  return problem(status, 'origin-failed', titleOf(status), 'The origin failed a moment ago.', [
    ['retry-after', retryAfterS(retryAfterMs)],
    ...statusField(config, { ...facts, detail: 'origin-failed' }),
  ])
}

/** `waitMs` is spent and the options say `unavailable`. */
export function waitedTooLong(config: CacheConfig<never>): Reply {
  const facts = { type: 'forward', reason: 'uri-miss', collapsed: false } as const
  return problem(503, 'wait-timeout', titleOf(503), 'The answer is still being prepared.', [
    ['retry-after', '1'],
    ...statusField(config, { ...facts, detail: 'wait-timeout' }),
  ])
}

function retryAfterS(ms: number): string {
  return String(Math.max(1, Math.ceil(ms / 1000)))
}

/** RFC 9110 §15.6. */
function titleOf(status: number): string {
  const titles: Readonly<Record<number, string>> = {
    501: 'Not Implemented',
    502: 'Bad Gateway',
    503: 'Service Unavailable',
    504: 'Gateway Timeout',
  }
  return titles[status] ?? 'Internal Server Error'
}
