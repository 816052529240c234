// The options of locks: types, defaults, checks.

import {
  type Clock,
  type LockStore,
  optionError,
  readers,
  readOptions,
  systemClock,
  withTimeBudget,
} from '@stampede/core/store'
import type { Lease } from './lease.ts'

const { choice, durationMs, number } = readers

/** Options of `createLocks`. */
export interface LocksOptions {
  /**
   * `redisStore(redis)`, `postgresStore(pool)` or `memoryStore()`. A Stampede may use the same
   * store.
   */
  store: { readonly locks: LockStore; readonly hasTimeBudget?: boolean }
  /** Lease of each lock in ms, unless `acquire` has the option itself. Default 10 000. */
  leaseMs?: number | undefined
  /** Hold time in ms: after it, a lease is no longer renewed, and so ends. Default 300 000. */
  maxHoldMs?: number | undefined
  /**
   * `push` (default): waiters queue in the store, and a release grants the lock to the next one.
   * `poll`: for servers where Pub/Sub is forbidden.
   */
  wait?: 'push' | 'poll' | undefined
  /** A clock for tests, such as `ManualClock`. Default: the clock of the process. */
  clock?: Clock | undefined
}

/** Options of one `acquire` or `run`. */
export interface AcquireOptions {
  /**
   * The lease ends this many ms after its last renewal. A living process renews it each time a
   * third of this time has passed. Default: `leaseMs` of `createLocks`. For quorum locks 10 000.
   */
  leaseMs?: number | undefined
  /**
   * Longest wait in ms. 0: no wait. `Infinity`: no limit. Default 30 000.
   */
  waitMs?: number | undefined
  /** Ends the wait with `ERR_LOCK_ABORTED`. Default: none. */
  signal?: AbortSignal | undefined
  /**
   * The lease of the same key that the caller already holds. The new lease is nested in it.
   * Default: none.
   */
  within?: Lease | undefined
}

/** Options of `createQuorumLocks`. */
export interface QuorumOptions {
  /** Longest wait for one node in ms. Default: a hundredth of the lease, between 5 and 50. */
  nodeTimeoutMs?: number | undefined
}

/** Checked values that both kinds of locks have. */
interface CommonConfig {
  readonly leaseMs: number
  readonly clock: Clock
}

export interface LocksConfig extends CommonConfig {
  readonly store: LockStore
  readonly maxHoldMs: number
  readonly wait: 'push' | 'poll' | 'quorum'
}

export interface QuorumConfig extends CommonConfig {
  readonly nodes: readonly LockStore[]
  readonly quorum: number
  readonly nodeTimeoutMs: number | undefined
}

/** A shorter lease could end before the reply to its renewal. */
const SHORTEST_LEASE_MS = 50

/**
 * A lone surrogate has no form in UTF-8, so Redis would take two keys for one. NUL begins the
 * variant of a key.
 */
const NOT_IN_KEYS = /[\0\p{Surrogate}]/u

const DEFAULT_LEASE_MS = 10_000
const LOCKS = {
  leaseMs: durationMs(DEFAULT_LEASE_MS, SHORTEST_LEASE_MS),
  store(where: string, value: unknown): LocksOptions['store'] {
    const store = value as LocksOptions['store'] | undefined
    if (typeof store?.locks?.acquire === 'function') return store
    throw optionError(where, value, 'pass redisStore(redis), postgresStore(pool) or memoryStore()')
  },
  maxHoldMs: durationMs(300_000, 1),
  wait: choice('push', 'poll'),
  clock: (_where: string, value: unknown = systemClock) => value as Clock,
} satisfies Record<keyof LocksOptions, unknown>
const QUORUM = {
  nodeTimeoutMs: number(undefined, { min: 1, max: 60_000, unit: 'milliseconds' }),
} satisfies Record<keyof QuorumOptions, unknown>
/** Options that acquire has. */
const HINTS = new Map(
  ['leaseMs', 'waitMs'].map((name) => [name, `pass it to acquire or run: { ${name}: 20_000 }`]),
)
const readWaitMs = durationMs(30_000)
const ACQUIRE = {
  leaseMs: durationMs(undefined, SHORTEST_LEASE_MS),
  waitMs: (where: string, value: unknown) =>
    value === Number.POSITIVE_INFINITY ? value : readWaitMs(where, value),
  signal(where: string, value: unknown): AbortSignal | undefined {
    if (value === undefined || value instanceof AbortSignal) return value
    throw optionError(where, value, 'pass an AbortSignal')
  },
  within: (_where: string, value: unknown) => value as Lease | undefined,
} satisfies Record<keyof AcquireOptions, unknown>

const TRY_ACQUIRE = { leaseMs: ACQUIRE.leaseMs }

export function readLocksOptions(options: LocksOptions): LocksConfig {
  const { store, ...config } = readOptions('createLocks', options, LOCKS, HINTS)
  const { locks, hasTimeBudget } = store
  return { ...config, store: hasTimeBudget ? locks : withTimeBudget(locks, config.clock) }
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
  const nodes = stores.map((store) => store.locks)
  const quorum = Math.floor(stores.length / 2) + 1
  const read = readOptions(where, options, QUORUM, HINTS)
  return { leaseMs: DEFAULT_LEASE_MS, ...read, clock: systemClock, nodes, quorum }
}

/** A random number from 0 to 1. */
export const random = (clock: Clock): number => clock.random?.() ?? Math.random()

/** The checked options of one call. */
export interface AcquirePlan {
  readonly leaseMs: number
  readonly waitMs: number
  readonly signal?: AbortSignal | undefined
  readonly within?: Lease | undefined
}

export function readAcquireOptions(
  where: string,
  key: unknown,
  options: AcquireOptions | undefined,
  { leaseMs }: Pick<CommonConfig, 'leaseMs'>,
): AcquirePlan {
  if (typeof key !== 'string' || key === '' || NOT_IN_KEYS.test(key)) {
    const fix = 'use a non-empty string without NUL and lone surrogates'
    throw optionError(`${where}: key`, key, fix)
  }
  const read =
    where === 'tryAcquire'
      ? { ...readOptions(where, options, TRY_ACQUIRE), waitMs: 0 }
      : readOptions(where, options, ACQUIRE)
  return { ...read, leaseMs: read.leaseMs ?? leaseMs }
}
