// What a factory is given: its fence and its deadline, what was stored before, and a way to say that this is still so.

import type { HeldEntry, StoredValue } from '../entry/entry.ts'
import { nothingBefore, valueError } from '../errors.ts'

/** What a factory is given. `T` is unknown where the value's type is only found out from what the factory returns. */
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

export function contextOf<P>(
  where: string,
  given: Pick<FactoryContext, 'fence' | 'signal'>,
  held: HeldEntry | undefined,
  now: number,
  readPrevious: () => { readonly value: P } | undefined,
): FactoryContext<P> {
  return {
    ...given,
    // Read when it is asked for: bytes are copied.
    get previous() {
      const read = held && readPrevious()
      return read && { value: read.value, ageMs: now - held.bornAt }
    },
    notModified() {
      if (held === undefined) throw nothingBefore(where)
      return NOT_MODIFIED as never
    },
  }
}

export function storedValue(held: HeldEntry): StoredValue {
  if (held.entry.type === 'value') return held.entry
  throw valueError('getOrSet', 'a response was stored under a data key; purge it')
}
