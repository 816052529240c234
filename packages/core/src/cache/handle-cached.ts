// All stages of a cached request, in the order of their calls.
//
// | stage    | file                         | what happens                                     |
// |----------|------------------------------|--------------------------------------------------|
// | admit    | admit.ts                     | decides whether the request uses the cache       |
// | key      | key.ts, vary-index.ts        | decides which requests share a response          |
// | L1       | fresh-hit.ts, ../engine      | serves a fresh entry from memory                 |
// | coalesce | ../engine/engine.ts          | waits with other requests for the same key       |
// | lookup   | ../engine/lookup.ts          | gets the entry or the lease in one round trip    |
// | fill     | run-origin.ts                | runs the handler, if this request is the leader  |
// | storable | storable.ts                  | decides whether to store, and for how long       |
// | commit   | ../engine/share.ts           | writes the entry into the store                  |
// | respond  | respond.ts                   | builds the response: Age, Cache-Status, 304, 206 |

import { find } from '../engine/engine.ts'
import { countRead, readWithoutLease } from '../engine/lookup.ts'
import type { Resolution } from '../engine/types.ts'
import type { RouteCounts } from '../entry/counts.ts'
import { freshnessAt, type HeldEntry } from '../entry/entry.ts'
import type { ForwardReason } from '../http/cache-status.ts'
import type { Detail } from '../http/cache-status-details.ts'
import { isAcceptable } from '../http/request-directives.ts'
import { selects } from '../http/vary.ts'
import { freshCopy } from '../l1/purges.ts'
import type { NeverStored } from '../never-stored.ts'
import type { Exchange, OnInner, RunWatch } from '../ports/exchange.ts'
import type { Runtime } from '../runtime.ts'
import { admit, type Bypass } from './admit.ts'
import type { CacheConfig } from './cache-config.ts'
import { freshHit, isPlain } from './fresh-hit.ts'
import { invalidation } from './invalidate.ts'
import { cacheKey } from './key.ts'
import { isBeyondEntries, RequestState } from './request-state.ts'
import {
  ageAt,
  gatewayTimeout,
  readyFrom,
  replyFrom,
  serviceUnavailable,
  sharedFailure,
  staleReply,
  statusField,
} from './respond.ts'
import { missOf } from './run-origin.ts'
import type { VaryIndex } from './vary-index.ts'

const CLOSED = { fwd: 'bypass', reason: 'closed' } as const
const TOO_MANY_VARIANTS = { fwd: 'bypass', reason: 'too-many-variants' } as const
const NOT_A_RESPONSE = { fwd: 'bypass', reason: 'not-a-response' } as const

/**
 * Handles one request. Throws or rejects only with errors of the options `key`, `identity` and
 * `bypass`, or of the app.
 */
export function handleCached<Native>(
  rt: Runtime,
  config: CacheConfig<Native>,
  index: VaryIndex,
  watch: NeverStored,
  exchange: Exchange<Native>,
): void | Promise<void> {
  const { request, native } = exchange
  const refused = rt.closed ? CLOSED : admit(request, native, config)
  if (refused !== undefined) {
    watch.onRefused(request, refused.reason)
    return bypass(rt, config, exchange, refused)
  }
  const plainKey = cacheKey(request, native, config, [])
  const ready = freshHit(rt, config, index, request, native, plainKey)
  if (ready !== undefined) {
    watch.isOver = true
    return exchange.send(ready)
  }
  exchange.captureContext?.()
  return lookUp(new RequestState(rt, config, index, watch, exchange, plainKey))
}

/** Sends the request to the handler. An unsafe request still purges stored responses. */
function bypass<Native>(
  rt: Runtime,
  config: CacheConfig<Native>,
  exchange: Exchange<Native>,
  { fwd, reason }: Bypass,
): void | Promise<void> {
  rt.counts.bypass(reason, exchange.routeOf?.(exchange.native))
  if (reason !== 'method') return forward(exchange, config, fwd, reason)
  return forward(exchange, config, fwd, undefined, { onHead: invalidation(rt, config, exchange) })
}

/** Looks up the request under the key with all `Vary` fields that are known so far. */
function lookUp<Native>(state: RequestState<Native>): void | Promise<void> {
  const { rt, config, index, exchange, plainKey, directives } = state
  const { request, native } = exchange
  const names = index.namesFor(plainKey, request.headers)
  let key = names.length === 0 ? plainKey : cacheKey(request, native, config, names)
  const isFilled = names.length === 0 || freshCopy(rt, key, rt.clock.now()) !== undefined
  if (!isFilled && index.isOutdated(rt, plainKey)) key = plainKey
  state.names = key === plainKey ? index.formerNames(plainKey) : names
  state.key = key
  const readsOnly = request.method === 'HEAD' || directives?.noStore || directives?.onlyIfCached
  const wantsRange = request.headers.range !== undefined
  const fillsNothing = readsOnly || (wantsRange && isBeyondEntries(state))
  if (fillsNothing) return respondStored(state)
  const found = find(rt, key, config, state)
  return found === undefined ? state.whenAnswered(respond) : respond(state, found)
}

/** After this many lookups that found another variant, the request bypasses the cache. */
const MOST_MISMATCHES = 3

/** Adds the `Vary` fields of an entry of another variant to the key, and looks up again. */
function lookUpVariant<Native>(state: RequestState<Native>, held: HeldEntry): void | Promise<void> {
  const { rt, index, plainKey, names } = state
  index.learn(rt, plainKey, state.key === plainKey ? [] : names, held)
  state.mismatches += 1
  if (state.mismatches < MOST_MISMATCHES) return lookUp(state)
  return bypass(state.rt, state.config, state.exchange, TOO_MANY_VARIANTS)
}

function respond<Native>(
  state: RequestState<Native>,
  resolution: Resolution,
): void | Promise<void> {
  const { rt, config, exchange } = state
  const miss = missOf(state)
  switch (resolution.type) {
    case 'hit':
      return respondHit(state, resolution)
    case 'led':
      return state.running
    case 'pass':
      state.watch.onRefused(exchange.request, resolution.reason)
      return forwardMiss(state, resolution.reason, { onInner: skipInner(state) })
    case 'failed':
    case 'late': {
      const isFailure = resolution.type === 'failed'
      const why = isFailure ? resolution.failure.status : resolution.why
      const stale = staleReply(rt, exchange.request, config, resolution.previous, why)
      if (stale !== undefined) {
        rt.counts.servedStale(typeof why === 'number' ? 'if-error' : why, resolution.previous)
        return exchange.send(stale)
      }
      countMiss(state)
      return exchange.send(
        isFailure
          ? sharedFailure(config, miss, resolution.failure.status, resolution.retryAfterMs)
          : serviceUnavailable(config, miss),
      )
    }
    case 'timed-out': {
      // If the client has left, its response is closed already. So no `close` event would free a
      // slot that is taken now.
      if (config.afterWait === 'unavailable' || exchange.isGone?.()) {
        countMiss(state)
        return exchange.send(serviceUnavailable(config, miss))
      }
      const onEnd = rt.originSlots.takeAboveLimit(rt.clock, config.originTimeoutMs)
      return forwardMiss(state, 'wait-timeout', { onEnd, onInner: skipInner(state) })
    }
    case 'gone':
      return exchange.send(serviceUnavailable(config, miss))
  }
}

function respondHit<Native>(
  state: RequestState<Native>,
  { held, stale, from }: Extract<Resolution, { type: 'hit' }>,
): void | Promise<void> {
  const { rt, config, exchange } = state
  const { entry } = held
  if (entry.type !== 'response') return bypass(rt, config, exchange, NOT_A_RESPONSE)
  state.watch.isOver = true
  if (!selects(entry, exchange.request.headers)) return lookUpVariant(state, held)
  const now = rt.clock.now()
  // The entry of a fill is new, so the directives of the request need no check.
  if (from !== 'fill' && !isAcceptable(state.directives, ageAt(held, entry, now))) {
    return forwardMiss(state, undefined, undefined, stale ? 'stale' : 'request')
  }
  if (from === 'fill') rt.counts.miss(rt.counts.route(entry.provenance.route))
  else {
    rt.events.hit(state.key, from, stale)
    rt.counts.hit(held, stale)
  }
  const ttlS = (held.staleAt - now) / 1000
  const facts =
    from === 'fill'
      ? ({
          type: 'forward',
          reason: missOf(state),
          status: entry.status,
          ttlS,
          collapsed: true,
        } as const)
      : ({ type: 'hit', ttlS } as const)
  const { request } = exchange
  return exchange.send(
    isPlain(request, config)
      ? readyFrom(config, held, entry, facts, now)
      : replyFrom(request, config, held, entry, facts, now),
  )
}

/** Responds without a fill, to HEAD (RFC 9110 §9.3.2), `no-store` and `only-if-cached`. */
async function respondStored<Native>(state: RequestState<Native>): Promise<void> {
  const { rt, config, exchange, directives } = state
  const found = await readWithoutLease(rt, state.key).catch(() => undefined)
  const held = found?.held
  const now = rt.clock.now()
  const freshness = held === undefined ? 'expired' : freshnessAt(held, now)
  const entry = freshness === 'fresh' || freshness === 'stale' ? held?.entry : undefined
  if (found === undefined || entry?.type !== 'response') return respondMissing(state, missOf(state))
  if (!selects(entry, exchange.request.headers)) return lookUpVariant(state, found.held)
  if (!isAcceptable(directives, ageAt(found.held, entry, now))) {
    return respondMissing(state, freshness === 'stale' ? 'stale' : 'request')
  }
  countRead(rt, state.key, found)
  const facts = { type: 'hit', ttlS: (found.held.staleAt - now) / 1000 } as const
  return exchange.send(replyFrom(exchange.request, config, found.held, entry, facts, now))
}

function respondMissing<Native>(
  state: RequestState<Native>,
  reason: ForwardReason,
): void | Promise<void> {
  const { exchange, directives } = state
  const detail = directives?.noStore ? 'request-no-store' : undefined
  if (!directives?.onlyIfCached) return forwardMiss(state, detail, undefined, reason)
  countMiss(state)
  return exchange.send(gatewayTimeout())
}

function forwardMiss<Native>(
  state: RequestState<Native>,
  detail: Detail | undefined,
  watch?: RunWatch,
  reason: ForwardReason = missOf(state),
): void | Promise<void> {
  const { rt, exchange, config } = state
  const route = countMiss(state)
  const startedAt = rt.clock.now()
  const onEnd = (): void => {
    route.originMs += rt.clock.now() - startedAt
    watch?.onEnd?.()
  }
  route.runs += 1
  return forward(exchange, config, reason, detail, { ...watch, onEnd })
}

/**
 * Counts a miss, and returns the counters of its route. The request has not reached the handler, so
 * its route is known only if the middleware is mounted on a route.
 */
function countMiss<Native>({ rt, exchange }: RequestState<Native>): RouteCounts {
  const route = rt.counts.route(exchange.routeOf?.(exchange.native))
  rt.counts.miss(route)
  return route
}

/** Sends the request to the handler, with the reason in Cache-Status. */
function forward<Native>(
  exchange: Exchange<Native>,
  config: CacheConfig<Native>,
  reason: ForwardReason,
  detail?: Detail,
  watch?: RunWatch,
): void | Promise<void> {
  const status = statusField(config, { type: 'forward', reason, detail })
  return exchange.forward(status, watch)
}

/**
 * Makes an inner cache with the same key forward the request to the handler. Otherwise the request
 * would be looked up, and would wait, a second time.
 */
function skipInner<Native>({ exchange, plainKey }: RequestState<Native>): OnInner {
  return (inner) => (inner.keyOf(exchange.request) === plainKey ? undefined : [])
}
