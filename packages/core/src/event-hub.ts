// The emitter of events, for a Stampede and for locks. An event goes to the listeners of one object
// and to a node:diagnostics_channel.

import { channel } from 'node:diagnostics_channel'
import { messageOf, optionError } from './errors.ts'
import { nearest } from './options.ts'
import { publicFence } from './ports/grant.ts'
import { shownKey } from './ports/shown-key.ts'

/** Name of the `node:diagnostics_channel` with all events of this process. */
export const EVENT_CHANNEL = 'stampede:event'

/** The part that all events have in common. */
export interface AnyEvent {
  readonly type: string
  readonly key: string
  readonly internalKey: string
}

/** An event before its publication: `key` is the internal key, and `fence` the store's string. */
export type Emitted<E extends AnyEvent> = E extends { readonly fence: unknown }
  ? Omit<E, 'internalKey' | 'fence'> & { readonly fence: string }
  : Omit<E, 'internalKey'>

/** Sends events to listeners and to the diagnostics channel, and counts them. */
export class EventHub<E extends AnyEvent> {
  readonly #channel = channel(EVENT_CHANNEL)
  readonly #listeners = new Map<string, Set<(event: E) => void>>()
  readonly #counts = new Map<string, number>()

  /** `name`: the key as the user wrote it, if the internal key is a hash. */
  emit(emitted: Emitted<E>, name?: string): void {
    const bare = emitted as unknown as AnyEvent
    const { type } = bare
    this.#counts.set(type, (this.#counts.get(type) ?? 0) + 1)
    if (!this.isHeard(type)) return
    const event = published<E>(bare, name)
    this.#channel.publish(event)
    for (const heard of [type, '*']) {
      for (const listener of this.#listeners.get(heard) ?? []) callSafely(listener, event)
    }
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
export function checkListener(types: readonly string[], type: unknown, listener: unknown): void {
  const known = [...types, '*']
  if (!known.includes(type as string)) {
    const ending = known.find((name) => name.endsWith(`.${String(type)}`))
    const near = typeof type === 'string' ? (ending ?? nearest(type, known)) : undefined
    const fix = near === undefined ? `known events: ${known.join(', ')}` : `did you mean ${near}?`
    throw optionError('on', type, `there is no such event; ${fix}`)
  }
  if (typeof listener !== 'function') throw optionError('on: listener', listener, 'use a function')
}
