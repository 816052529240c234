// The context and the result of a factory of getOrSetMany.

import { optionError, show, valueError } from '../errors.ts'
import type { FillContext } from './get-or-set-options.ts'

/** Values by key. An object must be plain. A key without a value is left out. */
export type Many<T> = ReadonlyMap<string, T> | Readonly<Record<string, T>>

/**
 * Loads many values. It is called with all keys that its call leads. If other callers should fill
 * some keys and fail, it is called once more with these keys.
 */
export type ManyFactory<T, P = T> = (
  keys: readonly string[],
  context: ManyContext<P>,
) => Many<T> | Promise<Many<T>>

/** The context of a `ManyFactory`. Its fields are getters, so `{ ...context }` copies none. */
export interface ManyContext<P> {
  /** Aborted after `originTimeoutMs`. The results are then not stored. */
  readonly signal: AbortSignal
  /** Fencing tokens by key. A key without a lease has none. */
  readonly fences: ReadonlyMap<string, bigint>
  /** The values from before this fill, by key, with their ages in ms (see `keepMs`). */
  readonly previous: ReadonlyMap<string, { readonly value: P; readonly ageMs: number }>
  /** Stores the previous value of `key` again, with new lifetimes. Throws if there is none. */
  notModified(key: string): void
  /** The caller gets the value that the factory returns for `key`, but it is not stored. */
  skip(key: string): void
  /** The key fails with `error`. The other keys are stored. */
  fail(key: string, error: unknown): void
}

/** Replaces the value that the factory returns for a key, or throws. */
export type Mark = (returned: unknown) => unknown

export class BatchContext<P> implements ManyContext<P> {
  readonly keys: readonly string[]
  readonly marks: Map<string, Mark> = new Map()
  readonly #contexts = new Map<string, FillContext<P>>()

  constructor(
    all: readonly { readonly member: { readonly name: string }; context: FillContext<P> }[],
  ) {
    for (const { member, context } of all) this.#contexts.set(member.name, context)
    this.keys = [...this.#contexts.keys()]
  }

  has(key: string): boolean {
    return this.#contexts.has(key)
  }

  /** The keys lead at nearly the same time. So the deadline of the first one is that of all. */
  get signal(): AbortSignal {
    return this.#of(this.keys[0] as string, 'signal').signal
  }

  get fences(): ReadonlyMap<string, bigint> {
    return this.#map(({ fence }) => fence)
  }

  get previous(): ManyContext<P>['previous'] {
    return this.#map(({ previous }) => previous)
  }

  get notModified(): ManyContext<P>['notModified'] {
    return (key) => {
      const confirmed = this.#of(key, 'notModified').notModified()
      this.marks.set(key, () => confirmed)
    }
  }

  get skip(): ManyContext<P>['skip'] {
    return (key) => {
      const { skip } = this.#of(key, 'skip')
      this.marks.set(key, (value) => (value === undefined ? value : skip(value)))
    }
  }

  get fail(): ManyContext<P>['fail'] {
    return (key, error) => {
      this.#of(key, 'fail')
      this.marks.set(key, () => {
        throw error
      })
    }
  }

  #of(key: string, method: string): FillContext<P> {
    const context = this.#contexts.get(key)
    if (context !== undefined) return context
    throw optionError(`getOrSetMany: ${method}`, key, 'use one of the keys that the factory got')
  }

  #map<V>(read: (context: FillContext<P>) => V | undefined): ReadonlyMap<string, V> {
    const values = new Map<string, V>()
    for (const [key, context] of this.#contexts) {
      const value = read(context)
      if (value !== undefined) values.set(key, value)
    }
    return values
  }
}

/** Positions are not accepted, because a row that is missing would shift all later values. */
export function readMany(many: unknown): ReadonlyMap<string, unknown> {
  if (many instanceof Map) return new Map(many)
  if (typeof many === 'object' && many !== null) {
    const prototype: unknown = Object.getPrototypeOf(many)
    const isPlain = prototype === null || Object.getPrototypeOf(prototype) === null
    if (isPlain) return new Map(Object.entries(many))
  }
  const fix =
    'return a Map or a plain object of values by key: new Map(rows.map((row) => [row.id, row]))'
  throw valueError('getOrSetMany', `the factory returned ${show(many)}; ${fix}`)
}
