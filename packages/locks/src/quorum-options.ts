// The options of quorum locks: types, defaults, checks.

import {
  type Clock,
  checkNames,
  type LockStore,
  optionError,
  readDurationMs,
  readNumber,
  systemClock,
} from '@stampede/core/store'

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

export interface QuorumConfig {
  readonly nodes: readonly LockStore[]
  readonly quorum: number
  readonly prefix: string
  readonly leaseMs: number
  readonly waitMs: number
  readonly nodeTimeoutMs: number | undefined
  readonly retryDelayMs: number
  readonly clock: Clock
  readonly random: () => number
}

const NAMES = [
  'prefix',
  'leaseMs',
  'waitMs',
  'nodeTimeoutMs',
  'retryDelayMs',
  'clock',
  'random',
] as const

export function readQuorumOptions(
  stores: ReadonlyArray<{ readonly locks: LockStore }>,
  options: QuorumOptions | undefined,
): QuorumConfig {
  const where = 'createQuorumLocks'
  if (!Array.isArray(stores) || stores.length < 1 || stores.some((store) => !store?.locks)) {
    throw optionError(
      `${where}: stores`,
      stores,
      'pass an array of stores, one per independent master',
    )
  }
  const bag = checkNames(where, options, NAMES)
  const prefix = bag.prefix ?? ''
  if (typeof prefix !== 'string') throw optionError(`${where}.prefix`, prefix, 'use a string')
  const timeout = { min: 1, max: 60_000, unit: 'milliseconds' }
  return {
    nodes: stores.map((store) => store.locks),
    quorum: Math.floor(stores.length / 2) + 1,
    prefix,
    leaseMs: readDurationMs(where, bag, 'leaseMs', 50) ?? 10_000,
    waitMs: readDurationMs(where, bag, 'waitMs') ?? 30_000,
    nodeTimeoutMs: readNumber(where, bag, 'nodeTimeoutMs', timeout),
    retryDelayMs: readDurationMs(where, bag, 'retryDelayMs') ?? 200,
    clock: (bag.clock as Clock | undefined) ?? systemClock,
    random: (bag.random as (() => number) | undefined) ?? Math.random,
  }
}
