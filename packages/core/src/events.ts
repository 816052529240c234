// Every event as one discriminated union, with the list of their names. Published on
// node:diagnostics_channel and to the listeners of one Stampede; tests assert transcripts of it.

import { channel } from 'node:diagnostics_channel'
import { messageOf, optionError } from './errors.ts'
import { nearest } from './options.ts'
import { publicFence } from './ports/grant.ts'
import { shownKey } from './ports/shown-key.ts'
import type { Failure } from './ports/store.ts'
import type { SubjectKind } from './ports/subject.ts'

/** What each event says besides its `type`, its `key` and its `internalKey`. */
export interface EventFields {
  'entry.hit': { readonly tier: 'l1' | 'l2'; readonly stale: boolean }
  'entry.purged': { readonly by: 'key' | SubjectKind; readonly soft: boolean }
  'entry.unreadable': { readonly error: unknown }
  'stale.served': { readonly why: 'soft-timeout' | 'origin-queue' }
  'lease.granted': { readonly fence: bigint }
  'lease.lost': { readonly fence: bigint }
  'wait.started': { readonly busyForMs: number }
  'wait.ended': { readonly by: 'wake-up' | 'gap' | 'lost' | 'lease-end' }
  'wait.timed-out': object
  /** `fence` is undefined for a run without a lease. */
  'fill.started': { readonly behind: boolean; readonly fence: bigint | undefined }
  'fill.queued': object
  'fill.committed': { readonly fence: bigint; readonly elapsedMs: number }
  'fill.fenced': { readonly fence: bigint; readonly elapsedMs: number }
  'fill.passed': { readonly reason: string }
  'fill.failed': { readonly failure: Failure; readonly error: unknown }
  'fill.abandoned': object
  'failure.shared': { readonly failure: Failure }
  'idempotency.answered': { readonly outcome: IdempotencyOutcome }
  'idempotency.finished': {
    readonly as: 'completed' | 'released' | 'uncertain'
    readonly reply: 'finished' | 'resurrected' | 'stale' | 'late'
  }
  'bus.gap': object
  'store.failed': { readonly operation: string; readonly error: unknown }
}

/** When each event occurs. A test holds the table in docs/guide/events.md equal to this list. */
export const EVENTS: Readonly<Record<keyof EventFields, string>> = {
  'entry.hit': 'a request or call gets an entry from memory (`l1`) or the store (`l2`)',
  'entry.purged':
    'this process learns of a purge; `key` is its target, and `by` the kind of target',
  'entry.unreadable':
    'the serializer of a caller cannot read the stored value, which counts as a miss',
  'stale.served':
    'a stale entry is served, because the fill is late or waits for a concurrency slot',
  'lease.granted': 'this process may fill the key',
  'lease.lost': 'a lease ended before its run; the commit of that run is refused',
  'wait.started': 'this process waits for a fill of another process, once per key',
  'wait.ended': 'that wait ends, and the process looks up again',
  'wait.timed-out': 'a caller has waited for `waitMs`',
  'fill.started':
    'the handler or factory starts; `behind`: in the background, and not for a caller',
  'fill.queued': 'a run without a lease waits for a concurrency slot',
  'fill.committed': 'the result is stored',
  'fill.fenced': 'the store refuses the result: the key was purged, or there is a newer lease',
  'fill.passed': 'the result cannot be shared, for the `reason` given',
  'fill.failed': 'the handler or factory fails, or takes longer than `originTimeoutMs`',
  'fill.abandoned': 'the client of the run left; the next waiter runs the handler',
  'failure.shared': 'a caller gets the failure of another run',
  'idempotency.answered': 'a request or job with an idempotency key gets its `outcome`',
  'idempotency.finished': 'an attempt ends; `late`: the store has not confirmed it yet',
  'bus.gap': 'purges may have been missed, so memory is emptied; `key` is empty',
  'store.failed': 'an operation of the store fails; `key` is empty if it is about the connection',
}

type EventOfType<T extends keyof EventFields> = {
  readonly type: T
  /** As the user wrote it: the key of `getOrSet`, what a `key` option returned, an idempotency key, or method and URL. */
  readonly key: string
  /** The name of the record in the store, with what tells variants apart. */
  readonly internalKey: string
} & EventFields[T]

export type StampedeEvent = { [T in keyof EventFields]: EventOfType<T> }[keyof EventFields]

/** One for each request or job; bounded, so that it can be a label of a metric. */
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

/** An event as the stages emit it: its key is the internal one, and its fence as the store has it. */
export type Emitted<E = StampedeEvent> = E extends { readonly fence: unknown }
  ? Omit<E, 'internalKey' | 'fence'> & { readonly fence: string }
  : Omit<E, 'internalKey'>

export type StampedeEventType = StampedeEvent['type']
export type EventOf<T extends StampedeEventType> = Extract<StampedeEvent, { type: T }>
export type Listener<T extends StampedeEventType> = (event: EventOf<T>) => void

/** Throws `ERR_STAMPEDE_OPTION`: a listener under a name that nothing has would never be called. */
export function checkListener(type: unknown, listener: unknown): void {
  const known = [...Object.keys(EVENTS), '*']
  if (!known.includes(type as string)) {
    const ending = known.find((name) => name.endsWith(`.${String(type)}`))
    const near = typeof type === 'string' ? (ending ?? nearest(type, known)) : undefined
    const fix = near === undefined ? `known events: ${known.join(', ')}` : `did you mean ${near}?`
    throw optionError('on', type, `there is no such event; ${fix}`)
  }
  if (typeof listener !== 'function') throw optionError('on: listener', listener, 'use a function')
}

/** The diagnostics channel every event of every Stampede in this process is published on. */
export const EVENT_CHANNEL = 'stampede:event'

export class Events {
  readonly #channel = channel(EVENT_CHANNEL)
  readonly #listeners = new Map<string, Set<(event: StampedeEvent) => void>>()
  readonly #counts = new Map<StampedeEventType, number>()
  /** Hits are counted apart: they are the hot path, and stats tell the tiers apart. */
  readonly hits: { l1: number; l2: number } = { l1: 0, l2: 0 }
  /** A crowd of thousands is one flight, and no event for each. */
  collapsed = 0

  hit(key: string, tier: 'l1' | 'l2', stale: boolean): void {
    this.hits[tier] += 1
    if (this.#isHeard('entry.hit')) this.emit({ type: 'entry.hit', key, tier, stale })
  }

  /** `name`: the key as the user wrote it, where the internal key is a hash. */
  emit(emitted: Emitted, name?: string): void {
    this.#counts.set(emitted.type, (this.#counts.get(emitted.type) ?? 0) + 1)
    if (!this.#isHeard(emitted.type)) return
    const event = published(emitted, name)
    this.#channel.publish(event)
    for (const type of [event.type, '*']) {
      for (const listener of this.#listeners.get(type) ?? []) callSafely(listener, event)
    }
  }

  /** No event is made for listeners of other types: a burst has a hit for each of its waiters. */
  #isHeard(type: StampedeEventType): boolean {
    if (this.#channel.hasSubscribers) return true
    const listeners = this.#listeners
    return listeners.size > 0 && (listeners.has(type) || listeners.has('*'))
  }

  /** Returns the function that takes the listener off again. */
  on(type: string, listener: (event: StampedeEvent) => void): () => void {
    const set = this.#listeners.get(type) ?? new Set()
    this.#listeners.set(type, set.add(listener))
    return () => {
      set.delete(listener)
      if (set.size === 0 && this.#listeners.get(type) === set) this.#listeners.delete(type)
    }
  }

  count(type: StampedeEventType): number {
    return this.#counts.get(type) ?? 0
  }
}

function published(emitted: Emitted, name = shownKey(emitted.key)): StampedeEvent {
  const event = { ...emitted, key: name, internalKey: emitted.key }
  return ('fence' in event ? { ...event, fence: publicFence(event.fence) } : event) as StampedeEvent
}

/** A listener that throws changes nothing for the request that it listened to. */
function callSafely(listener: (event: StampedeEvent) => void, event: StampedeEvent): void {
  try {
    listener(event)
  } catch (error) {
    process.emitWarning(messageOf(error), 'StampedeListenerWarning')
  }
}
