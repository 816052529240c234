// What a factory is given: its fence and its deadline, what was stored before, and a way to say that this is still so.

import type { HeldEntry, StoredValue } from '../entry/entry.ts'
import { nothingBefore, valueError } from '../errors.ts'
import type { Lead } from '../flight/resolution.ts'
import { publicFence } from '../ports/grant.ts'

/** What a factory is given. Read its parts by name: a copy by `{ ...context }` has none of them. `T` is unknown where the value's type is only found out from what the factory returns. */
export interface FactoryContext<T = unknown> {
  /** Fencing token of this fill. Undefined if no lease was given, for example because the store is away. */
  readonly fence: bigint | undefined
  /** Aborted when `originTimeoutMs` is over: the result will not be stored. */
  readonly signal: AbortSignal
  /** What was stored before, fresh or not, where it is at hand (`keepMs`), and how long ago it was made or found unchanged. */
  readonly previous: { readonly value: T; readonly ageMs: number } | undefined
  /** Return what this returns to say that `previous` is still so: its lifetimes begin anew, and nothing is written. */
  notModified(): never
}

export type Factory<T, P = T> = (context: FactoryContext<P>) => T | Promise<T>

/** What notModified() returns; a value that nobody can have by chance. */
export const NOT_MODIFIED: unique symbol = Symbol('not modified')

/** The call that runs the factory. */
interface ContextCall<P> {
  /** Named in errors. */
  readonly where: string
  readPrevious(held: HeldEntry): { readonly value: P } | undefined
}

/**
 * Each part is made when it is read: hardly any factory reads one, and the signal alone would be a
 * tenth of what a fill costs. A class, since an object literal with getters has a shape of its own
 * each time.
 */
export class FillContext<P> implements FactoryContext<P> {
  readonly #lead: Lead
  readonly #held: HeldEntry | undefined
  readonly #now: number
  readonly #call: ContextCall<P>

  constructor(lead: Lead, held: HeldEntry | undefined, now: number, call: ContextCall<P>) {
    this.#lead = lead
    this.#held = held
    this.#now = now
    this.#call = call
  }

  get fence(): bigint | undefined {
    return publicFence(this.#lead.fence)
  }

  get signal(): AbortSignal {
    return this.#lead.signal
  }

  get previous(): { readonly value: P; readonly ageMs: number } | undefined {
    const held = this.#held
    const read = held && this.#call.readPrevious(held)
    return read && { value: read.value, ageMs: this.#now - held.bornAt }
  }

  /** A function of its own, so that it can be taken out of the context. */
  get notModified(): () => never {
    return () => {
      if (this.#held === undefined) throw nothingBefore(this.#call.where)
      return NOT_MODIFIED as never
    }
  }
}

export function storedValue(held: HeldEntry): StoredValue {
  if (held.entry.type === 'value') return held.entry
  throw valueError('getOrSet', 'a response is stored under a data key; purge that key')
}
