// The context of a factory: its fence, its signal, and the value that was stored before.

import type { HeldEntry, StoredValue } from '../entry/entry.ts'
import { nothingBefore, valueError } from '../errors.ts'
import type { Lead } from '../flight/resolution.ts'
import { publicFence } from '../ports/grant.ts'

/**
 * The argument of a factory. Its members are getters, so a copy by `{ ...context }` has none of
 * them. `T` is `unknown` if TypeScript infers the type of the value from the factory.
 */
export interface FactoryContext<T = unknown> {
  /**
   * Fencing token of this fill, greater than that of every earlier fill of the key. Undefined
   * without a lease, for example because the store is unavailable.
   */
  readonly fence: bigint | undefined
  /** Aborted after `originTimeoutMs`. Then the result is not stored. */
  readonly signal: AbortSignal
  /**
   * The value that was stored before, if it is still kept (see `keepMs`). `ageMs` is the time since
   * it was made, or since the last `notModified()`.
   */
  readonly previous: { readonly value: T; readonly ageMs: number } | undefined
  /**
   * Return its result if `previous` is still current. The lifetimes of `previous` begin again, and
   * the value is not sent to the store again. Throws if there is no `previous`.
   */
  notModified(): never
}

export type Factory<T, P = T> = (context: FactoryContext<P>) => T | Promise<T>

/** The result of notModified(). It is a symbol, so that no other value is equal to it. */
export const NOT_MODIFIED: unique symbol = Symbol('not modified')

/** The call that runs the factory. */
interface ContextCall<P> {
  /** The name of the call in errors. */
  readonly where: string
  readPrevious(held: HeldEntry): { readonly value: P } | undefined
}

/**
 * A context whose members are created when a factory reads them. Most factories read none, and the
 * signal alone would be a tenth of the cost of a fill. It is a class, because each object literal
 * with getters would get its own hidden class.
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

  /** A getter of a function without `this`, so that a factory can destructure the context. */
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
