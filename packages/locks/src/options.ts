// The options of locks: types, defaults, checks.

import {
  type Clock,
  checkNames,
  type LockStore,
  optionError,
  readChoice,
  readDurationMs,
  readNumber,
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

export interface QuorumOptions {
  prefix?: string
  /** Default 10 000. */
  leaseMs?: number
  /** Default 30 000. */
  waitMs?: number
  /** Longest wait for one node. Default a hundredth of the lease, at least 5 and at most 50. */
  nodeTimeoutMs?: number
  /** Longest pause before the next attempt; the pause is random. Default 200. */
  retryDelayMs?: number
  /** For tests. */
  clock?: Clock
  random?: () => number
}

/** Of one store or of many. */
interface CommonConfig {
  readonly prefix: string
  readonly leaseMs: number
  readonly waitMs: number
  readonly clock: Clock
  readonly random: () => number
}

export interface LocksConfig extends CommonConfig {
  readonly store: LockStore
  readonly maxHoldMs: number
  readonly wait: 'push' | 'poll'
}

export interface QuorumConfig extends CommonConfig {
  readonly nodes: readonly LockStore[]
  readonly quorum: number
  readonly nodeTimeoutMs: number | undefined
  readonly retryDelayMs: number
}

type Bag = Readonly<Record<string, unknown>>

const COMMON = ['prefix', 'leaseMs', 'waitMs', 'clock', 'random']
/** Shorter leases end before a renewal can come back. */
const SHORTEST_LEASE_MS = 50

function readCommon(where: string, bag: Bag): CommonConfig {
  const prefix = bag.prefix ?? ''
  if (typeof prefix !== 'string') {
    throw optionError(`${where}.prefix`, prefix, "use a string such as 'jobs:'")
  }
  return {
    prefix,
    leaseMs: readDurationMs(where, bag, 'leaseMs', SHORTEST_LEASE_MS) ?? 10_000,
    waitMs: readWaitMs(where, bag) ?? 30_000,
    clock: (bag.clock as Clock | undefined) ?? systemClock,
    random: (bag.random as (() => number) | undefined) ?? Math.random,
  }
}

export function readLocksOptions(options: LocksOptions): LocksConfig {
  const where = 'createLocks'
  const bag = checkNames(where, options, [...COMMON, 'store', 'maxHoldMs', 'wait'])
  const store = (bag.store as LocksOptions['store'] | undefined)?.locks
  if (typeof store?.acquire !== 'function') {
    throw optionError(`${where}.store`, bag.store, 'pass redisStore(redis) or memoryStore()')
  }
  return {
    ...readCommon(where, bag),
    store,
    maxHoldMs: readDurationMs(where, bag, 'maxHoldMs', 1) ?? 300_000,
    wait: readChoice(where, bag, 'wait', ['push', 'poll']) ?? 'push',
  }
}

export function readQuorumOptions(
  stores: ReadonlyArray<{ readonly locks: LockStore }>,
  options: QuorumOptions | undefined,
): QuorumConfig {
  const where = 'createQuorumLocks'
  if (!Array.isArray(stores) || stores.length < 1 || stores.some((store) => !store?.locks)) {
    const fix = 'pass an array of stores, one per independent master'
    throw optionError(`${where}: stores`, stores, fix)
  }
  const bag = checkNames(where, options, [...COMMON, 'nodeTimeoutMs', 'retryDelayMs'])
  const timeout = { min: 1, max: 60_000, unit: 'milliseconds' }
  return {
    ...readCommon(where, bag),
    nodes: stores.map((store) => store.locks),
    quorum: Math.floor(stores.length / 2) + 1,
    nodeTimeoutMs: readNumber(where, bag, 'nodeTimeoutMs', timeout),
    retryDelayMs: readDurationMs(where, bag, 'retryDelayMs') ?? 200,
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

function readWaitMs(where: string, bag: Bag): number | undefined {
  return bag.waitMs === Number.POSITIVE_INFINITY ? bag.waitMs : readDurationMs(where, bag, 'waitMs')
}
