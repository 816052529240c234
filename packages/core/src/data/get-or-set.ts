// The same journey for data: a key, a factory, and the value for everybody.

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

/** The stored value, fresh or within its stale window; undefined if there is none. Runs nothing and takes no lease. */
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
    // As for getOrSet: a store that is away is a miss.
    rt.events.emit({ type: 'store.failed', key: dataKey(key), operation: 'lookup', error })
    return undefined
  }
}

/** Purges one value, here and in the store. */
export async function purgeData(rt: Runtime, key: string): Promise<void> {
  checkKey(key)
  await purgeKey(rt, dataKey(key), false)
}

const recentKeys = new RecentKeys('')

/** Not async: callers of a fresh value in memory share one promise. */
export function getOrSet<T, P = T>(
  rt: Runtime,
  given: string,
  factory: Factory<T, P>,
  plan: Plan,
  serializer?: Serializer,
  recent: RecentKeys = recentKeys,
): Promise<T> {
  try {
    checkCall(given, factory)
    const known = recent.nameOf(given)
    const full = known ?? dataKey(recent.prefix + given)
    const held = plan.forceFresh ? undefined : freshCopy(rt, full, plan, rt.clock.now())
    if (held !== undefined) {
      if (known === undefined) recent.remember(given, full)
      rt.events.hit(full, 'l1', false)
      const { entry } = held
      if (serializer === undefined && entry.type === 'value' && entry.encoding === 'json') {
        return readPromise(entry) as Promise<T>
      }
    }
    const call = new Call(rt, recent.prefix + given, factory, plan, serializer)
    if (held === undefined) return resolved(rt, full, call, plan)
    const read = call.readHeld(held)
    if (read !== undefined) return Promise.resolve(read.value)
    return dropUnreadable(rt, full, held).then(() => resolved(rt, full, call, plan))
  } catch (error) {
    return Promise.reject(error)
  }
}

async function resolved<T, P>(rt: Runtime, full: string, call: Call<T, P>, plan: Plan): Promise<T> {
  // Purged in the store as well, so that no fill which began earlier can answer this call.
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

/** Another caller may store what this one cannot read. Then this one runs its own factory. */
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

/** One call: as a leader it remembers the factory's own error, so that its caller gets exactly that. */
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
      const made = this.#factory(context)
      const value: unknown = isThenable(made) ? await beforeDeadline(lead.signal, made) : made
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
    const entry = this.#made(stored, asOf)
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
    const entry = this.#made(storedValue(previous), asOf)
    const bornAt = this.#rt.clock.now()
    return { type: 'not-modified', previous, entry, lifetimes: this.#lifetimes(entry), bornAt }
  }

  /** The value of a stored entry; undefined if the serializer cannot read it. */
  readHeld(held: HeldEntry): { readonly value: T } | undefined {
    return readHeld<T>(this.#rt, this.#key, held, this.#serializer)
  }

  /** For resolutions that serve no entry. */
  async answer(resolution: Exclude<Resolution, { type: 'hit' | 'late' }>): Promise<T> {
    switch (resolution.type) {
      case 'led':
        return this.#own(resolution.result)
      case 'failed': {
        const { previous, error, failure } = resolution
        return this.#coverOr(previous, error ?? originFailed(this.#key, failure.message))
      }
      case 'timed-out':
        return this.#ownAfterWait()
      // For requests only: values have no head to answer with, and calls no client.
      case 'live':
      case 'gone':
      case 'pass':
        return this.runAlone()
    }
  }

  /** Runs the factory for this caller only. */
  async runAlone(): Promise<T> {
    return this.#own(await this.#alone())
  }

  /** If there is a place for it: everybody who waited may come here at once. */
  async #ownAfterWait(): Promise<T> {
    const { waitMs } = this.#plan
    const leave = this.#rt.places.enter()
    if (leave === undefined) {
      const previous = previousInL1(this.#rt, dataKey(this.#key))
      return this.#coverOr(previous?.held, noPlace(this.#key, waitMs))
    }
    try {
      return this.#own(await this.#alone(), waitTimeout(this.#key, waitMs))
    } finally {
      leave()
    }
  }

  /** Without a lease, and for this caller only. */
  async #alone(): Promise<FillResult> {
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

  #own(result: FillResult, cause?: StampedeError): T {
    if ('entry' in result) return decodeOwn<T>(result.entry as StoredValue, this.#serializer)
    if (result.type === 'failure') return this.#coverOr(this.#lead?.previous, result.error)
    throw originFailed(this.#key, result.type, cause)
  }

  /** RFC 5861 §4: an older value stands in for an error, unless it was purged while the factory was at work. */
  #coverOr(previous: HeldEntry | undefined, error: unknown): T {
    const held = previous && trusted(this.#rt, previous)
    const covers = held !== undefined && mayCover(held, this.#rt.clock.now())
    const read = covers ? this.readHeld(held) : undefined
    if (read !== undefined) return read.value
    throw error
  }

  /** Its tags are asked for with what everybody gets, not with what the factory returned. */
  #made(stored: StoredValue, asOf: Position): StoredValue {
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

/** The value of a stored entry. Undefined, after an event, if the serializer cannot read it. */
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

/** A factory that does not heed its signal is not waited for, by nobody: it would hold up its caller for ever. */
function beforeDeadline<T>(signal: AbortSignal, made: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true })
    made.then(resolve, reject)
  })
}

function isThenable<T>(made: T | Promise<T>): made is Promise<T> {
  return typeof (made as { then?: unknown } | null)?.then === 'function'
}
