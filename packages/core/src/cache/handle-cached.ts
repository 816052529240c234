// All stages of a cached request, in the order of their calls.
//
// | stage    | file                         | what happens                                     |
// |----------|------------------------------|--------------------------------------------------|
// | admit    | admit.ts                     | decides whether the request uses the cache       |
// | key      | key.ts, vary-index.ts        | decides which requests share a response          |
// | L1       | fresh-hit.ts, ../flight      | serves a fresh entry from memory                 |
// | coalesce | ../flight/resolve.ts         | joins the flight of the key in this process      |
// | lookup   | ../flight/lookup-or-lease.ts | gets the entry or the lease in one round trip    |
// | fill     | run-origin.ts                | runs the handler, if this request leads          |
// | storable | storable.ts                  | decides whether to store, and for how long       |
// | commit   | ../flight/commit.ts          | writes the entry with its fence, settles waiters |
// | respond  | respond.ts                   | makes the response: Age, Cache-Status, 304, 206  |

import { freshnessAt, type HeldEntry, type StoredResponse } from '../entry/entry.ts'
import { readWithoutLease } from '../flight/lookup-or-lease.ts'
import type { Caller, FillResult, Lead, Resolution } from '../flight/resolution.ts'
import { resolve } from '../flight/resolve.ts'
import type { Runtime } from '../flight/runtime.ts'
import type { ForwardReason } from '../http/cache-status.ts'
import type { Detail } from '../http/cache-status-details.ts'
import { likenessOf } from '../http/likeness.ts'
import { isAcceptable, type RequestDirectives } from '../http/request-directives.ts'
import { sameSelection } from '../http/vary.ts'
import type { Exchange, OnInner, RunWatch } from '../ports/exchange.ts'
import { admit, type Bypass } from './admit.ts'
import { audited } from './audit.ts'
import type { CacheConfig } from './cache-config.ts'
import { asksForWhole, freshHit, isPlain } from './fresh-hit.ts'
import { invalidation } from './invalidate.ts'
import { cacheKey } from './key.ts'
import { watchRefresh } from './refresh-warning.ts'
import {
  acceptsLive,
  ageAt,
  directivesOf,
  gatewayTimeout,
  readyFrom,
  replyFrom,
  sendLive,
  serviceUnavailable,
  sharedFailure,
  staleReply,
  statusField,
} from './respond.ts'
import { type OriginOrder, runOrigin } from './run-origin.ts'
import type { VaryIndex } from './vary-index.ts'

const CLOSED = { fwd: 'bypass', reason: 'closed' } as const

/**
 * Throws or rejects only with errors of the options `key`, `identity` and `bypass`, or of the app.
 */
export function handleCached<Native>(
  rt: Runtime,
  config: CacheConfig<Native>,
  index: VaryIndex,
  exchange: Exchange<Native>,
): void | Promise<void> {
  const { request, native } = exchange
  const refused = rt.closed ? CLOSED : admit(request, native, config)
  if (refused !== undefined) return bypass(rt, config, exchange, refused)
  const plainKey = cacheKey(request, native, config, [])
  if (exchange.sendReady !== undefined) {
    const ready = freshHit(rt, config, index, request, native, plainKey)
    if (ready !== undefined) return exchange.sendReady(ready)
  }
  exchange.prepare?.()
  return lookUp(new RequestState(rt, config, index, exchange, plainKey))
}

/** Sends the request to the handler. An unsafe request still purges stored responses. */
function bypass<Native>(
  rt: Runtime,
  config: CacheConfig<Native>,
  exchange: Exchange<Native>,
  { fwd, reason }: Bypass | typeof CLOSED,
): void | Promise<void> {
  if (reason !== 'method') return forward(exchange, config, fwd, reason)
  return forward(exchange, config, fwd, undefined, { onHead: invalidation(rt, config, exchange) })
}

/** Looks up the request under the key with all `Vary` fields that are known so far. */
function lookUp<Native>(state: RequestState<Native>): void | Promise<void> {
  const { rt, config, index, exchange, plainKey, directives } = state
  const { request, native } = exchange
  const names = index.namesFor(plainKey, request.headers)
  const key = names.length === 0 ? plainKey : cacheKey(request, native, config, names)
  state.names = names
  state.key = key
  const fillsNothing = request.method === 'HEAD' || directives?.noStore || directives?.onlyIfCached
  if (fillsNothing) return respondStored(state)
  const resolution = resolve(rt, key, config, state)
  if (!(resolution instanceof Promise)) return respond(state, resolution)
  return resolution.then((later) => respond(state, later))
}

/** After this many entries of other variants, the request bypasses the cache. */
const MOST_MISMATCHES = 3

/** Adds the `Vary` fields of an entry of another variant to the key, and looks up again. */
function lookUpVariant<Native>(
  state: RequestState<Native>,
  entry: StoredResponse,
): void | Promise<void> {
  const { index, plainKey, names, exchange, config } = state
  index.learn(plainKey, names, entry)
  state.mismatches += 1
  if (state.mismatches < MOST_MISMATCHES) return lookUp(state)
  return forward(exchange, config, 'bypass', 'too-many-variants')
}

/** The parameter `fwd` of a miss (RFC 9211 §2.2). */
function missOf<Native>({ names }: RequestState<Native>): 'uri-miss' | 'vary-miss' {
  return names.length === 0 ? 'uri-miss' : 'vary-miss'
}

/** The state of one request. `flight/` calls its methods, such as `lead` to run the handler. */
class RequestState<Native> implements Caller {
  /** `Vary` fields of earlier responses that the key of the last lookup contains. */
  names: readonly string[] = []
  /** The key of the last lookup. */
  key: string
  /** Number of lookups that found an entry of another variant. */
  mismatches = 0
  /** Number of live responses that ended too early, before this client got a byte. */
  cuts = 0
  /** Settles when the handler has ended, if this request is the leader. */
  running: Promise<unknown> | undefined
  scope: Caller['scope']
  readonly rt: Runtime
  readonly config: CacheConfig<Native>
  readonly index: VaryIndex
  readonly exchange: Exchange<Native>
  /** The key without the `Vary` fields of earlier responses. */
  readonly plainKey: string
  readonly directives: RequestDirectives | undefined

  constructor(
    rt: Runtime,
    config: CacheConfig<Native>,
    index: VaryIndex,
    exchange: Exchange<Native>,
    plainKey: string,
  ) {
    this.rt = rt
    this.config = config
    this.index = index
    this.exchange = exchange
    this.plainKey = plainKey
    this.key = plainKey
    this.directives = directivesOf(config, exchange.request)
  }

  get acceptsLive(): boolean {
    return acceptsLive(this.exchange, this.config)
  }

  acceptsStale(held: HeldEntry): boolean {
    const { rt, config, exchange } = this
    return staleReply(rt, exchange.request, config, held, 'soft-timeout') !== undefined
  }

  isGone(): boolean {
    return this.exchange.isGone?.() ?? false
  }

  requestDigest(): string {
    return likenessOf(this.exchange.request)
  }

  hasConditionOrRange(): boolean {
    return !asksForWhole(this.exchange.request.headers)
  }

  async lead(lead: Lead): Promise<FillResult> {
    const { exchange, config } = this
    const reason = lead.previous === undefined ? missOf(this) : 'stale'
    const result = await this.#runOrigin(lead, reason, true, (observer) => {
      const run = exchange.runOrigin(config.audit ? audited(exchange, config, observer) : observer)
      this.running = run
      return run
    })
    return this.isGone() && mayBeDueToDisconnect(result)
      ? { type: 'abandoned', clientLeft: true }
      : result
  }

  refresh(lead: Lead): Promise<FillResult> {
    return watchRefresh(this.exchange, this.config, lead, (start) =>
      this.#runOrigin(lead, 'stale', false, start),
    )
  }

  #runOrigin(
    lead: Lead,
    reason: OriginOrder['reason'],
    forClient: boolean,
    start: OriginOrder['start'],
  ): Promise<FillResult> {
    const { rt, config, plainKey, exchange } = this
    if (this.scope !== undefined) exchange.captureContext?.()
    const { request } = exchange
    const allowsEtag: OriginOrder['allowsEtag'] = (natives) =>
      exchange.allowsEtag?.((natives?.[0] ?? exchange.native) as Native) ?? true
    return runOrigin(rt, { request, plainKey, config, lead, reason, forClient, allowsEtag, start })
  }
}

/** Whether the handler may have stopped because its client left. Then the next waiter leads. */
function mayBeDueToDisconnect(result: FillResult): boolean {
  if (result.type === 'pass') return !result.remember
  return result.type === 'failure' || result.type === 'abandoned'
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
    case 'live':
      return respondLive(state, resolution)
    case 'led':
      return state.running?.then(() => undefined)
    case 'pass':
      return forward(exchange, config, miss, resolution.reason, { onInner: skipInner(state) })
    case 'failed': {
      const { failure, previous, retryAfterMs } = resolution
      const stale = staleReply(rt, exchange.request, config, previous, failure.status)
      return exchange.send(stale ?? sharedFailure(config, miss, failure.status, retryAfterMs))
    }
    case 'late': {
      const { previous, why } = resolution
      const stale = staleReply(rt, exchange.request, config, previous, why)
      return exchange.send(stale ?? serviceUnavailable(config, miss))
    }
    case 'timed-out': {
      // If the client has left, its response is closed, so no `close` event would free a slot.
      const isFinal = config.afterWait === 'unavailable' || exchange.isGone?.()
      if (isFinal) return exchange.send(serviceUnavailable(config, miss))
      const onEnd = rt.originSlots.takeAboveLimit(rt.clock, config.originTimeoutMs)
      const watch = { onEnd, onInner: skipInner(state) }
      return forward(exchange, config, miss, 'wait-timeout', watch)
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
  if (entry.type !== 'response') return forward(exchange, config, 'bypass', 'not-a-response')
  if (!sameSelection(entry.vary, exchange.request.headers)) return lookUpVariant(state, entry)
  config.compress?.prepare(rt.l1, state.key, entry, exchange.request.headers)
  const now = rt.clock.now()
  // An entry from a fill that just ended is as new as one from a run for this client.
  if (from !== 'fill' && !isAcceptable(state.directives, ageAt(held, entry, now))) {
    return forward(exchange, config, stale ? 'stale' : 'request')
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
  if (exchange.sendReady !== undefined && isPlain(request, config)) {
    return exchange.sendReady(readyFrom(request, config, held, entry, facts, now))
  }
  return exchange.send(replyFrom(request, config, held, entry, facts, now))
}

/** After this many live responses that ended too early, the request runs the handler itself. */
const MOST_CUTS = 3

/**
 * Sends a live response. Looks up again if the response is of another variant or ended too early:
 * the client has got nothing yet.
 */
function respondLive<Native>(
  state: RequestState<Native>,
  live: Extract<Resolution, { type: 'live' }>,
): void | Promise<void> {
  const { rt, config, exchange } = state
  const { entry } = live.held
  if (!sameSelection(entry.vary, exchange.request.headers)) {
    live.chunks.return()
    return lookUpVariant(state, entry)
  }
  if (!live.chunks.isCut) return sendLive(rt, exchange, config, missOf(state), live)
  live.chunks.return()
  state.cuts += 1
  if (state.cuts < MOST_CUTS) return lookUp(state)
  return forward(exchange, config, missOf(state), 'abandoned', { onInner: skipInner(state) })
}

/** Responds without a fill: to HEAD (RFC 9110 §9.3.2), `no-store` and `only-if-cached`. */
async function respondStored<Native>(state: RequestState<Native>): Promise<void> {
  const { rt, config, exchange, directives } = state
  const held = await readWithoutLease(rt, state.key).catch(() => undefined)
  const now = rt.clock.now()
  const freshness = held === undefined ? 'expired' : freshnessAt(held, now)
  const entry = freshness === 'fresh' || freshness === 'stale' ? held?.entry : undefined
  if (held === undefined || entry?.type !== 'response') return respondMissing(state, missOf(state))
  if (!sameSelection(entry.vary, exchange.request.headers)) return lookUpVariant(state, entry)
  if (!isAcceptable(directives, ageAt(held, entry, now))) {
    return respondMissing(state, freshness === 'stale' ? 'stale' : 'request')
  }
  const facts = { type: 'hit', ttlS: (held.staleAt - now) / 1000 } as const
  return exchange.send(replyFrom(exchange.request, config, held, entry, facts, now))
}

function respondMissing<Native>(
  { exchange, config, directives }: RequestState<Native>,
  reason: ForwardReason,
): void | Promise<void> {
  if (directives?.onlyIfCached) return exchange.send(gatewayTimeout())
  return forward(exchange, config, reason, directives?.noStore ? 'request-no-store' : undefined)
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

/** Makes an inner cache with the same key forward the request, without a second lookup and wait. */
function skipInner<Native>({ exchange, plainKey }: RequestState<Native>): OnInner {
  return (inner) => (inner.keyOf(exchange.request) === plainKey ? undefined : [])
}
