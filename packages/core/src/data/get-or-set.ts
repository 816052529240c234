// `getOrSet`: the factory runs once per key in the fleet, and every caller gets its value.

import { type HeldEntry, mayServeOnError, type StoredValue } from '../entry/entry.ts'
import { spread } from '../entry/lifetimes.ts'
import { readPromise } from '../entry/parsed-value.ts'
import {
  messageOf,
  noConcurrencySlot,
  noPreviousValue,
  optionError,
  originFailed,
  originTimeout,
  type StampedeError,
  show,
  waitTimeout,
} from '../errors.ts'
import { purgeKey } from '../flight/hints.ts'
import { dropUnreadable, readWithoutLease } from '../flight/lookup-or-lease.ts'
import type { Caller, FillResult, Lead, Resolution } from '../flight/resolution.ts'
import { resolve } from '../flight/resolve.ts'
import type { Runtime } from '../flight/runtime.ts'
import { previousInL1 } from '../flight/soft-timeout.ts'
import { traceHit } from '../flight/traced-lookup.ts'
import { confirmedCopy, freshCopy } from '../l1/validity.ts'
import { dataKey } from '../ports/key.ts'
import type { Position } from '../ports/store.ts'
import { tagSubject } from '../ports/subject.ts'
import { evaluateTags } from '../tags.ts'
import { lookupTracing } from '../tracing.ts'
import { type Factory, FillContext, NOT_MODIFIED, storedValue } from './factory-context.ts'
import { type Plan, ttlOf, WHERE } from './get-or-set-options.ts'
import { RecentKeys } from './recent-keys.ts'
import { decodeData, decodeOwn, encodeData, type Serializer } from './value.ts'

/** The stored value, also within its stale window. Undefined if there is none. Runs no factory. */
export async function get<T>(
  rt: Runtime,
  key: string,
  serializer?: Serializer,
): Promise<T | undefined> {
  checkKey(key)
  try {
    const held = await readWithoutLease(rt, dataKey(key))
    return held && parseHeld<T>(rt, key, held, serializer)?.value
  } catch (error) {
    // An unavailable store counts as a miss, as for getOrSet.
    rt.events.emit({ type: 'store.failed', key: dataKey(key), operation: 'lookup', error })
    return undefined
  }
}

/** Purges one value in the whole fleet. */
export async function purgeData(rt: Runtime, key: string): Promise<void> {
  checkKey(key)
  await purgeKey(rt, dataKey(key), false)
}

const recentKeys = new RecentKeys('')

/** Not async, so that all callers of a fresh value in memory share one promise. */
export function getOrSet<T, P = T>(
  rt: Runtime,
  key: string,
  factory: Factory<T, P>,
  plan: Plan,
  serializer?: Serializer,
  recent: RecentKeys = recentKeys,
): Promise<T> {
  try {
    checkCall(key, factory)
    const known = recent.nameOf(key)
    const internalKey = known ?? dataKey(recent.prefix + key)
    const held = plan.forceFresh ? undefined : freshCopy(rt, internalKey, plan, rt.clock.now())
    if (held !== undefined) {
      if (known === undefined) recent.remember(key, internalKey)
      rt.events.hit(internalKey, 'l1', false)
      if (lookupTracing.hasSubscribers) traceHit(internalKey)
      const { entry } = held
      if (serializer === undefined && entry.type === 'value' && entry.encoding === 'json') {
        return readPromise(entry) as Promise<T>
      }
    }
    const call = new Call(rt, recent.prefix + key, factory, plan, serializer)
    if (held === undefined) return resolveCall(rt, internalKey, call, plan)
    const parsed = call.parseHeld(held)
    if (parsed !== undefined) return Promise.resolve(parsed.value)
    return dropUnreadable(rt, internalKey, held).then(() =>
      resolveCall(rt, internalKey, call, plan),
    )
  } catch (error) {
    return Promise.reject(error)
  }
}

async function resolveCall<T, P>(
  rt: Runtime,
  internalKey: string,
  call: Call<T, P>,
  plan: Plan,
): Promise<T> {
  // A purge for the whole fleet: without it, this call could get the value of an earlier fill.
  if (plan.forceFresh) await purgeKey(rt, internalKey, false)
  for (let attempt = 0; attempt < MOST_ATTEMPTS; attempt++) {
    const promised = resolve(rt, internalKey, plan, call)
    const resolution = promised instanceof Promise ? await promised : promised
    if (resolution.type !== 'hit' && resolution.type !== 'late') return call.valueFrom(resolution)
    const held = resolution.type === 'hit' ? resolution.held : resolution.previous
    const parsed = call.parseHeld(held)
    if (parsed !== undefined) return parsed.value
    await dropUnreadable(rt, internalKey, held)
  }
  return call.runAlone()
}

/**
 * After so many values that the serializer cannot parse, the caller runs the factory for itself.
 */
const MOST_ATTEMPTS = 3

function checkCall(key: unknown, factory: unknown): void {
  checkKey(key)
  if (typeof factory !== 'function') {
    throw optionError(`${WHERE}: factory`, factory, 'use a function that returns the value')
  }
}

export function checkKey(key: unknown): void {
  if (typeof key !== 'string' || key === '') {
    throw optionError(`${WHERE}: key`, key, 'use a non-empty string')
  }
}

/**
 * One call of getOrSet. If it leads and the factory fails, its caller gets the factory's own error.
 */
export class Call<T, P> implements Caller {
  scope: Caller['scope']
  readonly #rt: Runtime
  readonly #key: string
  readonly #factory: Factory<T, P>
  readonly #plan: Plan
  readonly #serializer: Serializer | undefined
  /** The parameters of the last run of the factory for this call. */
  #lead: Lead | undefined

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
    try {
      const now = this.#rt.clock.now()
      const context = new FillContext(lead, held, now, this)
      const returned = this.#factory(context)
      const isPromise = isThenable(returned)
      const value: unknown = isPromise ? await beforeDeadline(lead.signal, returned) : returned
      return value === NOT_MODIFIED ? this.#unchanged(held, asOf) : this.resultOf(value, asOf)
    } catch (error) {
      return { type: 'failure', failure: { status: 500, message: messageOf(error) }, error }
    }
  }

  refresh(lead: Lead): Promise<FillResult> {
    return this.lead(lead)
  }

  /** The result that stores this value. Throws if the value cannot be stored. */
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

  /** The value for this caller, from a resolution without an entry. */
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
      // `live` and `gone` occur only for HTTP requests. `pass`: three runs of
      // the flight were abandoned, so it gave up.
      case 'live':
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
   * Runs the factory after `waitMs`, with a concurrency slot. Without the slot, all waiters would
   * run it at the same time.
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
    if ('entry' in result) return decodeOwn<T>(result.entry as StoredValue, this.#serializer)
    if (result.type === 'failure') return this.#staleOr(this.#lead?.previous, result.error)
    throw originFailed(this.#key, result.type, cause)
  }

  /**
   * RFC 5861 §4: serves the stale value instead of an error, unless the value was purged meanwhile.
   */
  #staleOr(previous: HeldEntry | undefined, error: unknown): T {
    const held = previous && confirmedCopy(this.#rt, previous)
    const isServable = held !== undefined && mayServeOnError(held, this.#rt.clock.now())
    const parsed = isServable ? this.parseHeld(held) : undefined
    if (parsed !== undefined) return parsed.value
    throw error
  }

  /** The entry with its tags. A `tags` function gets the value as callers get it, after JSON. */
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

/** The value of a stored entry. If the serializer cannot parse it: an event, and undefined. */
function parseHeld<T>(
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
