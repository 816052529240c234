// The methods of a data cache for many keys. The operations of all keys are sent together.

import { purgeKey } from '../engine/hints.ts'
import { manyFailed, optionError } from '../errors.ts'
import { dataKey } from '../ports/key.ts'
import { Batch, begin, type ManyOf } from './batch.ts'
import { checkKey, get } from './get-or-set.ts'
import type { ManyFactory } from './many-context.ts'
import { NewValue } from './set.ts'

const WHERE = 'cache'
const MOST_KEYS = 10_000
/** The keys without repetitions. Throws `ERR_STAMPEDE_OPTION`. */
export function readKeys(method: string, keys: unknown): string[] {
  if (!Array.isArray(keys))
    throw optionError(`${WHERE}: keys`, keys, `use an array: ${method}([key])`)
  if (keys.length > MOST_KEYS)
    throw optionError(`${WHERE}: keys`, keys, `split it into arrays of at most ${MOST_KEYS} keys`)
  const names = [...new Set<unknown>(keys)]
  for (const name of names) checkKey(WHERE, name)
  return names as string[]
}

/** Splits the keys into values and errors. */
function collect<R>(names: readonly string[], results: readonly PromiseSettledResult<R>[]) {
  const [values, errors] = [new Map<string, R>(), new Map<string, unknown>()]
  for (const [i, name] of names.entries()) {
    const result = results[i]
    if (result?.status === 'fulfilled') values.set(name, result.value)
    else errors.set(name, result?.reason)
  }
  return { values, errors }
}

export async function getMany<T>(
  { rt, prefix, serializer }: Omit<ManyOf, 'plan' | 'subjects'>,
  names: readonly string[],
): Promise<Map<string, T>> {
  const found = await begin(rt, names, (name) => get<T | undefined>(rt, prefix + name, serializer))
  const { values } = collect(names, found)
  for (const [name, value] of values) if (value === undefined) values.delete(name)
  return values as Map<string, T>
}

/** Rejects with `ERR_STAMPEDE_MANY_FAILED` if some keys were not purged. */
export async function deleteMany(
  { rt, prefix }: Pick<ManyOf, 'rt' | 'prefix'>,
  names: readonly string[],
): Promise<void> {
  const purge = (name: string) => purgeKey(rt, dataKey(prefix + name), false)
  const { values, errors } = collect(names, await begin(rt, names, purge))
  if (errors.size > 0) throw manyFailed('deleteMany', values, errors)
}

/** Encodes all values before it purges a key. Of two entries of a key, the later one counts. */
export async function setMany<T>(
  of: ManyOf,
  entries: Iterable<readonly [string, T]>,
): Promise<void> {
  const { rt, prefix, plan, serializer, subjects } = of
  const all = new Map<string, NewValue<T>>()
  for (const [name, value] of readEntries(entries)) {
    checkKey(WHERE, name)
    all.set(name, new NewValue<T>(rt, prefix + name, value as T, plan, serializer, subjects))
  }
  if (all.size > MOST_KEYS)
    throw optionError(`${WHERE}: entries`, entries, `split them into calls of ${MOST_KEYS}`)
  const [values, errors] = [new Map<string, T>(), new Map<string, unknown>()]
  let left = [...all.keys()]
  const value = (name: string) => all.get(name) as NewValue<T>
  while (left.length > 0) {
    const purge = (name: string) => purgeKey(rt, value(name).key, false)
    const purged = collect(left, await begin(rt, left, purge))
    for (const [name, error] of purged.errors) errors.set(name, error)
    const names = [...purged.values.keys()]
    const ends = collect(names, await begin(rt, names, (name) => value(name).store()))
    for (const [name, error] of ends.errors) errors.set(name, error)
    left = []
    for (const [name, end] of ends.values) {
      try {
        if (value(name).isStored(end)) values.set(name, value(name).stored)
        else left.push(name)
      } catch (error) {
        errors.set(name, error)
      }
    }
  }
  if (errors.size > 0) throw manyFailed('setMany', values, errors)
}

function readEntries(entries: unknown): readonly (readonly [string, unknown])[] {
  const fix = 'use a Map, or an array of [key, value]'
  if (typeof Object(entries)[Symbol.iterator] !== 'function' || typeof entries === 'string')
    throw optionError(`${WHERE}: entries`, entries, fix)
  const list = [...(entries as Iterable<readonly [string, unknown]>)]
  for (const each of list)
    if (!Array.isArray(each)) throw optionError(`${WHERE}: entries`, each, fix)
  return list
}

/** Rejects with the error of the factory, or with `ERR_STAMPEDE_MANY_FAILED`. */
export async function getOrSetMany<T, P>(
  of: ManyOf,
  names: readonly string[],
  factory: ManyFactory<T, P>,
): Promise<Map<string, T>> {
  if (typeof factory !== 'function')
    throw optionError('getOrSetMany: factory', factory, 'use a function that returns the values')
  return new Batch(of, names, factory).values()
}
