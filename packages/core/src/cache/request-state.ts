// The state of one cached request, and the ways in which it reaches the handler.

import type { Caller, FillResult, Lead, Resolution } from '../engine/types.ts'
import type { RouteCounts } from '../entry/counts.ts'
import type { HeldEntry } from '../entry/entry.ts'
import { beginsBeyond } from '../http/byte-range.ts'
import type { ForwardReason } from '../http/cache-status.ts'
import type { Detail } from '../http/cache-status-details.ts'
import { requestField } from '../http/headers.ts'
import { likenessOf } from '../http/likeness.ts'
import type { RequestDirectives } from '../http/request-directives.ts'
import type { NeverStored } from '../never-stored.ts'
import type { Exchange, Natives, OnInner, RequestView, RunWatch } from '../ports/exchange.ts'
import type { Runtime } from '../runtime.ts'
import { audited } from './audit.ts'
import type { CacheConfig } from './cache-config.ts'
import { asksForWhole } from './fresh-hit.ts'
import { watchRefresh } from './refresh-warning.ts'
import { directivesOf, staleReply, statusField } from './respond.ts'
import { type RunParameters, runOrigin } from './run-origin.ts'
import type { VaryIndex } from './vary-index.ts'

/** The parameter `fwd` of a miss (RFC 9211 §2.2). */
export function missOf<Native>({ names }: RequestState<Native>): 'uri-miss' | 'vary-miss' {
  return names.length === 0 ? 'uri-miss' : 'vary-miss'
}

/** The state of one request. The engine calls its methods, such as `run`. */
export class RequestState<Native> implements Caller {
  /** `Vary` fields of earlier responses that the key of the last lookup contains. */
  names: readonly string[] = []
  /** The key of the last lookup. */
  key: string
  /** Number of lookups that found an entry of another variant. */
  mismatches = 0
  /** If this request is the leader: settles when its handler has ended. */
  running: Promise<unknown> | undefined
  scope: Caller['scope']
  lookup: Caller['lookup']
  #early: Resolution | undefined
  #onAnswer: ((resolution: Resolution) => void) | undefined
  readonly rt: Runtime
  readonly config: CacheConfig<Native>
  readonly index: VaryIndex
  readonly watch: NeverStored
  readonly exchange: Exchange<Native>
  /** The key without the `Vary` fields of earlier responses. */
  readonly plainKey: string
  readonly directives: RequestDirectives | undefined

  constructor(
    rt: Runtime,
    config: CacheConfig<Native>,
    index: VaryIndex,
    watch: NeverStored,
    exchange: Exchange<Native>,
    plainKey: string,
  ) {
    this.rt = rt
    this.config = config
    this.index = index
    this.watch = watch
    this.exchange = exchange
    this.plainKey = plainKey
    this.key = plainKey
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
    const { exchange, config } = this
    if (this.scope !== undefined) exchange.captureContext?.()
    if (where === 'behind') {
      const watch = watchRefresh(exchange, config, lead)
      return this.#runOrigin(lead, 'stale', watch.judge, watch.start, false)
    }
    const reason = lead.previous === undefined ? missOf(this) : 'stale'
    this.#runOrigin(lead, reason, this.#judge, (observer) => {
      const run = exchange.runOrigin(config.audit ? audited(exchange, config, observer) : observer)
      this.running = run
      return run
    })
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

  /** The result of the run of this request, unless its client left. */
  readonly #judge = (result: FillResult): FillResult => {
    const { exchange, watch } = this
    if (result.type === 'pass' && result.reason === 'too-large') keepLargePath(this)
    if (this.isGone() && mayBeDueToDisconnect(result))
      return { type: 'abandoned', clientLeft: true }
    const isInner = result.type === 'pass' && result.reason === 'inner-cache'
    if (result.type === 'store' || isInner) watch.isOver = true
    else if (result.type === 'pass') watch.onRefused(exchange.request, result.reason)
    return result
  }

  #runOrigin(
    lead: Lead,
    reason: RunParameters['reason'],
    judge: RunParameters['judge'],
    start: RunParameters['start'],
    forClient = true,
  ): void {
    const { rt, config, plainKey, exchange } = this
    const { request } = exchange
    const nativeOf = (natives: Natives | undefined) => (natives?.[0] ?? exchange.native) as Native
    runOrigin(rt, {
      request,
      plainKey,
      config,
      lead,
      reason,
      forClient,
      allowsEtag: (natives) => exchange.allowsEtag?.(nativeOf(natives)) ?? true,
      routeOf: (natives) => exchange.routeOf?.(nativeOf(natives)),
      start,
      judge,
    })
  }
}

/** A fill may read this many bytes in front of a range, even if no entry may be so large. */
const MOST_DROPPED = 1024 * 1024
/** Limits of `Runtime.largePaths`: paths, and characters of one. */
const MOST_PATHS = 1_000
const LONGEST_PATH = 1_000

const pathOf = ({ host, target }: RequestView): string => host + target.split('?', 1)[0]

function keepLargePath<Native>({ rt, exchange }: RequestState<Native>): void {
  const path = pathOf(exchange.request)
  if (rt.largePaths.size >= MOST_PATHS) rt.largePaths.clear()
  if (path.length <= LONGEST_PATH) rt.largePaths.set(path, rt.clock.now() + rt.passMs)
}

/**
 * Whether the request wants bytes that no entry can have, or a part of a response that was too
 * large within the last `passMs`. A fill would make the handler read the whole file for them.
 */
export function isBeyondEntries<Native>({ rt, config, exchange }: RequestState<Native>): boolean {
  const { request } = exchange
  const range = requestField(request.headers, 'range')
  if (range === undefined) return false
  const from = Math.max(config.maxBodyBytes, MOST_DROPPED)
  const largeUntil = rt.largePaths.get(pathOf(request)) ?? 0
  return rt.clock.now() < largeUntil || beginsBeyond(range, from)
}

/**
 * Whether the handler may have stopped because its client left. Then the result does not count, and
 * the next waiter leads.
 */
function mayBeDueToDisconnect(result: FillResult): boolean {
  if (result.type === 'pass') return !result.remember
  return result.type === 'failure' || result.type === 'abandoned'
}

export function forwardMiss<Native>(
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
export function countMiss<Native>({ rt, exchange }: RequestState<Native>): RouteCounts {
  const route = rt.counts.route(exchange.routeOf?.(exchange.native))
  rt.counts.miss(route)
  return route
}

/** Sends the request to the handler, with the reason in Cache-Status. */
export function forward<Native>(
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
export function skipInner<Native>({ exchange, plainKey }: RequestState<Native>): OnInner {
  return (inner) => (inner.keyOf(exchange.request) === plainKey ? undefined : [])
}
