// The methods of a data cache for many keys. The operations of all keys are sent together.

import { countRead, type Read, read, readWithoutLease } from '../engine/lookup.ts'
import { purgeKey } from '../engine/messages.ts'
import { manyFailed, optionError } from '../errors.ts'
import { dataKey } from '../ports/key.ts'
import type { Runtime } from '../runtime.ts'
import { lookupTracing } from '../tracing.ts'
import { Batch, gather } from './batch.ts'
import { parseHeld } from './call.ts'
import { checkKey } from './get-or-set.ts'
import type { DataScope } from './get-or-set-options.ts'
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

/** Runs an operation for each key, in as few commands as possible. */
async function forEach<R>(
  rt: Runtime,
  names: readonly string[],
  operation: (name: string) => Promise<R>,
) {
  const [values, errors] = [new Map<string, R>(), new Map<string, unknown>()]
  await gather(rt, names, (name, end) => {
    operation(name)
      .then(
        (value) => values.set(name, value),
        (error) => errors.set(name, error),
      )
      .then(end)
  })
  return { values, errors }
}

/**
 * The stored values, also within their stale windows. Runs no factory. A key that cannot be read
 * counts as a miss, as for getOrSet.
 */
export async function getMany<T>(of: DataScope, names: readonly string[]): Promise<Map<string, T>> {
  const { rt } = of
  const found = new Map<string, T>()
  await gather(rt, names, (name, end) => {
    const key = dataKey(of.keys.prefix + name)
    const resolve = (each: Read): void => {
      const parsed = each && parseHeld<T>(of, key, each.held)
      if (each !== undefined && parsed !== undefined) {
        countRead(rt, key, each)
        if (parsed.value !== undefined) found.set(name, parsed.value)
      }
      end()
    }
    const reject = (error: unknown): void => {
      rt.events.emit({ type: 'store.failed', key, operation: 'lookup', error })
      end()
    }
    if (lookupTracing.hasSubscribers) readWithoutLease(rt, key).then(resolve, reject)
    else read(rt, key, { resolve, reject })
  })
  const inOrder = names.filter((name) => found.has(name))
  return new Map(inOrder.map((name) => [name, found.get(name) as T]))
}

/** Rejects with `ERR_STAMPEDE_MANY_FAILED` if some keys were not purged. */
export async function deleteMany({ rt, keys }: DataScope, names: readonly string[]): Promise<void> {
  const purge = (name: string) => purgeKey(rt, dataKey(keys.prefix + name), false)
  const { values, errors } = await forEach(rt, names, purge)
  if (errors.size > 0) throw manyFailed('deleteMany', values, errors)
}

/** Encodes all values before it purges a key. Of two entries of a key, the later one counts. */
export async function setMany<T>(
  of: DataScope,
  entries: Iterable<readonly [string, T]>,
): Promise<void> {
  const { rt } = of
  const all = new Map<string, NewValue<T>>()
  for (const [name, value] of readEntries(entries)) {
    checkKey(WHERE, name)
    all.set(name, new NewValue<T>(of, name, value as T))
  }
  if (all.size > MOST_KEYS)
    throw optionError(`${WHERE}: entries`, entries, `split them into calls of ${MOST_KEYS}`)
  const [values, errors] = [new Map<string, T>(), new Map<string, unknown>()]
  let left = [...all.keys()]
  const value = (name: string) => all.get(name) as NewValue<T>
  while (left.length > 0) {
    const purge = (name: string) => purgeKey(rt, value(name).key, false)
    const purged = await forEach(rt, left, purge)
    for (const [name, error] of purged.errors) errors.set(name, error)
    const ends = await forEach(rt, [...purged.values.keys()], (name) => value(name).store())
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
  of: DataScope,
  names: readonly string[],
  factory: ManyFactory<T, P>,
): Promise<Map<string, T>> {
  if (typeof factory !== 'function')
    throw optionError('getOrSetMany: factory', factory, 'use a function that returns the values')
  return new Batch(of, names, factory).values()
}
