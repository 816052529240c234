// `getOrSet`: the factory runs once per key in the fleet, and every caller gets its value.

import { countRead, readWithoutLease } from '../engine/lookup.ts'
import { readPromise } from '../entry/parsed-value.ts'
import { optionError } from '../errors.ts'
import { detachedText } from '../http/headers.ts'
import { freshCopy } from '../l1/purges.ts'
import { dataKey } from '../ports/key.ts'
import { cacheSubject } from '../ports/subject.ts'
import { Recent } from '../recent.ts'
import type { Runtime } from '../runtime.ts'
import { traceHit } from '../traces.ts'
import { lookupTracing } from '../tracing.ts'
import { Call, parseHeld } from './call.ts'
import { type Factory, type Plan, WHERE } from './get-or-set-options.ts'
import type { Serializer } from './value.ts'

/** The stored value, also within its stale window. Undefined if there is none. Runs no factory. */
export async function get<T>(
  rt: Runtime,
  key: string,
  serializer?: Serializer,
): Promise<T | undefined> {
  try {
    const found = await readWithoutLease(rt, dataKey(key))
    if (found === undefined) return undefined
    const parsed = parseHeld<T>(rt, dataKey(key), found.held, serializer)
    if (parsed !== undefined) countRead(rt, dataKey(key), found)
    return parsed?.value
  } catch (error) {
    // An unavailable store counts as a miss, as for getOrSet.
    rt.events.emit({ type: 'store.failed', key: dataKey(key), operation: 'lookup', error })
    return undefined
  }
}

/** Not async, so that all callers of a fresh value in memory share one promise. */
export function getOrSet<T, P = T>(
  rt: Runtime,
  key: string,
  factory: Factory<T, P>,
  plan: Plan,
  serializer?: Serializer,
  recent: RecentKeys = recentKeys,
): Promise<T> {
  try {
    checkKey(recent.where, key)
    if (typeof factory !== 'function')
      throw optionError(`${WHERE}: factory`, factory, 'use a function that returns the value')
    const known = recent.get(key)
    const internalKey = known ?? dataKey(recent.prefix + key)
    const held = freshCopy(rt, internalKey, rt.clock.now())
    if (held !== undefined) {
      if (known === undefined) recent.remember(key, internalKey)
      const { entry } = held
      if (serializer === undefined && entry.type === 'value' && entry.encoding === 'json') {
        rt.events.hit(internalKey, 'l1', false)
        rt.counts.served(held)
        if (lookupTracing.hasSubscribers) traceHit(internalKey)
        return readPromise(entry) as Promise<T>
      }
    }
    return new Call(rt, internalKey, factory, plan, serializer, recent.subjects).value()
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
  /** Prefix of each key: the name of the cache and a colon, or empty. */
  readonly prefix: string
  /** The subject of the cache, which each of its values has. Empty without a name. */
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

const recentKeys = new RecentKeys(WHERE)
