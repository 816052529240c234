// Stage: an answer that is still on its way becomes an answer to another: who may be given one, and with which head.

import type { CacheConfig } from '../cache/cache-options.ts'
import { replyFrom } from '../cache/respond.ts'
import type { Resolution, Runtime } from '../flight/runtime.ts'
import type { Exchange } from '../ports/exchange.ts'

/** What needs the whole body before its head is known: a condition may become 304, a range a part. */
const NEED_THE_WHOLE = ['range', 'if-none-match', 'if-modified-since', 'if-range', 'if-match']

export function takesLive<Native>(
  { request, sendLive }: Exchange<Native>,
  config: CacheConfig<Native>,
): boolean {
  if (config.collapse !== 'stream' || sendLive === undefined || request.method !== 'GET')
    return false
  return NEED_THE_WHOLE.every((name) => request.headers[name] === undefined)
}

/** As one who waited for the whole is answered, but for the body. */
export function sendLive<Native>(
  rt: Runtime,
  exchange: Exchange<Native>,
  config: CacheConfig<Native>,
  reason: 'uri-miss' | 'vary-miss',
  { held, chunks, length }: Extract<Resolution, { type: 'live' }>,
): void {
  const now = rt.clock.now()
  const { entry } = held
  const ttlS = (held.staleAt - now) / 1000
  const facts = {
    type: 'forward',
    reason,
    status: entry.status,
    ttlS,
    collapsed: true,
    detail: 'streamed',
  } as const
  const { status, headers } = replyFrom(exchange.request, config, held, entry, facts, now)
  exchange.sendLive?.({ status, headers, length, body: chunks })
}
