// The journey of a cached request: admit, key, resolve (L1, coalesce, lookup-or-lease, fill, commit, wait),
// respond. Each stage is a file of that name.

import { freshnessAt } from '../entry/entry.ts'
import { peek } from '../flight/lookup-or-lease.ts'
import type { Caller, FillResult, Lead, Resolution } from '../flight/resolution.ts'
import { resolve } from '../flight/resolve.ts'
import type { Runtime } from '../flight/runtime.ts'
import type { ForwardReason } from '../http/cache-status.ts'
import { likenessOf } from '../http/likeness.ts'
import { isWelcome, type RequestDirectives } from '../http/request-directives.ts'
import { sameSelection } from '../http/vary.ts'
import type { Exchange, HeadWatch, OnInner } from '../ports/exchange.ts'
import { audited } from './audit.ts'
import { type Begun, begin } from './begin.ts'
import type { CacheConfig } from './cache-config.ts'
import { asksForWhole, isPlain } from './hit-at-once.ts'
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
import { type OriginRun, runOrigin } from './run-origin.ts'
import type { VaryIndex } from './vary-index.ts'

/** Everything about one request that the stages after admission need. */
interface Journey<Native> {
  readonly rt: Runtime
  readonly config: CacheConfig<Native>
  readonly index: VaryIndex
  readonly exchange: Exchange<Native>
  readonly plainKey: string
  readonly wish: RequestDirectives | undefined
  /** Finding an answer for other requests teaches what varies, and is tried again with that in the key. */
  attempts: number
  /** Under which the last attempt looked. */
  key: string
  /** The end of this client's own run of the app, if it led. */
  running: Promise<unknown> | undefined
}

/** Never rejects by itself; throws what the user's `key`, `identity` or `bypass` threw, if `begun` is not given. */
export function handleCached<Native>(
  rt: Runtime,
  config: CacheConfig<Native>,
  index: VaryIndex,
  exchange: Exchange<Native>,
  begun: Begun = begin(rt, config, exchange.request, exchange.native),
): void | Promise<void> {
  const { request } = exchange
  const { refused, plainKey } = begun
  if (refused !== undefined) {
    const onHead = refused.reason === 'method' ? invalidation(rt, config, exchange) : undefined
    return forward(exchange, config, refused.fwd, refused.reason, onHead)
  }
  const wish = wishOf(config, request)
  return attempt({
    rt,
    config,
    index,
    exchange,
    plainKey,
    wish,
    attempts: 0,
    key: plainKey,
    running: undefined,
  })
}

function attempt<Native>(journey: Journey<Native>): void | Promise<void> {
  const { rt, config, index, exchange, plainKey, wish } = journey
  const { request, native } = exchange
  const names = index.namesFor(plainKey, request.headers)
  journey.attempts += 1
  if (journey.attempts > 3) {
    return forward(exchange, config, 'bypass', 'too-many-variants')
  }
  const key = names.length === 0 ? plainKey : cacheKey(request, native, config, names)
  journey.key = key
  const fillsNothing = request.method === 'HEAD' || wish?.noStore || wish?.onlyIfCached
  if (fillsNothing) return answerStored(journey, names, key)
  const reason = names.length === 0 ? 'uri-miss' : 'vary-miss'
  const resolution = resolve(rt, key, config, callerOf(journey, reason))
  if (!(resolution instanceof Promise)) return answer(journey, names, resolution)
  return resolution.then((later) => answer(journey, names, later))
}

function callerOf<Native>(journey: Journey<Native>, miss: 'uri-miss' | 'vary-miss'): Caller {
  const { rt, config, exchange, plainKey } = journey
  const { request } = exchange
  const reason = (lead: Lead) => (lead.previous === undefined ? miss : 'stale')
  const isGone = () => exchange.isGone?.() ?? false
  return {
    takesLive: takesLive(exchange, config),
    takesStale: (held) => staleReply(rt, request, config, held, 'soft-timeout') !== undefined,
    isGone,
    likeness: () => likenessOf(request),
    hidesFields: () => !asksForWhole(request.headers),
    async lead(lead: Lead): Promise<FillResult> {
      const result = await runOrigin(rt, {
        request,
        plainKey,
        config,
        lead,
        reason: reason(lead),
        forClient: true,
        allowsEtag: etagRule(exchange),
        start: (observer) => {
          const run = exchange.runOrigin(
            config.audit ? audited(exchange, config, observer) : observer,
          )
          journey.running = run
          return run
        },
      })
      return isGone() && mayComeFromDeparture(result)
        ? { type: 'abandoned', clientLeft: true }
        : result
    },
    refresh: (lead: Lead): Promise<FillResult> =>
      watchRefresh(exchange, config, lead, (start) =>
        runOrigin(rt, {
          request: request.method === 'HEAD' ? { ...request, method: 'GET' } : request,
          plainKey,
          config,
          lead,
          reason: 'stale',
          forClient: false,
          allowsEtag: etagRule(exchange),
          start,
        }),
      ),
  }
}

function etagRule<Native>(exchange: Exchange<Native>): OriginRun['allowsEtag'] {
  return (natives) => exchange.allowsEtag?.((natives?.[0] ?? exchange.native) as Native) ?? true
}

/**
 * Whether the client's departure may have caused this result: handlers often abort their work then.
 * Such a result says nothing about the origin, so the next waiter runs the handler.
 */
function mayComeFromDeparture(result: FillResult): boolean {
  if (result.type === 'pass') return !result.remember
  return result.type === 'failure' || result.type === 'abandoned'
}

function answer<Native>(
  journey: Journey<Native>,
  names: readonly string[],
  resolution: Resolution,
): void | Promise<void> {
  const { rt, config, exchange } = journey
  switch (resolution.type) {
    case 'hit':
      return answerHit(journey, names, resolution)
    case 'live':
      return answerLive(journey, names, resolution)
    case 'led':
      return journey.running?.then(() => undefined)
    case 'pass':
      return forward(exchange, config, 'uri-miss', resolution.reason, undefined, inside(journey))
    case 'failed': {
      const { failure, previous, retryAfterMs } = resolution
      const stale = staleReply(rt, exchange.request, config, previous, failure.status)
      return exchange.send(stale ?? sharedFailure(config, failure.status, retryAfterMs))
    }
    case 'late': {
      const { previous, why } = resolution
      const stale = staleReply(rt, exchange.request, config, previous, why)
      return exchange.send(stale ?? waitedTooLong(config))
    }
    case 'timed-out': {
      if (config.afterWait === 'unavailable') return exchange.send(waitedTooLong(config))
      const leave = rt.places.force(rt.clock, config.originTimeoutMs)
      return forward(exchange, config, 'uri-miss', 'wait-timeout', leave, inside(journey))
    }
    case 'gone':
      return exchange.send(waitedTooLong(config))
  }
}

function answerHit<Native>(
  journey: Journey<Native>,
  names: readonly string[],
  { held, stale, from }: Extract<Resolution, { type: 'hit' }>,
): void | Promise<void> {
  const { rt, config, exchange, index, plainKey } = journey
  const { entry } = held
  if (entry.type !== 'response') return forward(exchange, config, 'bypass', 'not-a-response')
  if (!sameSelection(entry.vary, exchange.request.headers)) {
    index.learn(plainKey, names, entry)
    return attempt(journey)
  }
  config.compress?.prepare(rt.l1, journey.key, entry, exchange.request.headers)
  const now = rt.clock.now()
  // What has just been made is as new as what this client would get by itself.
  if (from !== 'fill' && !isWelcome(journey.wish, offerOf(held, entry, now))) {
    return forward(exchange, config, stale ? 'stale' : 'request')
  }
  const ttlS = (held.staleAt - now) / 1000
  const facts =
    from === 'fill' && !stale
      ? ({
          type: 'forward',
          reason: names.length === 0 ? 'uri-miss' : 'vary-miss',
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

/** One whom the answer does not fit, or for whom it ended too soon, asks again: nothing was sent. */
function answerLive<Native>(
  journey: Journey<Native>,
  names: readonly string[],
  live: Extract<Resolution, { type: 'live' }>,
): void | Promise<void> {
  const { rt, config, exchange, index, plainKey } = journey
  const { entry } = live.held
  const fits = sameSelection(entry.vary, exchange.request.headers)
  if (!fits) index.learn(plainKey, names, entry)
  if (!fits || live.chunks.isCut) {
    live.chunks.return()
    return attempt(journey)
  }
  sendLive(rt, exchange, config, names.length === 0 ? 'uri-miss' : 'vary-miss', live)
}

/** RFC 9110 §9.3.2: HEAD is answered from what a GET stored. Without that, no answer of the app's is kept. */
async function answerStored<Native>(
  journey: Journey<Native>,
  names: readonly string[],
  key: string,
): Promise<void> {
  const { rt, config, exchange, wish } = journey
  const held = await peek(rt, key).catch(() => undefined)
  const now = rt.clock.now()
  const freshness = held === undefined ? 'expired' : freshnessAt(held, now)
  const entry = freshness === 'fresh' || freshness === 'stale' ? held?.entry : undefined
  if (held === undefined || entry?.type !== 'response') return unanswered(journey, 'uri-miss')
  if (!sameSelection(entry.vary, exchange.request.headers)) {
    journey.index.learn(journey.plainKey, names, entry)
    return attempt(journey)
  }
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

/** To the app, with a word on why. */
function forward<Native>(
  exchange: Exchange<Native>,
  config: CacheConfig<Native>,
  reason: ForwardReason,
  detail?: string,
  onHead?: HeadWatch,
  onInner?: OnInner,
): void | Promise<void> {
  const shown = detail === 'method' ? undefined : detail
  const status = statusField(config, { type: 'forward', reason, detail: shown })
  return exchange.bypass(status, onHead, onInner)
}

/** A cache further in would only ask, and wait, for the same key again. */
function inside<Native>({ exchange, plainKey }: Journey<Native>): OnInner {
  return (inner) => (inner.keyOf(exchange.request) === plainKey ? undefined : [])
}
