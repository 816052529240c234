// All stages of a cached request, in the order of their calls.
//
// | stage    | file                         | what happens                                     |
// |----------|------------------------------|--------------------------------------------------|
// | admit    | admit.ts                     | decides whether the request uses the cache       |
// | key      | key.ts, vary-index.ts        | decides which requests share a response          |
// | L1       | respond.ts                   | serves a fresh entry from memory                 |
// | coalesce | ../engine/engine.ts          | waits with other requests for the same key       |
// | lookup   | ../engine/lookup.ts          | gets the entry or the lease in one round trip    |
// | fill     | run-origin.ts                | runs the handler, if this request is the leader  |
// | storable | storable.ts                  | decides whether to store, and for how long       |
// | commit   | ../engine/share.ts           | writes the entry into the store                  |
// | respond  | respond.ts                   | builds the response: Age, Cache-Status, 304, 206 |

import { find } from '../engine/engine.ts'
import { readWithoutLease } from '../engine/lookup.ts'
import type { Caller, FillResult, Lead, Resolution } from '../engine/types.ts'
import type { RouteCounts } from '../entry/counts.ts'
import type { HeldEntry } from '../entry/entry.ts'
import type { CacheStatusFacts, Detail, ForwardReason } from '../http/cache-status.ts'
import { type CacheControl, isAcceptable } from '../http/freshness.ts'
import { likenessOf } from '../http/likeness.ts'
import { selects } from '../http/vary.ts'
import { freshCopy } from '../l1/purges.ts'
import type { Exchange, OnInner, RunWatch } from '../ports/exchange.ts'
import { admit, type Bypass, isBeyondEntries, keepLargePath } from './admit.ts'
import type { CacheParts } from './cache-parts.ts'
import { invalidation } from './invalidate.ts'
import { cacheKey } from './key.ts'
import { readContent } from './query-content.ts'
import {
  ageAt,
  asksForWhole,
  directivesOf,
  freshHit,
  gatewayTimeout,
  isPlain,
  readyFrom,
  replyFrom,
  serviceUnavailable,
  sharedFailure,
  staleReply,
  statusField,
} from './respond.ts'
import { missOf, type OriginRequest, OriginRun } from './run-origin.ts'
import { isLeftToInner } from './storable.ts'
import { VaryIndex } from './vary-index.ts'

type Done = void | Promise<void>

/**
 * Handles one request. Throws or rejects only with errors of the options `key`, `identity` and
 * `bypass`, or of the app, or with `ERR_STAMPEDE_BODY_UNSEEN`.
 */
export function handleCached<Native>(cache: CacheParts<Native>, exchange: Exchange<Native>): Done {
  const { request, native } = exchange
  const { rt, config, index } = cache
  const refused = rt.closed
    ? 'closed'
    : request.content
      ? undefined
      : admit(request, native, config)
  if (refused !== undefined) return bypass(cache, exchange, refused)
  if (request.method === 'QUERY' && !request.content) return handleQuery(cache, exchange)
  const plainKey = cacheKey(request, native, config, [])
  const names = index?.namesFor(plainKey, request.headers) ?? NONE
  const key = names.length === 0 ? plainKey : cacheKey(request, native, config, names)
  const ready = freshHit(cache, request, key)
  if (ready !== undefined) return exchange.send(ready)
  return new CachedRequest(cache, exchange, plainKey, names, key).lookUp()
}

/** Handles a QUERY (RFC 10008), whose key needs its body. */
async function handleQuery<Native>(
  cache: CacheParts<Native>,
  exchange: Exchange<Native>,
): Promise<void> {
  const reason = await readContent(exchange, cache.config)
  return reason ? bypass(cache, exchange, reason) : handleCached(cache, exchange)
}

/** Sends a request to the handler without the cache. An unsafe request still purges responses. */
function bypass<Native>(
  cache: CacheParts<Native>,
  exchange: Exchange<Native>,
  reason: Bypass,
): Done {
  const { rt, config, framework, first } = cache
  if (!first.isOver) first.count(exchange.request, reason)
  rt.counts.bypass(reason, framework.routeOf?.(exchange.native))
  if (reason !== 'method')
    return exchange.forward(statusField(config, { fwd: 'bypass', detail: reason }))
  const onHead = invalidation(cache, exchange)
  return exchange.forward(statusField(config, { fwd: reason }), { onHead })
}

const NONE: readonly string[] = []

/** After this many lookups that found another variant, the request bypasses the cache. */
const MOST_MISMATCHES = 3

/** One request after a miss in memory. The engine calls its methods, such as `run`. */
class CachedRequest<Native> implements Caller, OriginRequest<Native> {
  /** Number of lookups that found an entry of another variant. */
  #mismatches = 0
  #early: Resolution | undefined
  #onAnswer: ((resolution: Resolution) => void) | undefined
  scope: Caller['scope']
  #requestScope: Caller['scope']
  endLookup: Caller['endLookup']
  names: readonly string[]
  /** The key of the last lookup. */
  #key: string
  readonly cache: CacheParts<Native>
  readonly exchange: Exchange<Native>
  readonly plainKey: string
  readonly #directives: CacheControl

  constructor(
    cache: CacheParts<Native>,
    exchange: Exchange<Native>,
    plainKey: string,
    names: readonly string[],
    key: string,
  ) {
    this.cache = cache
    this.exchange = exchange
    this.plainKey = plainKey
    this.names = names
    this.#key = key
    this.#directives = directivesOf(cache.config, exchange.request)
  }

  /** Looks up the request under the key with all `Vary` fields that are known so far. */
  lookUp(): Done {
    const { rt, config, index } = this.cache
    const { request } = this.exchange
    const plainKey = this.plainKey
    const isFilled = this.#key === plainKey || freshCopy(rt, this.#key, rt.clock.now())
    if (!isFilled && index?.isOutdated(rt, plainKey)) this.#key = plainKey
    if (this.#key === plainKey) this.names = index?.formerNames(plainKey) ?? NONE
    const said = this.#directives
    const readsOnly =
      request.method === 'HEAD' || said.has('no-store') || said.has('only-if-cached')
    const hasRange = request.headers.range !== undefined
    if (readsOnly || (hasRange && isBeyondEntries(this.cache, request, this.#key)))
      return this.#respondStored()
    const found = find(rt, this.#key, config, this)
    if (found === undefined) return this.#whenAnswered()
    // A refresh may begin later, in the async context of another request.
    if (found.type === 'hit' && found.stale) {
      this.#requestScope ??= this.exchange.captureContext?.()
      this.scope ??= this.#requestScope
    }
    return this.#respond(found)
  }

  /** Adds the `Vary` fields of an entry of another variant to the key, and looks up again. */
  #lookUpVariant(held: HeldEntry): Done {
    const { rt, config } = this.cache
    const { request, native } = this.exchange
    const { plainKey } = this
    this.cache.index ??= new VaryIndex()
    const { index } = this.cache
    index.learn(rt, plainKey, this.#key === plainKey ? [] : this.names, held)
    this.#mismatches += 1
    if (this.#mismatches >= MOST_MISMATCHES)
      return bypass(this.cache, this.exchange, 'too-many-variants')
    this.names = index.namesFor(plainKey, request.headers)
    this.#key = this.names.length === 0 ? plainKey : cacheKey(request, native, config, this.names)
    return this.lookUp()
  }

  /** Responds to HEAD (RFC 9110 §9.3.2), `no-store` and `only-if-cached`, without a fill. */
  async #respondStored(): Promise<void> {
    const { rt } = this.cache
    const found = await readWithoutLease(rt, this.#key).catch(() => undefined)
    const isUsable = found !== undefined && rt.clock.now() < found.held.revalidateUntil
    if (!isUsable || found.held.entry.type !== 'response') return this.#respondMissing(missOf(this))
    return this.#respondHit({ type: 'hit', ...found })
  }

  /** Responds with the result of the lookup, now if it is there already. */
  #whenAnswered(): Done {
    const early = this.#early
    this.#early = undefined
    if (early !== undefined) return this.#respond(early)
    // From now on, the calls of the engine come in the async context of another request.
    this.#requestScope ??= this.exchange.captureContext?.()
    this.scope ??= this.#requestScope
    const answered = new Promise<Resolution>((resolve) => {
      this.#onAnswer = resolve
    })
    return answered.then((resolution) => {
      this.#onAnswer = undefined
      return this.#respond(resolution)
    })
  }

  #respond(resolution: Resolution): Done {
    const { rt, config, first } = this.cache
    const { exchange } = this
    switch (resolution.type) {
      case 'hit':
        return this.#respondHit(resolution)
      case 'led':
        return
      case 'pass':
        if (!first.isOver) first.count(exchange.request, resolution.reason)
        return this.#forward(resolution.reason, { onInner: this.#skipInner })
      case 'failed':
      case 'late': {
        if (resolution.type === 'failed') first.count(exchange.request, 'server-error')
        const why = resolution.type === 'failed' ? resolution.failure.status : resolution.why
        const stale = staleReply(this.cache, exchange.request, resolution.previous, why)
        if (stale === undefined) break
        rt.counts.served(resolution.previous, typeof why === 'number' ? 'if-error' : why)
        return exchange.send(stale)
      }
      case 'timed-out': {
        // If the client has left, its response is closed already. So no `close` event would free a
        // slot that is taken now.
        if (config.afterWait === 'unavailable' || this.isGone()) break
        const onEnd = rt.originSlots.takeAboveLimit(rt.clock, config.originTimeoutMs)
        return this.#forward('wait-timeout', { onEnd, onInner: this.#skipInner })
      }
    }
    if (resolution.type !== 'gone') this.#countMiss()
    const miss = missOf(this)
    return exchange.send(
      resolution.type === 'failed'
        ? sharedFailure(config, miss, resolution.failure.status, resolution.retryAfterMs)
        : serviceUnavailable(config, miss),
    )
  }

  #respondHit({ held, stale, from }: Extract<Resolution, { type: 'hit' }>): Done {
    const { rt, config, first } = this.cache
    const { request } = this.exchange
    const { entry } = held
    if (entry.type !== 'response') return bypass(this.cache, this.exchange, 'not-a-response')
    if (!selects(entry, request.headers)) return this.#lookUpVariant(held)
    const now = rt.clock.now()
    // The entry of a fill is new, so the directives of the request need no check.
    if (from !== 'fill' && !isAcceptable(this.#directives, ageAt(held, entry, now)))
      return this.#respondMissing(stale ? 'stale' : 'request')
    if (!first.isOver) first.count(request, 'hit')
    const ttlS = (held.staleAt - now) / 1000
    let facts: CacheStatusFacts = { ttlS }
    if (from === 'fill') {
      const { status, provenance } = entry
      rt.counts.route(provenance.route).misses += 1
      facts = { fwd: missOf(this), status, ttlS, collapsed: true }
    } else {
      rt.events.hit(this.#key, from, stale)
      rt.counts.served(held, stale ? 'revalidate' : undefined)
    }
    return this.exchange.send(
      isPlain(request, config)
        ? readyFrom(config, held, entry, facts, now)
        : replyFrom(request, config, held, entry, facts, now),
    )
  }

  #respondMissing(reason: ForwardReason): Done {
    const detail = this.#directives.has('no-store') ? 'request-no-store' : undefined
    if (!this.#directives.has('only-if-cached')) return this.#forward(detail, {}, reason)
    this.#countMiss()
    return this.exchange.send(gatewayTimeout())
  }

  #forward(detail: Detail | undefined, watch: RunWatch, fwd: ForwardReason = missOf(this)): Done {
    const { rt, config, framework } = this.cache
    const route = this.#countMiss()
    const startedAt = rt.clock.now()
    const onEnd = (): void => {
      // The router has run, so the route is known even if the cache is mounted before it.
      if (detail !== undefined) rt.counts.refused(detail, framework.routeOf?.(this.exchange.native))
      route.originMs += rt.clock.now() - startedAt
      watch.onEnd?.()
    }
    route.runs += 1
    const status = statusField(config, { fwd, detail })
    return this.exchange.forward(status, { ...watch, onEnd })
  }

  /** Counts a miss by its route, which is known here only if the cache is mounted on a route. */
  #countMiss(): RouteCounts {
    const { rt, framework } = this.cache
    const route = rt.counts.route(framework.routeOf?.(this.exchange.native))
    route.misses += 1
    return route
  }

  /**
   * Makes an inner cache with the same key forward the request to the handler. Otherwise the
   * request would be looked up, and would wait, a second time.
   */
  get #skipInner(): OnInner {
    return (inner) => (inner.keyOf(this.exchange.request) === this.plainKey ? undefined : [])
  }

  // For the engine

  acceptsStale(held: HeldEntry): boolean {
    return staleReply(this.cache, this.exchange.request, held) !== undefined
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

  run(lead: Lead, where: 'here' | 'behind'): void {
    const { exchange } = this
    // A traced run has a context of its own.
    if (this.scope !== this.#requestScope) exchange.captureContext?.()
    const run = new OriginRun(this, lead, where === 'behind')
    if (where === 'behind') exchange.redispatch(run)
    else exchange.runOrigin(run)
  }

  answer(resolution: Resolution): void {
    if (this.#onAnswer === undefined) this.#early = resolution
    else this.#onAnswer(resolution)
  }

  /** If the client of a run left, the result may not count, and the next waiter leads. */
  resultOf(result: FillResult, refused: string | undefined): FillResult {
    const { rt, first } = this.cache
    const { request } = this.exchange
    const isPass = result.type === 'pass'
    if (isPass && result.reason === 'too-large') keepLargePath(rt, request)
    // The handler may have stopped because its client left.
    const hasResource = isPass ? result.remember : 'entry' in result
    if (!hasResource && this.isGone()) return { type: 'abandoned', clientLeft: true }
    if (isLeftToInner(result)) first.isOver = true
    if (!first.isOver && (refused !== undefined || 'entry' in result))
      first.count(request, refused ?? 'stored')
    return result
  }
}
