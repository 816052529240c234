// The state of one cached request, which the engine calls.

import type { Caller, FillResult, Lead, Resolution } from '../engine/types.ts'
import type { HeldEntry } from '../entry/entry.ts'
import { beginsBeyond } from '../http/byte-range.ts'
import { requestField } from '../http/headers.ts'
import { likenessOf } from '../http/likeness.ts'
import type { RequestDirectives } from '../http/request-directives.ts'
import type { NeverStored } from '../never-stored.ts'
import type { Exchange, RequestView } from '../ports/exchange.ts'
import type { Runtime } from '../runtime.ts'
import type { CacheConfig } from './cache-options.ts'
import { asksForWhole } from './fresh-hit.ts'
import { directivesOf, staleReply } from './respond.ts'
import { type OriginRequest, runOrigin } from './run-origin.ts'
import { isLeftToInner } from './storable.ts'
import type { VaryIndex } from './vary-index.ts'

/** The state of one request. The engine calls its methods, such as `run`. */
export class RequestState<Native> implements Caller, OriginRequest<Native> {
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

/** A fill may read this many bytes in front of a range, even if no entry may be so large. */
const MOST_DROPPED = 1024 * 1024
/** Limits of `Runtime.largePaths`: paths, and characters of one. */
const MOST_PATHS = 1_000
const LONGEST_PATH = 1_000

const pathOf = ({ host, target }: RequestView): string => host + target.split('?', 1)[0]

function keepLargePath({ largePaths, clock, passMs }: Runtime, request: RequestView): void {
  const path = pathOf(request)
  if (largePaths.size >= MOST_PATHS) largePaths.clear()
  if (path.length <= LONGEST_PATH) largePaths.set(path, clock.now() + passMs)
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
