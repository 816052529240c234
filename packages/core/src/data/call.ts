// One call of getOrSet. If the call is the leader, it runs its factory. Its value comes from the
// resolution of its flight.

import { AsyncResource } from 'node:async_hooks'
import { type HeldEntry, mayServeOnError, type StoredValue } from '../entry/entry.ts'
import { spread } from '../entry/lifetimes.ts'
import {
  messageOf,
  noConcurrencySlot,
  noPreviousValue,
  originFailed,
  originTimeout,
  type StampedeError,
  show,
  waitTimeout,
} from '../errors.ts'
import { reportResult } from '../flight/refresh-failures.ts'
import type { Caller, FillResult, Lead, Resolution } from '../flight/resolution.ts'
import type { Runtime } from '../flight/runtime.ts'
import { previousInL1 } from '../flight/soft-timeout.ts'
import { confirmedCopy } from '../l1/validity.ts'
import { dataKey } from '../ports/key.ts'
import type { Position } from '../ports/store.ts'
import { tagSubject } from '../ports/subject.ts'
import { evaluateTags } from '../tags.ts'
import { inScope } from '../tracing.ts'
import { type Factory, FillContext, NOT_MODIFIED, storedValue } from './factory-context.ts'
import { type Plan, ttlOf, WHERE } from './get-or-set-options.ts'
import { decodeData, decodeOwn, encodeData, type Serializer } from './value.ts'

/**
 * One call of getOrSet. If the call is the leader and its factory fails, the caller gets the error
 * of the factory itself.
 */
export class Call<T, P> implements Caller {
  scope: Caller['scope']
  readonly #rt: Runtime
  readonly #key: string
  readonly #factory: Factory<T, P>
  readonly #plan: Plan
  readonly #serializer: Serializer | undefined
  /** Fence, signal and other facts about the last fill that this call led. */
  #lead: Lead | undefined
  #context: AsyncResource | undefined

  constructor(
    rt: Runtime,
    key: string,
    factory: Factory<T, P>,
    plan: Plan,
    serializer: Serializer | undefined,
  ) {
    this.#rt = rt
    this.#key = key
    this.#factory = factory
    this.#plan = plan
    this.#serializer = serializer
  }

  async lead(lead: Lead): Promise<FillResult> {
    this.#lead = lead
    const { asOf, previous: held } = lead
    const { clock, counts } = this.#rt
    const now = clock.now()
    try {
      const context = new FillContext(lead, held, now, this)
      // A traced fill is in the context of its caller already.
      const scope = this.scope === undefined ? this.#context : undefined
      const returned = inScope(scope, () => this.#factory(context))
      const isPromise = isThenable(returned)
      const value: unknown = isPromise ? await beforeDeadline(lead.signal, returned) : returned
      return value === NOT_MODIFIED ? this.#unchanged(held, asOf) : this.resultOf(value, asOf)
    } catch (error) {
      return { type: 'failure', failure: { status: 500, message: messageOf(error) }, error }
    } finally {
      const route = counts.ofData(dataKey(this.#key))
      route.runs += 1
      route.originMs += clock.now() - now
    }
  }

  /**
   * Makes the current asynchronous context that of a later run. A call that joins a flight and
   * later leads would otherwise run its factory in the context of the call that began the flight.
   */
  captureContext(): void {
    this.#context ??= new AsyncResource('StampedeGetOrSet')
  }

  async refresh(lead: Lead): Promise<FillResult> {
    const result = await this.lead(lead)
    reportResult(this.#rt, this.where, result)
    return result
  }

  /**
   * The result of a fill whose factory returned this value. Throws if the value cannot be stored.
   */
  resultOf(
    value: unknown,
    asOf: Position,
  ): Extract<FillResult, { type: 'store' }> & { readonly entry: StoredValue } {
    const stored = encodeData(this.where, value, this.#serializer)
    const bornAt = this.#rt.clock.now()
    const entry = this.#entryOf(stored, asOf)
    return { type: 'store', entry, lifetimes: this.#lifetimes(entry), bornAt }
  }

  acceptsStale(held: HeldEntry): boolean {
    return mayServeOnError(held, this.#rt.clock.now())
  }

  get where(): string {
    return `${WHERE}(${show(this.#key)})`
  }

  parsePrevious(held: HeldEntry): { readonly value: P } | undefined {
    return parseHeld<P>(this.#rt, this.#key, held, this.#serializer)
  }

  #unchanged(previous: HeldEntry | undefined, asOf: Position): FillResult {
    if (previous === undefined) throw noPreviousValue(this.where)
    const entry = this.#entryOf(storedValue(previous), asOf)
    const bornAt = this.#rt.clock.now()
    return { type: 'not-modified', previous, entry, lifetimes: this.#lifetimes(entry), bornAt }
  }

  /** The value of a stored entry. Undefined if the serializer cannot parse it. */
  parseHeld(held: HeldEntry): { readonly value: T } | undefined {
    return parseHeld<T>(this.#rt, this.#key, held, this.#serializer)
  }

  /** The value for this caller, if its flight ended without a stored entry. */
  async valueFrom(resolution: Exclude<Resolution, { type: 'hit' | 'late' }>): Promise<T> {
    switch (resolution.type) {
      case 'led':
        return this.#ownValue(resolution.result)
      case 'failed': {
        const { previous, error, failure } = resolution
        return this.#staleOr(previous, error ?? originFailed(this.#key, failure.message))
      }
      case 'timed-out':
        return this.#runAfterWait()
      // `gone` occurs only for HTTP requests. For a call, `pass` means that three runs in
      // a row ended without a result.
      case 'gone':
      case 'pass':
        return this.runAlone()
    }
  }

  /** Runs the factory for this caller only. */
  async runAlone(): Promise<T> {
    return this.#ownValue(await this.#runUncoordinated())
  }

  /**
   * Runs the factory after `waitMs`, if a concurrency slot is free. Without this limit, all waiters
   * would run their factories at the same time.
   */
  async #runAfterWait(): Promise<T> {
    const { waitMs } = this.#plan
    const freeSlot = this.#rt.originSlots.take()
    if (freeSlot === undefined) {
      const previous = previousInL1(this.#rt, dataKey(this.#key))
      return this.#staleOr(previous?.held, noConcurrencySlot(this.#key, waitMs))
    }
    try {
      return this.#ownValue(await this.#runUncoordinated(), waitTimeout(this.#key, waitMs))
    } finally {
      freeSlot()
    }
  }

  /** One run without a lease. Its value is not stored. */
  async #runUncoordinated(): Promise<FillResult> {
    const { originTimeoutMs } = this.#plan
    const deadline = new AbortController()
    const timer = this.#rt.clock.setTimer(originTimeoutMs, () =>
      deadline.abort(originTimeout(this.#key, originTimeoutMs)),
    )
    try {
      const { signal } = deadline
      return await this.lead({
        fence: '',
        asOf: 0,
        previous: undefined,
        hasTimedOut: false,
        signal,
      })
    } finally {
      timer.cancel()
    }
  }

  #ownValue(result: FillResult, cause?: StampedeError): T {
    if (result.type === 'failure') return this.#staleOr(this.#lead?.previous, result.error, true)
    this.#countMiss()
    if ('entry' in result) return decodeOwn<T>(result.entry as StoredValue, this.#serializer)
    throw originFailed(this.#key, result.type, cause)
  }

  /**
   * RFC 5861 §4: serves the stale value instead of an error, unless the value was purged meanwhile.
   */
  #staleOr(previous: HeldEntry | undefined, error: unknown, ranOrigin = false): T {
    const held = previous && confirmedCopy(this.#rt, previous)
    const isServable = held !== undefined && mayServeOnError(held, this.#rt.clock.now())
    const parsed = isServable ? this.parseHeld(held) : undefined
    if (parsed === undefined) {
      this.#countMiss()
      throw error
    }
    this.#rt.counts.servedStale('if-error', held, ranOrigin)
    return parsed.value
  }

  #countMiss(): void {
    this.#rt.counts.miss(this.#rt.counts.ofData(dataKey(this.#key)))
  }

  /** The entry with its tags. A `tags` function gets the value in the form that callers get. */
  #entryOf(stored: StoredValue, asOf: Position): StoredValue {
    const { tags } = this.#plan
    const value = typeof tags === 'function' ? this.#parse(stored) : undefined
    const subjects = evaluateTags(`${WHERE}.tags`, tags, value).map(tagSubject)
    const { encoding, body, parsed } = stored
    return { type: 'value', encoding, body, provenance: { asOf, tookMs: 0, subjects }, parsed }
  }

  #parse(stored: StoredValue): T {
    return decodeData<T>(stored, this.#serializer)
  }

  #lifetimes(stored: StoredValue) {
    const { ttlMs, staleWhileRevalidateMs, staleIfErrorMs, keepMs, jitter } = this.#plan
    const freshMs = ttlOf(ttlMs, () => this.#parse(stored))
    const windows = { freshMs, staleWhileRevalidateMs, staleIfErrorMs, keepMs }
    return spread(windows, jitter, this.#rt.random)
  }
}

/**
 * The value of a stored entry. If the serializer cannot parse it, emits an event and returns
 * undefined.
 */
export function parseHeld<T>(
  rt: Runtime,
  key: string,
  held: HeldEntry,
  serializer: Serializer | undefined,
): { readonly value: T } | undefined {
  try {
    return { value: decodeData<T>(storedValue(held), serializer) }
  } catch (error) {
    rt.events.emit({ type: 'entry.unreadable', key: dataKey(key), error })
    return undefined
  }
}

/**
 * Rejects at the deadline. Without this, a factory that ignores its signal could block its caller
 * for ever.
 */
function beforeDeadline<T>(signal: AbortSignal, promise: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true })
    promise.then(resolve, reject)
  })
}

function isThenable<T>(value: T | Promise<T>): value is Promise<T> {
  return typeof (value as { then?: unknown } | null)?.then === 'function'
}
