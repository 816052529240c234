// getOrSet: returns the value of a key, or runs its factory. As the handler of a request, a factory
// runs once in the fleet.

import { type HeldEntry, mayCover, type StoredValue } from '../entry/entry.ts'
import { spread } from '../entry/lifetimes.ts'
import { readPromise } from '../entry/parsed-value.ts'
import {
  messageOf,
  noPlace,
  nothingBefore,
  optionError,
  originFailed,
  originTimeout,
  type StampedeError,
  show,
  waitTimeout,
} from '../errors.ts'
import { purgeKey } from '../flight/hints.ts'
import { dropUnreadable, peek } from '../flight/lookup-or-lease.ts'
import type { Caller, FillResult, Lead, Resolution } from '../flight/resolution.ts'
import { resolve } from '../flight/resolve.ts'
import type { Runtime } from '../flight/runtime.ts'
import { previousInL1 } from '../flight/soft-timeout.ts'
import { freshCopy, trusted } from '../l1/validity.ts'
import { dataKey } from '../ports/key.ts'
import type { Position } from '../ports/store.ts'
import { tagSubject } from '../ports/subject.ts'
import { tagsOf } from '../tags.ts'
import { type Factory, FillContext, NOT_MODIFIED, storedValue } from './factory-context.ts'
import { type Plan, ttlOf, WHERE } from './get-or-set-options.ts'
import { RecentKeys } from './recent-keys.ts'
import { decodeData, decodeOwn, encodeData, type Serializer } from './value.ts'

/**
 * Returns the stored value, fresh or within its stale window. Undefined if there is none. Runs no
 * factory and takes no lease.
 */
export async function get<T>(
  rt: Runtime,
  key: string,
  serializer?: Serializer,
): Promise<T | undefined> {
  checkKey(key)
  try {
    const held = await peek(rt, dataKey(key))
    return held && readHeld<T>(rt, key, held, serializer)?.value
  } catch (error) {
    // An unavailable store counts as a miss, as in getOrSet.
    rt.events.emit({ type: 'store.failed', key: dataKey(key), operation: 'lookup', error })
    return undefined
  }
}

/** Purges one value, in this process and in the store. */
export async function purgeData(rt: Runtime, key: string): Promise<void> {
  checkKey(key)
  await purgeKey(rt, dataKey(key), false)
}

const recentKeys = new RecentKeys('')

/** Not async, because all callers of a fresh value in memory share one promise. */
export function getOrSet<T, P = T>(
  rt: Runtime,
  shortKey: string,
  factory: Factory<T, P>,
  plan: Plan,
  serializer?: Serializer,
  recent: RecentKeys = recentKeys,
): Promise<T> {
  try {
    checkCall(shortKey, factory)
    const known = recent.nameOf(shortKey)
    const full = known ?? dataKey(recent.prefix + shortKey)
    const held = plan.forceFresh ? undefined : freshCopy(rt, full, plan, rt.clock.now())
    if (held !== undefined) {
      if (known === undefined) recent.remember(shortKey, full)
      rt.events.hit(full, 'l1', false)
      const { entry } = held
      if (serializer === undefined && entry.type === 'value' && entry.encoding === 'json') {
        return readPromise(entry) as Promise<T>
      }
    }
    const call = new Call(rt, recent.prefix + shortKey, factory, plan, serializer)
    if (held === undefined) return slowPath(rt, full, call, plan)
    const read = call.readHeld(held)
    if (read !== undefined) return Promise.resolve(read.value)
    return dropUnreadable(rt, full, held).then(() => slowPath(rt, full, call, plan))
  } catch (error) {
    return Promise.reject(error)
  }
}

async function slowPath<T, P>(rt: Runtime, full: string, call: Call<T, P>, plan: Plan): Promise<T> {
  // The purge in the store makes sure that this call gets no result of an earlier fill.
  if (plan.forceFresh) await purgeKey(rt, full, false)
  for (let attempt = 0; attempt < MOST_ATTEMPTS; attempt++) {
    const promised = resolve(rt, full, plan, call)
    const resolution = promised instanceof Promise ? await promised : promised
    if (resolution.type !== 'hit' && resolution.type !== 'late') return call.answer(resolution)
    const held = resolution.type === 'hit' ? resolution.held : resolution.previous
    const read = call.readHeld(held)
    if (read !== undefined) return read.value
    await dropUnreadable(rt, full, held)
  }
  return call.runAlone()
}

/**
 * Another process may store values that the serializer of this one cannot parse. After this many,
 * the call runs its factory without storing the result.
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

/** One call of getOrSet. If the call leads, its caller gets the very error of the factory. */
export class Call<T, P> implements Caller {
  readonly #rt: Runtime
  readonly #key: string
  readonly #factory: Factory<T, P>
  readonly #plan: Plan
  readonly #serializer: Serializer | undefined
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
      const result = this.#factory(context)
      const value: unknown = isThenable(result) ? await beforeDeadline(lead.signal, result) : result
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

  takesStale(held: HeldEntry): boolean {
    return mayCover(held, this.#rt.clock.now())
  }

  get where(): string {
    return `${WHERE}(${show(this.#key)})`
  }

  readPrevious(held: HeldEntry): { readonly value: P } | undefined {
    return readHeld<P>(this.#rt, this.#key, held, this.#serializer)
  }

  #unchanged(previous: HeldEntry | undefined, asOf: Position): FillResult {
    if (previous === undefined) throw nothingBefore(this.where)
    const entry = this.#entryOf(storedValue(previous), asOf)
    const bornAt = this.#rt.clock.now()
    return { type: 'not-modified', previous, entry, lifetimes: this.#lifetimes(entry), bornAt }
  }

  /** The value of an entry. Undefined if the serializer cannot parse it. */
  readHeld(held: HeldEntry): { readonly value: T } | undefined {
    return readHeld<T>(this.#rt, this.#key, held, this.#serializer)
  }

  /** The result for a resolution that has no entry. */
  async answer(resolution: Exclude<Resolution, { type: 'hit' | 'late' }>): Promise<T> {
    switch (resolution.type) {
      case 'led':
        return this.#valueOf(resolution.result)
      case 'failed': {
        const { previous, error, failure } = resolution
        return this.#staleOr(previous, error ?? originFailed(this.#key, failure.message))
      }
      case 'timed-out':
        return this.#runAfterWait()
      // Only requests get these: a value has no head, and a call has no client.
      case 'live':
      case 'gone':
      case 'pass':
        return this.runAlone()
    }
  }

  /** Runs the factory, and returns the result to this caller only. */
  async runAlone(): Promise<T> {
    return this.#valueOf(await this.#runFactory())
  }

  /**
   * Runs the factory after `waitMs`, if a concurrency slot is free. All waiting calls may come here
   * at the same time.
   */
  async #runAfterWait(): Promise<T> {
    const { waitMs } = this.#plan
    const leave = this.#rt.places.enter()
    if (leave === undefined) {
      const previous = previousInL1(this.#rt, dataKey(this.#key))
      return this.#staleOr(previous?.held, noPlace(this.#key, waitMs))
    }
    try {
      return this.#valueOf(await this.#runFactory(), waitTimeout(this.#key, waitMs))
    } finally {
      leave()
    }
  }

  /** Runs the factory without a lease. */
  async #runFactory(): Promise<FillResult> {
    const { originTimeoutMs } = this.#plan
    const deadline = new AbortController()
    const timer = this.#rt.clock.setTimer(originTimeoutMs, () =>
      deadline.abort(originTimeout(this.#key, originTimeoutMs)),
    )
    try {
      const { signal } = deadline
      return await this.lead({ fence: '', asOf: 0, previous: undefined, isLate: false, signal })
    } finally {
      timer.cancel()
    }
  }

  #valueOf(result: FillResult, cause?: StampedeError): T {
    if ('entry' in result) return decodeOwn<T>(result.entry as StoredValue, this.#serializer)
    if (result.type === 'failure') return this.#staleOr(this.#lead?.previous, result.error)
    throw originFailed(this.#key, result.type, cause)
  }

  /**
   * Returns the older value in place of an error, if `staleIfErrorMs` allows it and no purge of it
   * came during the run (RFC 5861 §4).
   */
  #staleOr(previous: HeldEntry | undefined, error: unknown): T {
    const held = previous && trusted(this.#rt, previous)
    const mayServe = held !== undefined && mayCover(held, this.#rt.clock.now())
    const read = mayServe ? this.readHeld(held) : undefined
    if (read !== undefined) return read.value
    throw error
  }

  /** The function `tags` gets the value as all callers get it, not as the factory returned it. */
  #entryOf(stored: StoredValue, asOf: Position): StoredValue {
    const { tags } = this.#plan
    const value = typeof tags === 'function' ? this.#read(stored) : undefined
    const subjects = tagsOf(`${WHERE}.tags`, tags, value).map(tagSubject)
    const { encoding, body, parsed } = stored
    return { type: 'value', encoding, body, made: { asOf, tookMs: 0, subjects }, parsed }
  }

  #read(stored: StoredValue): T {
    return decodeData<T>(stored, this.#serializer)
  }

  #lifetimes(stored: StoredValue) {
    const { ttlMs, staleWhileRevalidateMs, staleIfErrorMs, keepMs, jitter } = this.#plan
    const freshMs = ttlOf(ttlMs, () => this.#read(stored))
    const windows = { freshMs, staleWhileRevalidateMs, staleIfErrorMs, keepMs }
    return spread(windows, jitter, this.#rt.random)
  }
}

/** The value of an entry. Undefined, after an event, if the serializer cannot parse it. */
function readHeld<T>(
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

/** Rejects when the signal aborts. A factory may ignore its signal, and must not block the call. */
function beforeDeadline<T>(signal: AbortSignal, result: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true })
    result.then(resolve, reject)
  })
}

function isThenable<T>(result: T | Promise<T>): result is Promise<T> {
  return typeof (result as { then?: unknown } | null)?.then === 'function'
}
