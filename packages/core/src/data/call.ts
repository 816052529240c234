// One call of getOrSet. If the call is the leader, it runs its factory. Its value comes from the
// resolution of its flight.

import { AsyncResource } from 'node:async_hooks'
import { find } from '../engine/engine.ts'
import { previousInL1 } from '../engine/fill.ts'
import { countRead, dropUnreadable } from '../engine/lookup.ts'
import type { Caller, CallerBatch, FillResult, Lead, Resolution } from '../engine/types.ts'
import { routeOf } from '../entry/counts.ts'
import { type HeldEntry, mayServeOnError, type StoredValue, withJitter } from '../entry/entry.ts'
import {
  messageOf,
  noConcurrencySlot,
  noPreviousValue,
  originFailed,
  originTimeout,
  type StampedeError,
  show,
  valueError,
  waitTimeout,
} from '../errors.ts'
import { confirmedCopy } from '../l1/purges.ts'
import { shownKey } from '../ports/key.ts'
import { reportRefresh } from '../refresh-warnings.ts'
import { inScope, lookupTracing } from '../tracing.ts'
import {
  type DataScope,
  type Factory,
  FillContext,
  NOT_MODIFIED,
  Skip,
  storedValue,
  subjectsOf,
  ttlOf,
  WHERE,
} from './get-or-set-options.ts'
import { decodeData, encodeData } from './value.ts'

/** Limit of lookups of one call, if the serializer can parse none of the values found. */
const MOST_ATTEMPTS = 3

/** The parts of a run that a call needs. */
export type ValueLead = Omit<Lead, 'hasTimedOut' | 'keepSlot'>

/** A run of the factory that has begun. */
export interface Begun<P> {
  readonly context: FillContext<P>
  readonly held: HeldEntry | undefined
  end(result: FillResult): void
}

/**
 * One call of getOrSet. If the call is the leader and its factory fails, the caller gets the error
 * of the factory itself.
 */
export class Call<T, P> implements Caller {
  scope: Caller['scope']
  endLookup: Caller['endLookup']
  declare readonly batch?: CallerBatch
  readonly #of: DataScope
  readonly #key: string
  /** Undefined for a key of a batch. */
  readonly #factory: Factory<T, P> | undefined
  #resolve: (value: T | Promise<T>) => void = NOTHING
  #reject: (error: unknown) => void = NOTHING
  #attempts = 0
  /** Fence, signal and other facts about the last fill that this call led. */
  #lead: ValueLead | undefined
  #context: AsyncResource | undefined

  /** `key`: the internal key. */
  constructor(of: DataScope, key: string, factory?: Factory<T, P>) {
    this.#of = of
    this.#key = key
    this.#factory = factory
  }

  /**
   * Looks up the value, or runs the factory. The functions are those of a promise. Without them,
   * the call repeats its lookup for those of its first `start`.
   */
  start(
    resolve: (value: T | Promise<T>) => void = this.#resolve,
    reject: (error: unknown) => void = this.#reject,
  ): void {
    this.#resolve = resolve
    this.#reject = reject
    if (this.#attempts === MOST_ATTEMPTS) return this.#resolve(this.#runAlone())
    this.#attempts += 1
    // The reply of a store, or the end of a flight that the call joins, may come in the async
    // context of another call. A run after `waitMs` does not belong to the traced lookup.
    const { rt, plan } = this.#of
    const isLater = rt.records !== undefined || rt.flights.has(this.#key)
    if (isLater || lookupTracing.hasSubscribers) this.captureContext()
    const found = find(rt, this.#key, plan, this)
    if (found !== undefined) this.answer(found)
  }

  captureContext(): void {
    this.#context ??= new AsyncResource('StampedeGetOrSet')
    this.scope ??= this.#context
  }

  answer(resolution: Resolution): void {
    try {
      switch (resolution.type) {
        case 'hit':
        case 'late':
          return this.#give(resolution)
        case 'led':
          return this.#resolve(this.#ownValue(resolution.result))
        case 'skipped':
          // A batch found no value, but this call's own factory may have one.
          if (resolution.entry === undefined && this.#factory !== undefined) return this.start()
          return this.#resolve(this.#ownValue(resolution))
        case 'failed': {
          const { previous, error, failure } = resolution
          const thrown = error ?? originFailed(this.#name, failure.message)
          return this.#resolve(this.#staleOr(previous, thrown))
        }
        case 'timed-out':
          return this.#resolve(this.#runAfterWait())
        // `gone` occurs only for HTTP requests. For a call, `pass` means that three runs in a row
        // ended without a result.
        case 'gone':
        case 'pass':
          return this.#resolve(this.#runAlone())
      }
    } catch (error) {
      this.#reject(error)
    }
  }

  #give(resolution: Extract<Resolution, { type: 'hit' | 'late' }>): void {
    const { rt } = this.#of
    const held = resolution.type === 'hit' ? resolution.held : resolution.previous
    const parsed = this.parseHeld(held)
    if (parsed === undefined) {
      dropUnreadable(rt, this.#key, held).then(() => this.start())
      return
    }
    if (resolution.type === 'late') rt.counts.served(held, resolution.why)
    else if (resolution.from === 'fill') rt.counts.route(routeOf(this.#key)).misses += 1
    else countRead(rt, this.#key, { held, stale: resolution.stale, from: resolution.from })
    this.#resolve(parsed.value)
  }

  run(lead: ValueLead, where: 'here' | 'behind'): void {
    const { context, held, end } = this.begin(lead, where)
    try {
      const made: unknown = this.#factory?.(context)
      const isThenable = typeof (made as { then?: unknown } | null | undefined)?.then === 'function'
      if (!isThenable) return end(this.resultOf(made, lead, held))
      // A lazy thenable, such as a query, starts its work in `then`. So it is called here, in the
      // async context of the caller.
      Promise.resolve(made).then(
        (value) => end(this.resultOf(value, lead, held)),
        (error) => end(failureOf(error)),
      )
    } catch (error) {
      end(failureOf(error))
    }
  }

  /** Begins a run: what the factory gets, and the function that ends the run. */
  protected begin(lead: ValueLead, where: 'here' | 'behind'): Begun<P> {
    if (where === 'here') this.#lead = lead
    const held = lead.previous
    const { rt } = this.#of
    const { clock, counts } = rt
    const startedAt = clock.now()
    let isOver = false
    const end = (result: FillResult): void => {
      if (!isOver) {
        isOver = true
        const route = counts.route(routeOf(this.#key))
        route.runs += 1
        route.originMs += clock.now() - startedAt
        if (where === 'behind') reportRefresh(rt, this.where, 'value', result)
      }
      lead.end(result)
    }
    // A factory that ignores its signal must not block its caller for ever.
    lead.onTimeout = end
    return { context: new FillContext<P>(lead, held, startedAt, this), held, end }
  }

  /** The result of a fill whose factory returned this value. */
  resultOf(value: unknown, lead: Pick<Lead, 'asOf'>, previous: HeldEntry | undefined): FillResult {
    try {
      if (value instanceof Skip) return this.#skipped(value, lead)
      const { asOf } = lead
      const { rt, plan, serializer } = this.#of
      const { ttlMs } = plan
      const confirmed = value === NOT_MODIFIED ? previous : undefined
      if (value === NOT_MODIFIED && confirmed === undefined) throw noPreviousValue(this.where)
      const stored = confirmed ? storedValue(confirmed) : encodeData(this, value, serializer)
      const bornAt = rt.clock.now()
      const { encoding, body, parsed, copy } = stored
      const provenance = { asOf, tookMs: 0, subjects: subjectsOf(this.#of, stored) }
      const entry: StoredValue = { type: 'value', encoding, body, provenance, parsed, copy }
      const freshMs =
        typeof ttlMs === 'number' ? ttlMs : ttlOf(ttlMs, decodeData(entry, serializer))
      const lifetimes = withJitter(freshMs, plan, plan.jitter, rt.random)
      return { type: 'store', entry, lifetimes, bornAt }
    } catch (error) {
      return failureOf(error)
    }
  }

  /** The value is encoded as for the store, so that callers get it as they get a stored one. */
  #skipped({ value, skipMs, lead }: Skip, own: object): FillResult {
    if (lead !== own) throw valueError(this.where, 'skip() of another call was returned')
    return { type: 'skipped', entry: encodeData(this, value, this.#of.serializer), skipMs }
  }

  acceptsStale(held: HeldEntry): boolean {
    return mayServeOnError(held, this.#of.rt.clock.now())
  }

  get where(): string {
    return `${WHERE}(${show(this.#name)})`
  }

  /** The key as the caller wrote it, for errors. */
  get #name(): string {
    return shownKey(this.#key)
  }

  /** The value of a stored entry. Undefined if the serializer cannot parse it. */
  parseHeld<V = T>(held: HeldEntry): { readonly value: V } | undefined {
    return parseHeld<V>(this.#of, this.#key, held)
  }

  /** Runs the factory for this caller only. */
  async #runAlone(cause?: StampedeError): Promise<T> {
    return this.#ownValue(await this.#runUncoordinated(), cause)
  }

  /**
   * Runs the factory after `waitMs`, if a concurrency slot is free. Without this limit, all waiters
   * would run their factories at the same time.
   */
  #runAfterWait(): T | Promise<T> {
    const { rt, plan } = this.#of
    const { waitMs } = plan
    const freeSlot = (this.batch?.slots ?? rt.originSlots).take()
    if (freeSlot !== undefined)
      return this.#runAlone(waitTimeout(this.#name, waitMs)).finally(freeSlot)
    const previous = previousInL1(rt, this.#key)
    return this.#staleOr(previous?.held, noConcurrencySlot(this.#name, waitMs))
  }

  /** One run without a lease. Its value is not stored. */
  #runUncoordinated(): Promise<FillResult> {
    const { rt, plan } = this.#of
    const { originTimeoutMs } = plan
    const deadline = new AbortController()
    return new Promise((resolve) => {
      const end = (result: FillResult): void => {
        timer.cancel()
        resolve(result)
      }
      const timer = rt.clock.setTimer(originTimeoutMs, () => {
        const error = originTimeout(this.#name, originTimeoutMs)
        deadline.abort(error)
        lead.onTimeout?.(failureOf(error))
      })
      const { signal } = deadline
      const facts = { fence: '', asOf: 0, previous: undefined, signal }
      const lead: ValueLead = { ...facts, onTimeout: undefined, end }
      inScope(this.#context, () => this.run(lead, 'here'))
    })
  }

  #ownValue(result: FillResult, cause?: StampedeError): T {
    if (result.type === 'failure') return this.#staleOr(this.#lead?.previous, result.error, true)
    const { rt, serializer } = this.#of
    rt.counts.route(routeOf(this.#key)).misses += 1
    if (result.type === 'skipped' && result.entry === undefined) return undefined as T
    if ('entry' in result) return decodeData<T>(result.entry as StoredValue, serializer)
    throw originFailed(this.#name, result.type, cause)
  }

  /** RFC 5861 §4: serves the stale value instead of an error, unless it was purged meanwhile. */
  #staleOr(previous: HeldEntry | undefined, error: unknown, ranOrigin = false): T {
    const { rt } = this.#of
    const held = previous && confirmedCopy(rt, previous)
    const isServable = held !== undefined && mayServeOnError(held, rt.clock.now())
    const parsed = isServable ? this.parseHeld(held) : undefined
    if (parsed === undefined) {
      rt.counts.route(routeOf(this.#key)).misses += 1
      throw error
    }
    rt.counts.served(held, 'if-error', ranOrigin)
    return parsed.value
  }
}

const NOTHING = (): void => {}

/**
 * The value of a stored entry. If the serializer cannot parse it, emits an event and returns
 * undefined.
 */
export function parseHeld<T>(
  { rt, serializer }: Pick<DataScope, 'rt' | 'serializer'>,
  key: string,
  held: HeldEntry,
): { readonly value: T } | undefined {
  try {
    return { value: decodeData<T>(storedValue(held), serializer) }
  } catch (error) {
    rt.events.emit({ type: 'entry.unreadable', key, error })
    return undefined
  }
}

export function failureOf(error: unknown): FillResult {
  return { type: 'failure', failure: { status: 500, message: messageOf(error) }, error }
}
