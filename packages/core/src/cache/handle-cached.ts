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
import { readWithoutLease } from '../engine/lookup.ts'
import type { Caller, FillResult, Lead, Resolution } from '../engine/types.ts'
import type { RouteCounts } from '../entry/counts.ts'
import type { HeldEntry } from '../entry/entry.ts'
import type { Detail, DetailedFacts, ForwardReason } from '../http/cache-status.ts'
import { likenessOf } from '../http/likeness.ts'
import { isAcceptable, type RequestDirectives } from '../http/request-directives.ts'
import { selects } from '../http/vary.ts'
import { freshCopy } from '../l1/purges.ts'
import type { NeverStored } from '../never-stored.ts'
import type { Exchange, OnInner, RunWatch } from '../ports/exchange.ts'
import type { Runtime } from '../runtime.ts'
import { admit, type Bypass } from './admit.ts'
import type { CacheConfig } from './cache-options.ts'
import { asksForWhole, freshHit, isPlain } from './fresh-hit.ts'
import { invalidation } from './invalidate.ts'
import { cacheKey } from './key.ts'
import { isBeyondEntries, keepLargePath } from './large-paths.ts'
import {
  ageAt,
  directivesOf,
  gatewayTimeout,
  readyFrom,
  replyFrom,
  serviceUnavailable,
  sharedFailure,
  staleReply,
  statusField,
} from './respond.ts'
import { missOf, type OriginRequest, runOrigin } from './run-origin.ts'
import { isLeftToInner } from './storable.ts'
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
  const names = index.namesFor(plainKey, request.headers)
  const key = names.length === 0 ? plainKey : cacheKey(request, native, config, names)
  const ready = freshHit(rt, config, request, key)
  if (ready !== undefined) {
    watch.isOver = true
    return exchange.send(ready)
  }
  exchange.captureContext?.()
  return lookUp(new RequestState(rt, config, index, watch, exchange, plainKey, names, key))
}

/** Sends the request to the handler. An unsafe request still purges stored responses. */
function bypass<Native>(
  rt: Runtime,
  config: CacheConfig<Native>,
  exchange: Exchange<Native>,
  { fwd, reason }: Bypass,
): void | Promise<void> {
  rt.counts.bypass(reason, exchange.routeOf?.(exchange.native))
  const detail = reason === 'method' ? undefined : reason
  const status = statusField(config, { type: 'forward', reason: fwd, detail })
  const watch = reason === 'method' ? { onHead: invalidation(rt, config, exchange) } : undefined
  return exchange.forward(status, watch)
}

/** Looks up the request under the key with all `Vary` fields that are known so far. */
function lookUp<Native>(state: RequestState<Native>): void | Promise<void> {
  const { rt, config, index, exchange, plainKey, directives } = state
  const { method, headers } = exchange.request
  const isFilled = state.key === plainKey || freshCopy(rt, state.key, rt.clock.now()) !== undefined
  if (!isFilled && index.isOutdated(rt, plainKey)) state.key = plainKey
  if (state.key === plainKey) state.names = index.formerNames(plainKey)
  const readsOnly = method === 'HEAD' || directives?.noStore || directives?.onlyIfCached
  const hasRange = headers.range !== undefined
  if (readsOnly || (hasRange && isBeyondEntries(rt, config, exchange.request, state.key)))
    return respondStored(state)
  const found = find(rt, state.key, config, state)
  return found === undefined ? state.whenAnswered(respond) : respond(state, found)
}

/** After this many lookups that found another variant, the request bypasses the cache. */
const MOST_MISMATCHES = 3

/** Adds the `Vary` fields of an entry of another variant to the key, and looks up again. */
function lookUpVariant<Native>(state: RequestState<Native>, held: HeldEntry): void | Promise<void> {
  const { rt, config, index, exchange, plainKey } = state
  const { request, native } = exchange
  index.learn(rt, plainKey, state.key === plainKey ? [] : state.names, held)
  state.mismatches += 1
  if (state.mismatches >= MOST_MISMATCHES) return bypass(rt, config, exchange, TOO_MANY_VARIANTS)
  state.names = index.namesFor(plainKey, request.headers)
  state.key = state.names.length === 0 ? plainKey : cacheKey(request, native, config, state.names)
  return lookUp(state)
}

function respond<Native>(
  state: RequestState<Native>,
  resolution: Resolution,
): void | Promise<void> {
  const { rt, config, exchange } = state
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
      const why = resolution.type === 'failed' ? resolution.failure.status : resolution.why
      const stale = staleReply(rt, exchange.request, config, resolution.previous, why)
      if (stale === undefined) break
      rt.counts.servedStale(typeof why === 'number' ? 'if-error' : why, resolution.previous)
      return exchange.send(stale)
    }
    case 'timed-out': {
      // If the client has left, its response is closed already. So no `close` event would free a
      // slot that is taken now.
      if (config.afterWait === 'unavailable' || exchange.isGone?.()) break
      const onEnd = rt.originSlots.takeAboveLimit(rt.clock, config.originTimeoutMs)
      return forwardMiss(state, 'wait-timeout', { onEnd, onInner: skipInner(state) })
    }
  }
  if (resolution.type !== 'gone') countMiss(state)
  const miss = missOf(state)
  return exchange.send(
    resolution.type === 'failed'
      ? sharedFailure(config, miss, resolution.failure.status, resolution.retryAfterMs)
      : serviceUnavailable(config, miss),
  )
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
    return respondMissing(state, stale ? 'stale' : 'request')
  }
  const ttlS = (held.staleAt - now) / 1000
  let facts: DetailedFacts = { type: 'hit', ttlS }
  if (from === 'fill') {
    const { status, provenance } = entry
    rt.counts.miss(rt.counts.route(provenance.route))
    facts = { type: 'forward', reason: missOf(state), status, ttlS, collapsed: true }
  } else {
    rt.events.hit(state.key, from, stale)
    rt.counts.hit(held, stale)
  }
  const { request } = exchange
  return exchange.send(
    isPlain(request, config)
      ? readyFrom(config, held, entry, facts, now)
      : replyFrom(request, config, held, entry, facts, now),
  )
}

/** Responds without a fill, to HEAD (RFC 9110 §9.3.2), `no-store` and `only-if-cached`. */
async function respondStored<Native>(state: RequestState<Native>): Promise<void> {
  const { rt, key } = state
  const found = await readWithoutLease(rt, key).catch(() => undefined)
  const isUsable = found !== undefined && rt.clock.now() < found.held.revalidateUntil
  if (!isUsable || found.held.entry.type !== 'response') return respondMissing(state, missOf(state))
  return respondHit(state, { type: 'hit', ...found })
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
  const status = statusField(config, { type: 'forward', reason, detail })
  return exchange.forward(status, { ...watch, onEnd })
}

/** Counts a miss by its route, which is known here only if the cache is mounted on a route. */
function countMiss<Native>({ rt, exchange }: RequestState<Native>): RouteCounts {
  const route = rt.counts.route(exchange.routeOf?.(exchange.native))
  rt.counts.miss(route)
  return route
}

/**
 * Makes an inner cache with the same key forward the request to the handler. Otherwise the request
 * would be looked up, and would wait, a second time.
 */
function skipInner<Native>({ exchange, plainKey }: RequestState<Native>): OnInner {
  return (inner) => (inner.keyOf(exchange.request) === plainKey ? undefined : [])
}

/** The state of one request. The engine calls its methods, such as `run`. */
class RequestState<Native> implements Caller, OriginRequest<Native> {
  names: readonly string[]
  /** The key of the last lookup. */
  key: string
  /** Number of lookups that found an entry of another variant. */
  mismatches = 0
  /** If this request is the leader: settles when its run has ended. */
  running: Promise<void> | undefined
  scope: Caller['scope']
  lookup: Caller['lookup']
  #early: Resolution | undefined
  #onAnswer: ((resolution: Resolution) => void) | undefined
  readonly rt: Runtime
  readonly config: CacheConfig<Native>
  readonly index: VaryIndex
  readonly watch: NeverStored
  readonly exchange: Exchange<Native>
  readonly plainKey: string
  readonly directives: RequestDirectives | undefined

  constructor(
    rt: Runtime,
    config: CacheConfig<Native>,
    index: VaryIndex,
    watch: NeverStored,
    exchange: Exchange<Native>,
    plainKey: string,
    names: readonly string[],
    key: string,
  ) {
    this.rt = rt
    this.config = config
    this.index = index
    this.watch = watch
    this.exchange = exchange
    this.plainKey = plainKey
    this.names = names
    this.key = key
    this.directives = directivesOf(config, exchange.request)
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

  run(lead: Lead, where: 'here' | 'behind'): void {
    if (this.scope !== undefined) this.exchange.captureContext?.()
    const running = runOrigin(this, lead, where === 'behind')
    if (where === 'here') this.running = running
  }

  answer(resolution: Resolution): void {
    if (this.#onAnswer === undefined) this.#early = resolution
    else this.#onAnswer(resolution)
  }

  /** Calls `respond` with the result of the lookup, now if it is there already. */
  whenAnswered(
    respond: (state: this, resolution: Resolution) => void | Promise<void>,
  ): void | Promise<void> {
    const early = this.#early
    this.#early = undefined
    if (early !== undefined) return respond(this, early)
    // A promise, because the answer comes in the async context of another request.
    const answered = new Promise<Resolution>((resolve) => {
      this.#onAnswer = resolve
    })
    return answered.then((resolution) => {
      this.#onAnswer = undefined
      return respond(this, resolution)
    })
  }

  /** If the client of a run left, the result may not count, and the next waiter leads. */
  judge(result: FillResult): FillResult {
    const { rt, exchange, watch } = this
    const isPass = result.type === 'pass'
    if (isPass && result.reason === 'too-large') keepLargePath(rt, exchange.request)
    // The handler may have stopped because its client left.
    const hasResource = isPass ? result.remember : 'entry' in result
    if (!hasResource && this.isGone()) return { type: 'abandoned', clientLeft: true }
    if (result.type === 'store' || isLeftToInner(result)) watch.isOver = true
    else if (isPass) watch.onRefused(exchange.request, result.reason)
    return result
  }
}
