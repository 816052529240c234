// Everything that happens, as one discriminated union: past tense, always with the key. Published on
// node:diagnostics_channel and to the listeners of one Stampede; tests assert transcripts of it.

import { channel } from 'node:diagnostics_channel'
import { messageOf, optionError } from './errors.ts'
import { nearest } from './options.ts'
import { publicFence } from './ports/grant.ts'
import type { Failure } from './ports/store.ts'

export type StampedeEvent =
  | {
      readonly type: 'hit'
      readonly key: string
      readonly tier: 'l1' | 'l2'
      readonly stale: boolean
    }
  | { readonly type: 'lease.granted'; readonly key: string; readonly fence: bigint }
  | { readonly type: 'lease.lost'; readonly key: string; readonly fence: bigint }
  | { readonly type: 'wait.started'; readonly key: string; readonly busyForMs: number }
  | {
      readonly type: 'wait.ended'
      readonly key: string
      readonly by: 'wake-up' | 'gap' | 'lost' | 'lease-end'
    }
  | { readonly type: 'wait.timed-out'; readonly key: string }
  | {
      readonly type: 'fill.started'
      readonly key: string
      readonly behind: boolean
      /** Undefined for a run without a lease. */
      readonly fence: bigint | undefined
    }
  | {
      readonly type: 'fill.committed'
      readonly key: string
      readonly fence: bigint
      readonly elapsedMs: number
    }
  | {
      readonly type: 'fill.fenced'
      readonly key: string
      readonly fence: bigint
      readonly elapsedMs: number
    }
  | { readonly type: 'fill.passed'; readonly key: string; readonly reason: string }
  | {
      readonly type: 'fill.failed'
      readonly key: string
      readonly failure: Failure
      readonly error: unknown
    }
  | { readonly type: 'fill.abandoned'; readonly key: string }
  /** No place was free for a run that no lease stands for. */
  | { readonly type: 'fill.queued'; readonly key: string }
  /** Somebody was answered with what is stale, in place of what is late. */
  | {
      readonly type: 'stood-in'
      readonly key: string
      readonly why: 'soft-timeout' | 'origin-queue'
    }
  | { readonly type: 'failure.shared'; readonly key: string; readonly failure: Failure }
  /** `key`: a key, or the subject of a purge by tag, path or route, or of everything (`*`). */
  | { readonly type: 'purged'; readonly key: string; readonly soft: boolean }
  /** A request or job with an idempotency key was answered, or its handler was started. `key` is the record's. */
  | {
      readonly type: 'idempotency.answered'
      readonly key: string
      readonly outcome: IdempotencyOutcome
    }
  /** An attempt ended; `late`: the store could not be told yet. */
  | {
      readonly type: 'idempotency.finished'
      readonly key: string
      readonly as: 'completed' | 'released' | 'uncertain'
      readonly reply: 'finished' | 'resurrected' | 'stale' | 'late'
    }
  | { readonly type: 'gap'; readonly key: '' }
  | {
      readonly type: 'store.failed'
      readonly key: string
      readonly operation: string
      readonly error: unknown
    }

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

/** An event as the stages emit it: with the fence as the store has it. */
export type Emitted<E = StampedeEvent> = E extends { readonly fence: unknown }
  ? Omit<E, 'fence'> & { readonly fence: string }
  : E

export type StampedeEventType = StampedeEvent['type']
export type EventOf<T extends StampedeEventType> = Extract<StampedeEvent, { type: T }>
export type Listener<T extends StampedeEventType> = (event: EventOf<T>) => void

/** Their names, for those who listen without types. */
const TYPES: Readonly<Record<StampedeEventType, true>> = {
  hit: true,
  'lease.granted': true,
  'lease.lost': true,
  'wait.started': true,
  'wait.ended': true,
  'wait.timed-out': true,
  'fill.started': true,
  'fill.committed': true,
  'fill.fenced': true,
  'fill.passed': true,
  'fill.failed': true,
  'fill.abandoned': true,
  'fill.queued': true,
  'stood-in': true,
  'failure.shared': true,
  purged: true,
  'idempotency.answered': true,
  'idempotency.finished': true,
  gap: true,
  'store.failed': true,
}

/** Throws `ERR_STAMPEDE_OPTION`: a listener under a name that nothing has would never be called. */
export function checkListener(type: unknown, listener: unknown): void {
  const known = [...Object.keys(TYPES), '*']
  if (!known.includes(type as string)) {
    const near = typeof type === 'string' ? nearest(type, known) : undefined
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
    if (this.#channel.hasSubscribers || this.#listeners.size > 0) {
      this.emit({ type: 'hit', key, tier, stale })
    }
  }

  emit(emitted: Emitted): void {
    this.#counts.set(emitted.type, (this.#counts.get(emitted.type) ?? 0) + 1)
    if (!this.#channel.hasSubscribers && this.#listeners.size === 0) return
    const event = published(emitted)
    this.#channel.publish(event)
    for (const type of [event.type, '*']) {
      for (const listener of this.#listeners.get(type) ?? []) callSafely(listener, event)
    }
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

function published(emitted: Emitted): StampedeEvent {
  return 'fence' in emitted
    ? ({ ...emitted, fence: publicFence(emitted.fence) } as StampedeEvent)
    : emitted
}

/** A listener that throws changes nothing for the request that it listened to. */
function callSafely(listener: (event: StampedeEvent) => void, event: StampedeEvent): void {
  try {
    listener(event)
  } catch (error) {
    process.emitWarning(messageOf(error), 'StampedeListenerWarning')
  }
}
