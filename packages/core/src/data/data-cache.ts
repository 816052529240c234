// `stampede.cache(name, defaults)`: a named cache for data. Its name is a prefix of its keys, and
// its options are checked once.

import { closedError, optionError } from '../errors.ts'
import type { Runtime } from '../flight/runtime.ts'
import { checkNames } from '../options.ts'
import type { Factory } from './factory-context.ts'
import { get, getOrSet, purgeData } from './get-or-set.ts'
import { type GetOrSetOptions, NAMES, type Plan, readPlan } from './get-or-set-options.ts'
import { RecentKeys } from './recent-keys.ts'
import { set } from './set.ts'
import type { Stored } from './stored.ts'
import type { Serializer } from './value.ts'

/** Options of `stampede.cache`: the defaults of each call, and a serializer. */
export interface DataCacheOptions extends GetOrSetOptions<never> {
  /**
   * Replaces JSON, for values such as a Map, a Date or an instance of a class. All processes must
   * use the same one for this name. Default: JSON.
   */
  serializer?: Serializer
}

type Overrides<T> = Partial<GetOrSetOptions<T>>

/**
 * A named cache for data. For a wrong argument, `wrap` throws `ERR_STAMPEDE_OPTION`, and the other
 * methods reject with it. `T` is the type that the factory returns. Callers get this type with a
 * serializer, else the type after JSON: `Stored<T>`.
 */
export interface DataCache<S extends DataCacheOptions = DataCacheOptions> {
  /**
   * Returns the stored value of `key`, or the result of `factory`, which runs once in the fleet.
   * Rejects with the error of the factory, or with a `StampedeError`.
   */
  getOrSet<T, P = T>(
    key: string,
    factory: Factory<T, Read<P, S>>,
    overrides?: Overrides<T>,
  ): Promise<Read<T, S>>
  /**
   * Returns the stored value, also within its stale window. Undefined if there is none, or if the
   * store is unavailable.
   */
  get<T>(key: string): Promise<Read<T, S> | undefined>
  /** Returns the stored values of `keys`, in the order of `keys`. */
  getMany<T>(keys: readonly string[]): Promise<Map<string, Read<T, S>>>
  /**
   * Purges the key in the whole fleet and stores `value`. A promise is awaited first. Resolves to
   * the value as other callers get it, when it is stored. Rejects if the store does not accept it.
   */
  set<T>(key: string, value: T | Promise<T>, overrides?: Overrides<T>): Promise<Read<T, S>>
  /** Purges the value in the whole fleet. Fills that began before the purge are not stored. */
  delete(key: string): Promise<void>
  /** Returns `fn` with the cache before it. `key` returns the key for the arguments. */
  wrap<A extends readonly unknown[], T>(
    fn: (...args: A) => T | Promise<T>,
    options: { key: (...args: A) => string } & Overrides<T>,
  ): (...args: A) => Promise<Read<T, S>>
}

type Read<T, S> = S extends { serializer: Serializer } ? T : Stored<T>

const WHERE = 'cache'

/** Throws `ERR_STAMPEDE_OPTION`. */
export function createDataCache<S extends DataCacheOptions>(
  rt: Runtime,
  name: string,
  defaults: S,
): DataCache<S> {
  // With a colon in names, two caches could have the same key.
  if (typeof name !== 'string' || !/^[^:]+$/.test(name)) {
    throw optionError(
      `${WHERE}: name`,
      name,
      "use a name without a colon: cache('rates', { ttlMs })",
    )
  }
  const names = [...NAMES, 'serializer']
  const { serializer: unchecked, ...options } = checkNames(WHERE, defaults, names)
  const serializer = readSerializer(unchecked)
  const bound = readPlan(options as unknown as GetOrSetOptions)
  const planFor = (overrides: object | undefined): Plan =>
    overrides === undefined
      ? bound
      : readPlan({ ...options, ...definedIn(overrides) } as unknown as GetOrSetOptions)
  const recent = new RecentKeys(`${name}:`)
  const check = (key: string): void => {
    if (rt.closed) throw closedError()
    if (typeof key === 'string' && key !== '') return
    throw optionError(`${WHERE}: key`, key, 'use a non-empty string')
  }
  const keyOf = (key: string): string => {
    check(key)
    return recent.prefix + key
  }
  const cache: DataCache<S> = {
    // Not async, so that a hit in memory creates no promise.
    getOrSet(key, factory, overrides) {
      try {
        check(key)
        const run = factory as unknown as Factory<never>
        return getOrSet(rt, key, run, planFor(overrides), serializer, recent)
      } catch (error) {
        return Promise.reject(error)
      }
    },
    get: async (key) => get(rt, keyOf(key), serializer),
    async getMany<T>(keys: readonly string[]) {
      if (!Array.isArray(keys))
        throw optionError(`${WHERE}: keys`, keys, 'use an array: getMany([key])')
      const values = await Promise.all(keys.map((key) => cache.get<T>(key)))
      const found = new Map<string, Read<T, S>>()
      for (const [i, key] of keys.entries()) {
        const value = values[i]
        if (value !== undefined) found.set(key, value as Read<T, S>)
      }
      return found
    },
    set: async (key, value, overrides) =>
      set(rt, keyOf(key), value as never, planFor(overrides), serializer),
    delete: async (key) => purgeData(rt, keyOf(key)),
    wrap(fn, options) {
      if (typeof fn !== 'function') throw optionError('wrap: fn', fn, 'use a function')
      const { key, ...overrides }: typeof options = Object(options)
      if (typeof key !== 'function')
        throw optionError('wrap.key', key, 'use a function of the arguments')
      const isBound = Object.keys(overrides).length === 0
      if (!isBound) planFor(overrides)
      return async (...args) =>
        cache.getOrSet(key(...args), () => fn(...args), isBound ? undefined : (overrides as object))
    },
  }
  return cache
}

/** The overrides without those that are `undefined`, for which the default counts. */
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
