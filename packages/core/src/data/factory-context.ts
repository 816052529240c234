// The context of a factory: fence, deadline, previous value, and `notModified()`.

import type { Lead } from '../engine/types.ts'
import type { HeldEntry, StoredValue } from '../entry/entry.ts'
import { noPreviousValue, valueError } from '../errors.ts'
import { publicFence } from '../ports/grant.ts'

/**
 * The context of a factory. Its fields are getters, so `{ ...context }` copies none of them. `T` is
 * `unknown` if TypeScript infers the type of the value from the factory.
 */
export interface FactoryContext<T = unknown> {
  /**
   * Fencing token of this fill, greater than that of each earlier fill of the key. Undefined
   * without a lease, for example if the store is unavailable.
   */
  readonly fence: bigint | undefined
  /** Aborted after `originTimeoutMs`. The result is then not stored. */
  readonly signal: AbortSignal
  /**
   * The value from before this fill, if this process has it (see `keepMs`). `ageMs` is the time
   * since the value was computed or confirmed with `notModified()`.
   */
  readonly previous: { readonly value: T; readonly ageMs: number } | undefined
  /**
   * A factory returns `notModified()` if `previous` is still current. The lifetimes of `previous`
   * then begin again. Throws if there is no `previous`.
   */
  notModified(): never
}

/** Computes the value of a key for `getOrSet`. If it throws, the caller gets the error. */
export type Factory<T, P = T> = (context: FactoryContext<P>) => T | Promise<T>

/** The result of `notModified()`: a symbol, which no factory returns by chance. */
export const NOT_MODIFIED: unique symbol = Symbol('not modified')

/** The parts of a `getOrSet` call that its context needs. */
interface ContextCall<P> {
  /** Name of the call in errors. */
  readonly where: string
  parsePrevious(held: HeldEntry): { readonly value: P } | undefined
}

/**
 * Each field is computed when it is read. Hardly any factory reads one, and the signal alone would
 * be a tenth of the cost of a fill. This is a class, because V8 gives each object literal with
 * getters a hidden class of its own.
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
    const parsed = held && this.#call.parsePrevious(held)
    return parsed && { value: parsed.value, ageMs: this.#now - held.bornAt }
  }

  /** Returns a function that does not use `this`, so that a factory can destructure the context. */
  get notModified(): () => never {
    return () => {
      if (this.#held === undefined) throw noPreviousValue(this.#call.where)
      return NOT_MODIFIED as never
    }
  }
}

export function storedValue(held: HeldEntry): StoredValue {
  if (held.entry.type === 'value') return held.entry
  throw valueError('getOrSet', 'a response is stored under a data key; purge that key')
}
