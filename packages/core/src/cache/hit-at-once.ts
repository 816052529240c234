// The short way through the journey, for what is asked most: a plain GET of what is fresh in memory. No promise, no exchange, one
// array. Whatever is not that plain goes the long way, which decides all of it anew.

import { sameSelection } from '../http/vary.ts'
import type { ReadyReply, RequestView } from '../ports/exchange.ts'
import type { Begun } from './begin.ts'
import type { CacheConfig } from './cache-options.ts'
import { cacheKey } from './key.ts'
import { readyFrom } from './respond.ts'
import type { Runtime } from './runtime.ts'
import { goodCopy } from './trust.ts'
import type { VaryIndex } from './vary-index.ts'

export function hitAtOnce<Native>(
  rt: Runtime,
  config: CacheConfig<Native>,
  index: VaryIndex,
  request: RequestView,
  native: Native,
  { refused, plainKey }: Begun,
): ReadyReply | undefined {
  if (refused !== undefined || !isPlain(request, config)) return undefined
  const now = rt.clock.now()
  const names = index.namesFor(plainKey, request.headers, now)
  if (names === 'full') return undefined
  const key = names.length === 0 ? plainKey : cacheKey(request, native, config, names)
  const slot = rt.l1.get(key)
  if (slot?.type !== 'hold') return undefined
  const held = goodCopy(rt, slot)
  if (held === undefined || now >= held.staleAt) return undefined
  if (config.earlyRefresh > 0 && now >= slot.drawAgainAt) return undefined
  const { entry } = held
  if (entry.type !== 'response' || !sameSelection(entry.vary, request.headers)) return undefined
  rt.events.hit(key, 'l1', false)
  config.compress?.prepare(rt.l1, key, entry, request.headers)
  return readyFrom(request, config, held, entry, now)
}

/** Asks for the whole, in whatever form it is. */
function isPlain({ method, headers }: RequestView, config: CacheConfig<never>): boolean {
  if (method !== 'GET' || config.requestDirectives === 'honour') return false
  if (headers['if-none-match'] !== undefined) return false
  return headers['if-modified-since'] === undefined && headers.range === undefined
}
