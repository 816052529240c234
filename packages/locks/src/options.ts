// The options of locks: types, defaults, checks.

import {
  type Clock,
  checkNames,
  type LockStore,
  optionError,
  readChoice,
  readDurationMs,
  systemClock,
} from '@stampede/core/store'
import type { Lease } from './lease.ts'

export interface LocksOptions {
  /** `redisStore(redis)` or `memoryStore()`; may be the one that a Stampede caches in. */
  store: { readonly locks: LockStore }
  /** Put before every key. Default none. */
  prefix?: string
  /** Default lease of each lock. Default 10 000. */
  leaseMs?: number
  /** Default wait of each acquire. Default 30 000. */
  waitMs?: number
  /** Renewal stops after this; the lease then ends. Default 300 000. */
  maxHoldMs?: number
  /** `push` (default): FIFO, handed over by the release itself. `poll`: for servers without Pub/Sub rights. */
  wait?: 'push' | 'poll'
  /** For tests. */
  clock?: Clock
  random?: () => number
}

export interface AcquireOptions {
  /** How long the lock is held without a sign of life; renewed at a third of it. */
  leaseMs?: number
  /** How long to wait for it. 0: not at all. `Infinity`: until it comes. */
  waitMs?: number
  /** Ends the wait. */
  signal?: AbortSignal
  /** Re-entry: a lease of the same key that the caller holds. */
  within?: Lease
}

export interface LocksConfig {
  readonly store: LockStore
  readonly prefix: string
  readonly leaseMs: number
  readonly waitMs: number
  readonly maxHoldMs: number
  readonly wait: 'push' | 'poll'
  readonly clock: Clock
  readonly random: () => number
}

const NAMES = [
  'store',
  'prefix',
  'leaseMs',
  'waitMs',
  'maxHoldMs',
  'wait',
  'clock',
  'random',
] as const

/** Shorter leases end before a renewal can come back. */
const SHORTEST_LEASE_MS = 50

export function readLocksOptions(options: LocksOptions): LocksConfig {
  const where = 'createLocks'
  const bag = checkNames(where, options, NAMES)
  const store = (bag.store as LocksOptions['store'] | undefined)?.locks
  if (typeof store?.acquire !== 'function') {
    throw optionError(`${where}.store`, bag.store, 'pass redisStore(redis) or memoryStore()')
  }
  const prefix = bag.prefix ?? ''
  if (typeof prefix !== 'string') {
    throw optionError(`${where}.prefix`, prefix, "use a string such as 'jobs:'")
  }
  return {
    store,
    prefix,
    leaseMs: readDurationMs(where, bag, 'leaseMs', SHORTEST_LEASE_MS) ?? 10_000,
    waitMs: readWaitMs(where, bag) ?? 30_000,
    maxHoldMs: readDurationMs(where, bag, 'maxHoldMs', 1) ?? 300_000,
    wait: readChoice(where, bag, 'wait', ['push', 'poll']) ?? 'push',
    clock: (bag.clock as Clock | undefined) ?? systemClock,
    random: (bag.random as (() => number) | undefined) ?? Math.random,
  }
}

export interface AcquirePlan {
  readonly leaseMs: number
  readonly waitMs: number
  readonly signal: AbortSignal | undefined
  readonly within: Lease | undefined
}

export function readAcquireOptions(
  where: string,
  key: unknown,
  options: AcquireOptions | undefined,
  defaults: { readonly leaseMs: number; readonly waitMs: number },
): AcquirePlan {
  if (typeof key !== 'string' || key === '') {
    throw optionError(`${where}: key`, key, 'use a non-empty string')
  }
  const names = where === 'tryAcquire' ? ['leaseMs'] : ['leaseMs', 'waitMs', 'signal', 'within']
  const bag = checkNames(where, options, names)
  const { signal } = bag
  if (signal !== undefined && !(signal instanceof AbortSignal)) {
    throw optionError(`${where}.signal`, signal, 'pass an AbortSignal')
  }
  return {
    leaseMs: readDurationMs(where, bag, 'leaseMs', SHORTEST_LEASE_MS) ?? defaults.leaseMs,
    waitMs: readWaitMs(where, bag) ?? defaults.waitMs,
    signal,
    within: bag.within as Lease | undefined,
  }
}

function readWaitMs(where: string, bag: Readonly<Record<string, unknown>>): number | undefined {
  return bag.waitMs === Number.POSITIVE_INFINITY ? bag.waitMs : readDurationMs(where, bag, 'waitMs')
}
