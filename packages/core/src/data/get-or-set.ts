// `getOrSet`: the factory runs once per key in the fleet, and every caller gets its value.

import { readPromise } from '../entry/parsed-value.ts'
import { optionError } from '../errors.ts'
import { detachedText } from '../http/headers.ts'
import { freshCopy } from '../l1/purges.ts'
import { dataKey } from '../ports/key.ts'
import { cacheSubject } from '../ports/subject.ts'
import { Recent } from '../recent.ts'
import { traceHit } from '../traces.ts'
import { lookupTracing } from '../tracing.ts'
import { Call } from './call.ts'
import { type DataScope, type Factory, WHERE } from './get-or-set-options.ts'

/** Not async, so that all callers of a fresh value in memory share one promise. */
export function getOrSet<T, P = T>(
  of: DataScope & { readonly keys: RecentKeys },
  key: string,
  factory: Factory<T, P>,
): Promise<T> {
  try {
    const { rt, keys } = of
    checkKey(keys.where, key)
    if (typeof factory !== 'function')
      throw optionError(`${WHERE}: factory`, factory, 'use a function that returns the value')
    const known = keys.get(key)
    const internalKey = known ?? dataKey(keys.prefix + key)
    const held = freshCopy(rt, internalKey, rt.clock.now())
    if (held !== undefined) {
      if (known === undefined) keys.remember(key, internalKey)
      const { entry } = held
      if (of.serializer === undefined && entry.type === 'value' && entry.encoding === 'json') {
        rt.events.hit(internalKey, 'l1', false)
        rt.counts.served(held)
        if (lookupTracing.hasSubscribers) traceHit(internalKey)
        return readPromise(entry) as Promise<T>
      }
    }
    const call = new Call(of, internalKey, factory)
    return new Promise(call.start.bind(call))
  } catch (error) {
    return Promise.reject(error)
  }
}

export function checkKey(where: string, key: unknown): void {
  if (typeof key === 'string' && key !== '') return
  throw optionError(`${where}: key`, key, 'use a non-empty string')
}

// Keys that recently had a hit, with the names of their records. Building and hashing such a name
// again would take a third of the time of a hit in memory.

const MOST_KEYS = 4_096
/** Longer keys are not remembered, because callers choose their length. */
const LONGEST_KEY = 200

export class RecentKeys extends Recent<string> {
  /** The function that has the keys, for errors. */
  readonly where: string
  readonly prefix: string
  readonly subjects: readonly string[]

  constructor(where: string, name?: string) {
    super(MOST_KEYS)
    this.where = where
    this.prefix = name === undefined ? '' : `${name}:`
    this.subjects = name === undefined ? [] : [cacheSubject(name)]
  }

  remember(key: string, name: string): void {
    if (key.length <= LONGEST_KEY) this.set(detachedText(key), name)
  }
}

/** The keys of `stampede.getOrSet`. */
export const KEYS: RecentKeys = new RecentKeys(WHERE)
