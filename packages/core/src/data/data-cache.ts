// `stampede.cache(name, defaults)`: getOrSet under a name of its own, with options that are checked once.

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

/** Options of `stampede.cache`: the defaults of each call, and how values are written. */
export interface DataCacheOptions extends GetOrSetOptions<never> {
  /** Replaces JSON: for Maps, Dates, classes. Every process must use the same one for the same name. */
  serializer?: Serializer
}

type Overrides<T> = Partial<GetOrSetOptions<T>>

/** `T` of a method is what the factory returns; with a serializer callers get exactly that, else what JSON makes of it. */
export interface DataCache<S extends DataCacheOptions = DataCacheOptions> {
  /** The value of `key`, or what `factory` returns: run once in the fleet. */
  getOrSet<T, P = T>(
    key: string,
    factory: Factory<T, Read<P, S>>,
    overrides?: Overrides<T>,
  ): Promise<Read<T, S>>
  /** The stored value, also while it is stale. Undefined if there is none, or if the store is away. */
  get<T>(key: string): Promise<Read<T, S> | undefined>
  /** The stored values among `keys`, in their order. */
  getMany<T>(keys: readonly string[]): Promise<Map<string, Read<T, S>>>
  /**
   * Replaces what is stored, in the whole fleet. Resolves to the value as callers get it, once it is
   * stored. Rejects if the store does not take it. A promise is awaited first.
   */
  set<T>(key: string, value: T | Promise<T>, overrides?: Overrides<T>): Promise<Read<T, S>>
  /** Makes the value void in the whole fleet, with every fill in flight. */
  delete(key: string): Promise<void>
  /** `fn` with a cache before it: `key` is given the arguments. */
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
  // With a colon, two caches could mean the same key.
  if (typeof name !== 'string' || !/^[^:]+$/.test(name)) {
    throw optionError(
      `${WHERE}: name`,
      name,
      "use a name without a colon: cache('rates', { ttlMs })",
    )
  }
  const { serializer: given, ...options } = checkNames(WHERE, defaults, [...NAMES, 'serializer'])
  const serializer = readSerializer(given)
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
    // Not async: a hit in memory makes no promise.
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

/** An explicit `undefined` leaves the default as it is. */
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
