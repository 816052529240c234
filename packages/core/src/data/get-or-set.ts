// `getOrSet`: the factory runs once per key in the fleet, and every caller gets its value.

import type { HeldEntry } from '../entry/entry.ts'
import { readPromise } from '../entry/parsed-value.ts'
import { optionError } from '../errors.ts'
import { purgeKey } from '../flight/hints.ts'
import { countRead, dropUnreadable, readWithoutLease } from '../flight/lookup-or-lease.ts'
import type { Resolution } from '../flight/resolution.ts'
import { resolve } from '../flight/resolve.ts'
import type { Runtime } from '../flight/runtime.ts'
import { traceHit } from '../flight/traced-lookup.ts'
import { freshCopy } from '../l1/validity.ts'
import { dataKey } from '../ports/key.ts'
import { lookupTracing } from '../tracing.ts'
import { Call, parseHeld } from './call.ts'
import type { Factory } from './factory-context.ts'
import { type Plan, WHERE } from './get-or-set-options.ts'
import { RecentKeys } from './recent-keys.ts'
import type { Serializer } from './value.ts'

/** The stored value, also within its stale window. Undefined if there is none. Runs no factory. */
export async function get<T>(
  rt: Runtime,
  key: string,
  serializer?: Serializer,
): Promise<T | undefined> {
  checkKey(key)
  try {
    const found = await readWithoutLease(rt, dataKey(key))
    if (found === undefined) return undefined
    const parsed = parseHeld<T>(rt, key, found.held, serializer)
    if (parsed !== undefined) countRead(rt, dataKey(key), found)
    return parsed?.value
  } catch (error) {
    // An unavailable store counts as a miss, as for getOrSet.
    rt.events.emit({ type: 'store.failed', key: dataKey(key), operation: 'lookup', error })
    return undefined
  }
}

/** Purges one value in the whole fleet. */
export async function purgeData(rt: Runtime, key: string): Promise<void> {
  checkKey(key)
  await purgeKey(rt, dataKey(key), false)
}

const recentKeys = new RecentKeys('')

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
    checkCall(key, factory)
    const known = recent.nameOf(key)
    const internalKey = known ?? dataKey(recent.prefix + key)
    const held = plan.forceFresh ? undefined : freshCopy(rt, internalKey, rt.clock.now())
    if (held !== undefined) {
      if (known === undefined) recent.remember(key, internalKey)
      const { entry } = held
      if (serializer === undefined && entry.type === 'value' && entry.encoding === 'json') {
        countFreshHit(rt, internalKey, held)
        return readPromise(entry) as Promise<T>
      }
    }
    const call = new Call(rt, recent.prefix + key, factory, plan, serializer)
    if (held === undefined) return resolveCall(rt, internalKey, call, plan)
    const parsed = call.parseHeld(held)
    if (parsed !== undefined) {
      countFreshHit(rt, internalKey, held)
      return Promise.resolve(parsed.value)
    }
    return dropUnreadable(rt, internalKey, held).then(() =>
      resolveCall(rt, internalKey, call, plan),
    )
  } catch (error) {
    return Promise.reject(error)
  }
}

function countFreshHit(rt: Runtime, internalKey: string, held: HeldEntry): void {
  rt.events.hit(internalKey, 'l1', false)
  rt.counts.hit(held, false)
  if (lookupTracing.hasSubscribers) traceHit(internalKey)
}

async function resolveCall<T, P>(
  rt: Runtime,
  internalKey: string,
  call: Call<T, P>,
  plan: Plan,
): Promise<T> {
  // Without this purge in the whole fleet, the call could get the value of an earlier fill.
  if (plan.forceFresh) await purgeKey(rt, internalKey, false)
  for (let attempt = 0; attempt < MOST_ATTEMPTS; attempt++) {
    if (rt.flights.has(internalKey)) call.captureContext()
    const promised = resolve(rt, internalKey, plan, call)
    const resolution = promised instanceof Promise ? await promised : promised
    if (resolution.type !== 'hit' && resolution.type !== 'late') return call.valueFrom(resolution)
    const held = resolution.type === 'hit' ? resolution.held : resolution.previous
    const parsed = call.parseHeld(held)
    if (parsed !== undefined) {
      countServed(rt, internalKey, resolution)
      return parsed.value
    }
    await dropUnreadable(rt, internalKey, held)
  }
  return call.runAlone()
}

function countServed(
  rt: Runtime,
  internalKey: string,
  resolution: Extract<Resolution, { type: 'hit' | 'late' }>,
): void {
  if (resolution.type === 'late') {
    rt.counts.servedStale(resolution.why, resolution.previous)
    return
  }
  const { held, stale, from } = resolution
  if (from === 'fill') {
    rt.counts.miss(rt.counts.of(internalKey, held.entry))
    return
  }
  rt.events.hit(internalKey, from, stale)
  rt.counts.hit(held, stale)
}

/**
 * Limit of lookups of one call. If the serializer cannot parse any of the values found, the call
 * runs the factory for its caller only.
 */
const MOST_ATTEMPTS = 3

function checkCall(key: unknown, factory: unknown): void {
  checkKey(key)
  if (typeof factory !== 'function') {
    throw optionError(`${WHERE}: factory`, factory, 'use a function that returns the value')
  }
}

export function checkKey(key: unknown): void {
  if (typeof key !== 'string' || key === '') {
    throw optionError(`${WHERE}: key`, key, 'use a non-empty string')
  }
}
