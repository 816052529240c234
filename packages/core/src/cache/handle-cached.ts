// The journey of a cached request, in call order.
//
// | stage    | where                       | what happens                                            |
// |----------|-----------------------------|---------------------------------------------------------|
// | admit    | admit.ts                    | other requests go to the handler, with a reason         |
// | key      | key.ts                      | decides which requests share a response                 |
// | L1       | fresh-hit.ts, ../flight     | a fresh entry in memory is the response                 |
// | coalesce | ../flight/resolve.ts        | requests of this process for one key wait together      |
// | lookup   | ../flight/lookup-or-lease.ts| one round trip: the entry, or the lease to make it      |
// | fill     | run-origin.ts               | the leader runs the handler                             |
// | storable | storable.ts                 | decides on the head whether and how long it is kept     |
// | commit   | ../flight/commit.ts         | writes the entry under its fence, settles the waiters   |
// | respond  | respond.ts                  | an entry becomes a response: Age, 304, 206, stale       |

import { freshnessAt, type HeldEntry, type StoredResponse } from '../entry/entry.ts'
import { peek } from '../flight/lookup-or-lease.ts'
import type { Caller, FillResult, Lead, Resolution } from '../flight/resolution.ts'
import { coalesce, fromL1 } from '../flight/resolve.ts'
import type { Runtime } from '../flight/runtime.ts'
import type { ForwardReason } from '../http/cache-status.ts'
import type { Detail } from '../http/cache-status-details.ts'
import { likenessOf } from '../http/likeness.ts'
import { isWelcome, type RequestDirectives } from '../http/request-directives.ts'
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
  notCached,
  offerOf,
  readyFrom,
  replyFrom,
  sendLive,
  sharedFailure,
  staleReply,
  statusField,
  takesLive,
  waitedTooLong,
  wishOf,
} from './respond.ts'
import { type OriginOrder, runOrigin } from './run-origin.ts'
import type { VaryIndex } from './vary-index.ts'

const CLOSED = { fwd: 'bypass', reason: 'closed' } as const

/** Never rejects by itself. Throws what the user's `key`, `identity` or `bypass` threw. */
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
  return lookUp(new Journey(rt, config, index, exchange, plainKey))
}

/** The request takes no part. An unsafe one still makes stored responses obsolete. */
function bypass<Native>(
  rt: Runtime,
  config: CacheConfig<Native>,
  exchange: Exchange<Native>,
  { fwd, reason }: Bypass | typeof CLOSED,
): void | Promise<void> {
  if (reason !== 'method') return forward(exchange, config, fwd, reason)
  return forward(exchange, config, fwd, undefined, { onHead: invalidation(rt, config, exchange) })
}

/** One lookup under the key as far as it is known. */
function lookUp<Native>(journey: Journey<Native>): void | Promise<void> {
  const { rt, config, index, exchange, plainKey, wish } = journey
  const { request, native } = exchange
  const names = index.namesFor(plainKey, request.headers)
  const key = names.length === 0 ? plainKey : cacheKey(request, native, config, names)
  journey.names = names
  journey.key = key
  const fillsNothing = request.method === 'HEAD' || wish?.noStore || wish?.onlyIfCached
  if (fillsNothing) return respondStored(journey)
  const resolution = fromL1(rt, key, config, journey) ?? coalesce(rt, key, config, journey)
  if (!(resolution instanceof Promise)) return respond(journey, resolution)
  return resolution.then((later) => respond(journey, later))
}

const MOST_MISMATCHES = 3

/** The entry is for other requests. It names fields that the key needs, for another lookup. */
function lookUpVariant<Native>(
  journey: Journey<Native>,
  entry: StoredResponse,
): void | Promise<void> {
  const { index, plainKey, names, exchange, config } = journey
  index.learn(plainKey, names, entry)
  journey.mismatches += 1
  if (journey.mismatches < MOST_MISMATCHES) return lookUp(journey)
  return forward(exchange, config, 'bypass', 'too-many-variants')
}

/** `fwd` of a miss (RFC 9211 §2.2). */
function missOf<Native>({ names }: Journey<Native>): 'uri-miss' | 'vary-miss' {
  return names.length === 0 ? 'uri-miss' : 'vary-miss'
}

/** One request on its way. As a caller of `flight/`, it runs the handler if it has to lead. */
class Journey<Native> implements Caller {
  /** Request fields in the key of the last lookup, as earlier responses named them. */
  names: readonly string[] = []
  /** The key of the last lookup. */
  key: string
  /** Entries for other requests that lookups have found. */
  mismatches = 0
  /** Responses that were cut before this client got the first byte. */
  cuts = 0
  /** The end of this client's own run of the handler, if it led. */
  running: Promise<unknown> | undefined
  readonly rt: Runtime
  readonly config: CacheConfig<Native>
  readonly index: VaryIndex
  readonly exchange: Exchange<Native>
  /** The key without what earlier responses named. */
  readonly plainKey: string
  readonly wish: RequestDirectives | undefined

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
    this.wish = wishOf(config, exchange.request)
  }

  get takesLive(): boolean {
    return takesLive(this.exchange, this.config)
  }

  takesStale(held: HeldEntry): boolean {
    const { rt, config, exchange } = this
    return staleReply(rt, exchange.request, config, held, 'soft-timeout') !== undefined
  }

  isGone(): boolean {
    return this.exchange.isGone?.() ?? false
  }

  likeness(): string {
    return likenessOf(this.exchange.request)
  }

  hidesFields(): boolean {
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
    return this.isGone() && mayComeFromDeparture(result)
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
    const { request } = exchange
    const allowsEtag: OriginOrder['allowsEtag'] = (natives) =>
      exchange.allowsEtag?.((natives?.[0] ?? exchange.native) as Native) ?? true
    return runOrigin(rt, { request, plainKey, config, lead, reason, forClient, allowsEtag, start })
  }
}

/**
 * Whether the client's departure may have caused this result: handlers often abort their work then.
 * Such a result says nothing about the origin, so the next waiter runs the handler.
 */
function mayComeFromDeparture(result: FillResult): boolean {
  if (result.type === 'pass') return !result.remember
  return result.type === 'failure' || result.type === 'abandoned'
}

function respond<Native>(journey: Journey<Native>, resolution: Resolution): void | Promise<void> {
  const { rt, config, exchange } = journey
  const miss = missOf(journey)
  switch (resolution.type) {
    case 'hit':
      return respondHit(journey, resolution)
    case 'live':
      return respondLive(journey, resolution)
    case 'led':
      return journey.running?.then(() => undefined)
    case 'pass':
      return forward(exchange, config, miss, resolution.reason, { onInner: inside(journey) })
    case 'failed': {
      const { failure, previous, retryAfterMs } = resolution
      const stale = staleReply(rt, exchange.request, config, previous, failure.status)
      return exchange.send(stale ?? sharedFailure(config, miss, failure.status, retryAfterMs))
    }
    case 'late': {
      const { previous, why } = resolution
      const stale = staleReply(rt, exchange.request, config, previous, why)
      return exchange.send(stale ?? waitedTooLong(config, miss))
    }
    case 'timed-out': {
      // The end of a response whose client left meanwhile would not be seen.
      const isFinal = config.afterWait === 'unavailable' || exchange.isGone?.()
      if (isFinal) return exchange.send(waitedTooLong(config, miss))
      const onEnd = rt.places.force(rt.clock, config.originTimeoutMs)
      const watch = { onEnd, onInner: inside(journey) }
      return forward(exchange, config, miss, 'wait-timeout', watch)
    }
    case 'gone':
      return exchange.send(waitedTooLong(config, miss))
  }
}

function respondHit<Native>(
  journey: Journey<Native>,
  { held, stale, from }: Extract<Resolution, { type: 'hit' }>,
): void | Promise<void> {
  const { rt, config, exchange } = journey
  const { entry } = held
  if (entry.type !== 'response') return forward(exchange, config, 'bypass', 'not-a-response')
  if (!sameSelection(entry.vary, exchange.request.headers)) return lookUpVariant(journey, entry)
  config.compress?.prepare(rt.l1, journey.key, entry, exchange.request.headers)
  const now = rt.clock.now()
  // An entry that was just made is as new as a run of its own would give this client.
  if (from !== 'fill' && !isWelcome(journey.wish, offerOf(held, entry, now))) {
    return forward(exchange, config, stale ? 'stale' : 'request')
  }
  const ttlS = (held.staleAt - now) / 1000
  const facts =
    from === 'fill'
      ? ({
          type: 'forward',
          reason: missOf(journey),
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

/** After this many responses that were cut, the client's request runs the handler by itself. */
const MOST_CUTS = 3

/** If the response does not fit this client, or ended too soon, it looks up again: nothing was sent. */
function respondLive<Native>(
  journey: Journey<Native>,
  live: Extract<Resolution, { type: 'live' }>,
): void | Promise<void> {
  const { rt, config, exchange } = journey
  const { entry } = live.held
  if (!sameSelection(entry.vary, exchange.request.headers)) {
    live.chunks.return()
    return lookUpVariant(journey, entry)
  }
  if (!live.chunks.isCut) return sendLive(rt, exchange, config, missOf(journey), live)
  live.chunks.return()
  journey.cuts += 1
  if (journey.cuts < MOST_CUTS) return lookUp(journey)
  return forward(exchange, config, missOf(journey), 'abandoned', { onInner: inside(journey) })
}

/** RFC 9110 §9.3.2: a HEAD gets the head of what a GET stored. Otherwise nothing is stored. */
async function respondStored<Native>(journey: Journey<Native>): Promise<void> {
  const { rt, config, exchange, wish } = journey
  const held = await peek(rt, journey.key).catch(() => undefined)
  const now = rt.clock.now()
  const freshness = held === undefined ? 'expired' : freshnessAt(held, now)
  const entry = freshness === 'fresh' || freshness === 'stale' ? held?.entry : undefined
  if (held === undefined || entry?.type !== 'response') return unanswered(journey, missOf(journey))
  if (!sameSelection(entry.vary, exchange.request.headers)) return lookUpVariant(journey, entry)
  if (!isWelcome(wish, offerOf(held, entry, now))) {
    return unanswered(journey, freshness === 'stale' ? 'stale' : 'request')
  }
  const facts = { type: 'hit', ttlS: (held.staleAt - now) / 1000 } as const
  return exchange.send(replyFrom(exchange.request, config, held, entry, facts, now))
}

function unanswered<Native>(
  { exchange, config, wish }: Journey<Native>,
  reason: ForwardReason,
): void | Promise<void> {
  if (wish?.onlyIfCached) return exchange.send(notCached())
  return forward(exchange, config, reason, wish?.noStore ? 'request-no-store' : undefined)
}

/** Runs the handler, and says why in Cache-Status. */
function forward<Native>(
  exchange: Exchange<Native>,
  config: CacheConfig<Native>,
  reason: ForwardReason,
  detail?: Detail,
  watch?: RunWatch,
): void | Promise<void> {
  const status = statusField(config, { type: 'forward', reason, detail })
  return exchange.bypass(status, watch)
}

/** A cache further in would only ask, and wait, for the same key again. */
function inside<Native>({ exchange, plainKey }: Journey<Native>): OnInner {
  return (inner) => (inner.keyOf(exchange.request) === plainKey ? undefined : [])
}
