// All events as one discriminated union with a list of their types, and their emitter, which locks
// use as well. Events go to the listeners of one object and to a node:diagnostics_channel.

import { channel } from 'node:diagnostics_channel'
import { messageOf, optionError } from './errors.ts'
import { nearest } from './options.ts'
import { publicFence } from './ports/grant.ts'
import { shownKey } from './ports/key.ts'
import type { Failure } from './ports/store.ts'
import type { SubjectKind } from './ports/subject.ts'

/**
 * Why a key is filled. `absent`: the store has no entry. `expired`: the entry may no longer be
 * served. `purged`: a tag, path or route of the entry was purged, or everything. `stale`: the entry
 * is served and refreshed. `hit-for-miss`: the last response could not be shared, or the last value
 * was skipped.
 */
export type FillReason = 'absent' | 'expired' | 'purged' | 'stale' | 'hit-for-miss'

/**
 * Why the entry from before a fill is served: `softTimeoutMs` has passed, or no concurrency slot is
 * free.
 */
export type LateReason = (typeof LATE_REASONS)[number]
export const LATE_REASONS = ['soft-timeout', 'origin-queue'] as const

/**
 * Each event with its occasion, and its fields in addition to `type`, `key` and `internalKey`. A
 * test checks that the table in docs/guide/events.md is equal.
 */
export interface EventFields {
  /** A request or call gets an entry from memory (`l1`) or the store (`l2`). */
  'entry.hit': { readonly tier: 'l1' | 'l2'; readonly stale: boolean }
  /** This process receives a purge; `key` is its target, and `by` the kind of target. */
  'entry.purged': { readonly by: 'key' | SubjectKind; readonly soft: boolean }
  /** The serializer of a caller cannot decode the stored value, which counts as a miss. */
  'entry.unreadable': { readonly error: unknown }
  /** A stale entry is served because the fill is late or waits for a concurrency slot. */
  'stale.served': { readonly why: LateReason }
  /** This process gets the lease of the key, so that it may fill the key for this `reason`. */
  'lease.granted': { readonly fence: bigint; readonly reason: FillReason }
  /** A lease ends before its holder has finished; the store does not accept a later commit. */
  'lease.lost': { readonly fence: bigint }
  /** This process begins to wait for a fill of another process, once per key. */
  'wait.started': { readonly busyForMs: number }
  /** This process stops waiting for another process, and looks up again. */
  'wait.ended': {
    readonly by: 'wake-up' | 'gap' | 'lost' | 'lease-end'
    readonly elapsedMs: number
  }
  /** A caller has waited for `waitMs`. */
  'wait.timed-out': object
  /** The handler or factory starts; `behind: true` means in the background. */
  'fill.started': {
    readonly behind: boolean
    /** Undefined for a run without a lease. */
    readonly fence: bigint | undefined
  }
  /** A run without a lease waits for a concurrency slot. */
  'fill.queued': object
  /** The result is stored. */
  'fill.committed': { readonly fence: bigint; readonly elapsedMs: number }
  /** The store does not accept the result, because of a purge or a newer lease. */
  'fill.fenced': { readonly fence: bigint; readonly elapsedMs: number }
  /** The result cannot be shared; `reason` has the cause. */
  'fill.passed': { readonly reason: string; readonly elapsedMs: number }
  /** A factory returns `skip(value)`, so that the value is not stored. */
  'fill.skipped': { readonly elapsedMs: number }
  /** The handler or factory fails, or takes longer than `originTimeoutMs`. */
  'fill.failed': {
    readonly failure: Failure
    readonly error: unknown
    readonly elapsedMs: number
  }
  /**
   * A run has no usable result: its client left, or its body was cut short; a waiter runs it again.
   */
  'fill.abandoned': { readonly elapsedMs: number }
  /** A lookup in the store finds the failure of another run, and no lease. */
  'failure.shared': { readonly failure: Failure }
  /** A request or job with an idempotency key gets its `outcome`. */
  'idempotency.answered': { readonly outcome: IdempotencyOutcome }
  /** An attempt ends; `late` means that the store has not confirmed it yet. */
  'idempotency.finished': {
    readonly as: 'completed' | 'released' | 'uncertain'
    readonly reply: 'finished' | 'resurrected' | 'stale' | 'late' | 'failed' | 'ended' | 'unknown'
  }
  /** This process settles a key for an operator. */
  'idempotency.settled': { readonly as: 'completed' | 'released' }
  /**
   * A `stampedeCache` has seen its first 100 GET requests; `reason` is the most frequent one for no
   * hit.
   */
  'cache.sampled': {
    readonly requests: number
    readonly stored: number
    readonly hits: number
    readonly reason: string | undefined
    readonly fix: string | undefined
    readonly page: string | undefined
  }
  /** Purges may have been missed, so all copies in memory are dropped; `key` is empty. */
  'bus.gap': object
  /** An operation of the store fails; `key` is empty if the connection failed. */
  'store.failed': { readonly operation: string; readonly error: unknown }
}

/** All event types. */
export const EVENT_TYPES: ReadonlyArray<keyof EventFields> = [
  'entry.hit',
  'entry.purged',
  'entry.unreadable',
  'stale.served',
  'lease.granted',
  'lease.lost',
  'wait.started',
  'wait.ended',
  'wait.timed-out',
  'fill.started',
  'fill.queued',
  'fill.committed',
  'fill.fenced',
  'fill.passed',
  'fill.skipped',
  'fill.failed',
  'fill.abandoned',
  'failure.shared',
  'idempotency.answered',
  'idempotency.finished',
  'idempotency.settled',
  'cache.sampled',
  'bus.gap',
  'store.failed',
]

type EventOfType<T extends keyof EventFields> = {
  readonly type: T
  /**
   * The key as the user wrote it: that of `getOrSet`, that of an option `key`, an idempotency key,
   * or method and URL.
   */
  readonly key: string
  /** Name of the record in the store. The name of a variant has a second part, after a NUL. */
  readonly internalKey: string
} & EventFields[T]

/** An event with its type, its keys and its fields. All durations are in ms. */
export type StampedeEvent = { [T in keyof EventFields]: EventOfType<T> }[keyof EventFields]

/**
 * The outcome for a request or job with an idempotency key. The set of values is fixed, so it can
 * be a label of a metric.
 */
export type IdempotencyOutcome =
  | 'started'
  | 'recovered'
  | 'replayed'
  | 'replayed-l1'
  | 'replayed-after-wait'
  | 'in-progress'
  | 'key-reused'
  | 'key-missing'
  | 'key-invalid'
  | 'uncertain'
  | 'not-retained'
  | 'too-large'
  | 'incomplete'
  | 'unavailable'
  | 'unprotected'

/** The type of an event, a key of `EventFields`. */
export type StampedeEventType = StampedeEvent['type']
/** The event of one type. */
export type EventOf<T extends StampedeEventType> = Extract<StampedeEvent, { type: T }>
export type Listener<T extends StampedeEventType> = (event: EventOf<T>) => void

/** Name of the `node:diagnostics_channel` with all events of this process. */
export const EVENT_CHANNEL = 'stampede:event'

/** The part that all events have in common. */
export interface AnyEvent {
  readonly type: string
  readonly key: string
  readonly internalKey: string
}

/** An event before its publication: `key` is the internal key, and `fence` the store's string. */
export type Emitted<E extends AnyEvent = StampedeEvent> = E extends { readonly fence: unknown }
  ? Omit<E, 'internalKey' | 'fence'> & { readonly fence: string }
  : Omit<E, 'internalKey'>

/** The field by which the events of a type are counted, too. The set of its values is small. */
type Details = Readonly<Record<string, string>>

/** Sends events to listeners and to the diagnostics channel, and counts them. */
export class EventHub<E extends AnyEvent> {
  readonly #channel = channel(EVENT_CHANNEL)
  readonly #listeners = new Map<string, Set<(event: E) => void>>()
  readonly #counts = new Map<string, number>()
  readonly #details: Details
  readonly #byDetail = new Map<string, Map<string, number>>()

  constructor(details: Details = {}) {
    this.#details = details
  }

  /** `name`: the key as the user wrote it, if the internal key is a hash. */
  emit(emitted: Emitted<E>, name?: string): void {
    const bare = emitted as unknown as AnyEvent
    const { type } = bare
    this.#counts.set(type, (this.#counts.get(type) ?? 0) + 1)
    const field = this.#details[type]
    if (field !== undefined) {
      const detail = String(Reflect.get(bare, field))
      const counts = this.#byDetail.get(type) ?? new Map<string, number>()
      this.#byDetail.set(type, counts.set(detail, (counts.get(detail) ?? 0) + 1))
    }
    if (!this.isHeard(type)) return
    const event = published<E>(bare, name)
    this.#channel.publish(event)
    for (const heard of [type, '*']) {
      for (const listener of this.#listeners.get(heard) ?? []) callSafely(listener, event)
    }
  }

  /** As `on`, for a type and a listener of a user, which are checked. `types`: the known ones. */
  onChecked(types: readonly string[], type: string, listener: (event: never) => void): () => void {
    checkListener(types, type, listener)
    return this.on(type, listener as (event: E) => void)
  }

  /** Returns the function that removes the listener. */
  on(type: string, listener: (event: E) => void): () => void {
    const set = this.#listeners.get(type) ?? new Set()
    this.#listeners.set(type, set.add(listener))
    return () => {
      set.delete(listener)
      if (set.size === 0 && this.#listeners.get(type) === set) this.#listeners.delete(type)
    }
  }

  count(type: E['type']): number {
    return this.#counts.get(type) ?? 0
  }

  /** Numbers of the events of a type by their detail: a reason or an outcome. */
  countByDetail(type: E['type']): Record<string, number> {
    return Object.fromEntries(this.#byDetail.get(type) ?? [])
  }

  /** Whether a listener gets the event. Otherwise no event object is created, for speed. */
  protected isHeard(type: string): boolean {
    if (this.#channel.hasSubscribers) return true
    const listeners = this.#listeners
    return listeners.size > 0 && (listeners.has(type) || listeners.has('*'))
  }
}

function published<E extends AnyEvent>(emitted: AnyEvent, name = shownKey(emitted.key)): E {
  const event = { ...emitted, key: name, internalKey: emitted.key }
  const { fence } = event as { readonly fence?: string }
  return (fence === undefined ? event : { ...event, fence: publicFence(fence) }) as AnyEvent as E
}

/**
 * A listener of the app that throws must not change the request that it is called for. If it is
 * async, its rejection must not crash the process.
 */
export function callSafely<E>(listener: (event: E) => unknown, event: E): void {
  try {
    const returned = listener(event)
    if (returned instanceof Promise) returned.catch(warn)
  } catch (error) {
    warn(error)
  }
}

function warn(error: unknown): void {
  process.emitWarning(messageOf(error), 'StampedeListenerWarning')
}

/** Throws `ERR_STAMPEDE_OPTION` for an unknown event type, whose listener would never be called. */
function checkListener(types: readonly string[], type: unknown, listener: unknown): void {
  const known = [...types, '*']
  if (!known.includes(type as string)) {
    const ending = known.find((name) => name.endsWith(`.${String(type)}`))
    const near = typeof type === 'string' ? (ending ?? nearest(type, known)) : undefined
    const fix = near === undefined ? `known events: ${known.join(', ')}` : `did you mean ${near}?`
    throw optionError('on', type, `there is no such event; ${fix}`)
  }
  if (typeof listener !== 'function') throw optionError('on: listener', listener, 'use a function')
}

const DETAILS: Details & Partial<Record<StampedeEventType, string>> = {
  'lease.granted': 'reason',
  'entry.purged': 'soft',
  'idempotency.answered': 'outcome',
}

/** The events of one Stampede, which counts them by their details, too. */
export class Events extends EventHub<StampedeEvent> {
  #hitTaps: Set<(key: string) => void> | undefined
  /** Hits are counted separately, because they are the hot path and `stats()` has both tiers. */
  readonly hits: { l1: number; l2: number } = { l1: 0, l2: 0 }
  /** Number of requests that joined a flight. They have no event: a flight may have thousands. */
  collapsed = 0

  constructor() {
    super(DETAILS)
  }

  hit(key: string, tier: 'l1' | 'l2', stale: boolean): void {
    this.hits[tier] += 1
    if (this.#hitTaps !== undefined) for (const tap of this.#hitTaps) tap(key)
    if (this.isHeard('entry.hit')) this.emit({ type: 'entry.hit', key, tier, stale })
  }

  /** Calls `tap` with the key of each hit. Cheaper than a listener, which needs an event object. */
  onHit(tap: (key: string) => void): () => void {
    this.#hitTaps = new Set(this.#hitTaps).add(tap)
    return () => {
      this.#hitTaps?.delete(tap)
      if (this.#hitTaps?.size === 0) this.#hitTaps = undefined
    }
  }

  /** Listens to all events except hits, of which there are too many. */
  onAllButHits(listener: (event: StampedeEvent) => void): Array<() => void> {
    const types = EVENT_TYPES.filter((type) => type !== 'entry.hit')
    return types.map((type) => this.on(type, listener))
  }
}
