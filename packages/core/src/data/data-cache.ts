// `stampede.cache(name, defaults)`: getOrSet with a key prefix, and with options that are checked
// once.

import { purgeKey } from '../engine/messages.ts'
import { closedError, optionError } from '../errors.ts'
import { checkNames } from '../options.ts'
import { dataKey } from '../ports/key.ts'
import { type PurgeOptions, purge } from '../purge.ts'
import type { Runtime } from '../runtime.ts'
import { checkKey, getOrSet, RecentKeys } from './get-or-set.ts'
import {
  type Factory,
  type FactoryContext,
  type GetOrSetOptions,
  NAMES,
  readPlan,
} from './get-or-set-options.ts'
import { deleteMany, getMany, getOrSetMany, readKeys, setMany } from './many.ts'
import type { ManyFactory } from './many-context.ts'
import { set } from './set.ts'
import type { Stored } from './stored.ts'
import type { Serializer } from './value.ts'

/** Options of `stampede.cache`: the defaults of each call, and the serializer. */
export interface DataCacheOptions extends GetOrSetOptions<never> {
  /**
   * Replaces JSON, the default: for Maps, Dates, classes. All processes must use the same one for a
   * cache name.
   */
  serializer?: Serializer | undefined
}

type Overrides<T> = {
  readonly [Name in keyof GetOrSetOptions<T>]?: GetOrSetOptions<T>[Name] | undefined
}

/**
 * A cache of data. For a wrong argument, `wrap` throws `ERR_STAMPEDE_OPTION`, and the other methods
 * reject with it. `T` is the type that the factory returns. With a serializer callers get that
 * type, otherwise `Stored<T>`.
 */
export interface DataCache<S extends DataCacheOptions = DataCacheOptions> {
  /**
   * The stored value of `key`, or the result of `factory`, which runs once in the fleet. Rejects
   * with the error of the factory, or with a `StampedeError`. `overrides` has fields of
   * `GetOrSetOptions`, which replace the options of this cache for one call.
   */
  getOrSet<T, P = T>(
    key: string,
    factory: Factory<T, CallerValue<P, S>>,
    overrides?: Overrides<T>,
  ): Promise<CallerValue<T, S>>
  /**
   * The stored value, also within its stale window. Undefined if there is none, or if the store is
   * unavailable.
   */
  get<T>(key: string): Promise<CallerValue<T, S> | undefined>
  /** The stored values by key, in the order of `keys`. Keys without a value are left out. */
  getMany<T>(keys: readonly string[]): Promise<Map<string, CallerValue<T, S>>>
  /**
   * The values by key, in the order of `keys`. `factory` runs once, with the keys that need a fill:
   * `async (keys) => new Map(rows.map((row) => [row.id, row]))`. Keys for which it returns nothing
   * are left out. Rejects with its error, or with `ERR_STAMPEDE_MANY_FAILED` if only some keys
   * failed. At most 10 000 keys.
   */
  getOrSetMany<T, P = T>(
    keys: readonly string[],
    factory: ManyFactory<T, CallerValue<P, S>>,
    overrides?: Overrides<T>,
  ): Promise<Map<string, CallerValue<T, S>>>
  /**
   * Like `set` for many entries, such as those of a `Map`. If a value cannot be encoded, nothing is
   * stored. Rejects with `ERR_STAMPEDE_MANY_FAILED` if some keys were not stored.
   */
  setMany<T>(
    entries: Iterable<readonly [key: string, value: T]>,
    overrides?: Overrides<T>,
  ): Promise<void>
  /**
   * Like `delete` for many keys. The purges are not one atomic step. Rejects with
   * `ERR_STAMPEDE_MANY_FAILED` if some keys were not purged.
   */
  deleteMany(keys: readonly string[]): Promise<void>
  /**
   * Replaces the stored value in the whole fleet. If `value` is a promise, it is awaited first.
   * Resolves when the value is stored, to the value that `get` returns. Rejects if the store does
   * not accept the value.
   */
  set<T>(key: string, value: T | Promise<T>, overrides?: Overrides<T>): Promise<CallerValue<T, S>>
  /** Purges the value in the whole fleet. A fill that has begun cannot store its value any more. */
  delete(key: string): Promise<void>
  /**
   * Purges all values of this cache in the whole fleet, by one command. Fills that have begun
   * cannot store their values any more. With `soft`, the values become stale. Values that an
   * earlier version of this package stored are not covered: they stay until their lifetimes end.
   */
  clear(options?: PurgeOptions): Promise<void>
  /**
   * Returns a function that caches the results of `fn`. `key` gets the arguments of a call and
   * returns its key. The options are read once, when `wrap` is called. In `fn`, `this` is the
   * context of a factory.
   */
  wrap<A extends readonly unknown[], T>(
    fn: (this: FactoryContext, ...args: A) => T | Promise<T>,
    options: { key: (...args: A) => string } & Overrides<T>,
  ): (...args: A) => Promise<CallerValue<T, S>>
}

type CallerValue<T, S> = S extends { serializer: Serializer } ? T : Stored<T>

const WHERE = 'cache'

/** Throws `ERR_STAMPEDE_OPTION`. */
export function createDataCache<S extends DataCacheOptions>(
  rt: Runtime,
  name: string,
  defaults: S,
): DataCache<S> {
  // With colons in names, two caches could share a record: `a:b` with key `c`, `a` with key `b:c`.
  if (typeof name !== 'string' || !/^[^:]+$/.test(name)) {
    throw optionError(
      `${WHERE}: name`,
      name,
      "use a name without a colon: cache('rates', { ttlMs })",
    )
  }
  const { serializer: option, ...options } = checkNames(WHERE, defaults, [...NAMES, 'serializer'])
  const serializer = readSerializer(option)
  const ofPlan = (chosen: object) => {
    const plan = readPlan(chosen as GetOrSetOptions)
    return { rt, plan, serializer, keys: recent }
  }
  const recent = new RecentKeys(WHERE, name)
  const byDefault = ofPlan(options)
  const scopeOf = (overrides: object | undefined) =>
    overrides === undefined ? byDefault : ofPlan({ ...options, ...definedIn(overrides) })
  /** The scope of a call, which may have a key. */
  const begin = (overrides?: object, ...keys: readonly unknown[]) => {
    if (rt.closed) throw closedError()
    for (const key of keys) checkKey(WHERE, key)
    return scopeOf(overrides)
  }
  function find<T, P>(of: typeof byDefault, key: string, factory: Factory<T, P>) {
    if (rt.closed) throw closedError()
    return getOrSet(of, key, factory as unknown as Factory<CallerValue<T, S>>)
  }
  return {
    // Not async, so that a hit in memory creates no promise of its own.
    getOrSet(key, factory, overrides) {
      try {
        return find(scopeOf(overrides), key, factory)
      } catch (error) {
        return Promise.reject(error)
      }
    },
    get: async (key) => (await getMany<never>(begin(undefined, key), [key])).get(key),
    getMany: async (keys) => getMany(begin(), readKeys('getMany', keys)),
    getOrSetMany: async (keys, factory, overrides) => {
      const run = factory as unknown as ManyFactory<never, never>
      return getOrSetMany(begin(overrides), readKeys('getOrSetMany', keys), run)
    },
    setMany: async (entries, overrides) => setMany(begin(overrides), entries),
    deleteMany: async (keys) => deleteMany(begin(), readKeys('deleteMany', keys)),
    set: async (key, value, overrides) => set(begin(overrides, key), key, value as never),
    delete: async (key) => {
      const { keys } = begin(undefined, key)
      return purgeKey(rt, dataKey(keys.prefix + key), false)
    },
    async clear(clearOptions) {
      if (rt.closed) throw closedError()
      return purge(rt, { cache: name }, clearOptions)
    },
    wrap(fn, options) {
      if (typeof fn !== 'function') throw optionError('wrap: fn', fn, 'use a function')
      const { key, ...overrides }: typeof options = Object(options)
      if (typeof key !== 'function')
        throw optionError('wrap.key', key, 'use a function of the arguments')
      const of = scopeOf(overrides)
      return async (...args) =>
        find(of, key(...args), (context: FactoryContext) => fn.call(context, ...args))
    },
  }
}

/** The overrides that are set. An override that is `undefined` keeps the default. */
function definedIn(overrides: object): object {
  checkNames(WHERE, overrides, NAMES)
  return Object.fromEntries(Object.entries(overrides).filter(([, value]) => value !== undefined))
}

function readSerializer(value: unknown): Serializer | undefined {
  const { serialize, deserialize } = Object(value)
  if (value === undefined) return undefined
  if (typeof serialize === 'function' && typeof deserialize === 'function')
    return value as Serializer
  throw optionError(`${WHERE}.serializer`, value, 'use { serialize(value), deserialize(bytes) }')
}
