// The methods of a data cache for many keys. The operations of all keys are sent together.

import { countRead, type Read, read, readWithoutLease } from '../engine/lookup.ts'
import { purgeKey } from '../engine/messages.ts'
import { manyFailed, optionError } from '../errors.ts'
import { dataKey } from '../ports/key.ts'
import { together } from '../ports/store.ts'
import type { Runtime } from '../runtime.ts'
import { lookupTracing } from '../tracing.ts'
import { Batch } from './batch.ts'
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
  const begun: Promise<R>[] = []
  together(rt.records, () => {
    for (const name of names) begun.push(operation(name))
  })
  for (const [i, result] of (await Promise.allSettled(begun)).entries()) {
    const name = names[i] as string
    if (result.status === 'fulfilled') values.set(name, result.value)
    else errors.set(name, result.reason)
  }
  return { values, errors }
}

/** Reads many keys, without a promise for each. A key whose read fails has no entry. */
function readAll(rt: Runtime, keys: readonly string[]): Promise<readonly Read[]> {
  const all = new Array<Read>(keys.length)
  let left = keys.length
  return new Promise((resolve) => {
    if (left === 0) resolve(all)
    together(rt.records, () => {
      for (const [i, key] of keys.entries()) {
        const end = (found: Read): void => {
          all[i] = found
          left -= 1
          if (left === 0) resolve(all)
        }
        const fail = (error: unknown): void => {
          rt.events.emit({ type: 'store.failed', key, operation: 'lookup', error })
          end(undefined)
        }
        if (lookupTracing.hasSubscribers) readWithoutLease(rt, key).then(end, fail)
        else read(rt, key, { resolve: end, reject: fail })
      }
    })
  })
}

export async function getMany<T>(of: DataScope, names: readonly string[]): Promise<Map<string, T>> {
  const { rt } = of
  const values = new Map<string, T>()
  const keys = names.map((name) => dataKey(of.keys.prefix + name))
  const all = await readAll(rt, keys)
  for (const [i, name] of names.entries()) {
    const [key, found] = [keys[i] as string, all[i]]
    const parsed = found && parseHeld<T>(of, key, found.held)
    if (parsed === undefined) continue
    countRead(rt, key, found as NonNullable<typeof found>)
    if (parsed.value !== undefined) values.set(name, parsed.value)
  }
  return values
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
