// The options of createStampede: their types, defaults and checks.

import { optionError } from './errors.ts'
import type { IdempotencyConfig } from './idempotency/idempotency-runtime.ts'
import type { L1Limits } from './l1/l1.ts'
import { memoryStore } from './memory/memory-store.ts'
import {
  bytes,
  callback,
  checkNames,
  durationMs,
  number,
  type Reader,
  readOptions,
} from './options.ts'
import { type Clock, systemClock } from './ports/clock.ts'
import type { StampedeStore } from './ports/store.ts'

export interface StampedeOptions {
  /** The shared tier. Default `memoryStore()`: everything in this process, nothing to install. */
  store?: StampedeStore
  /**
   * Bounds of the in-process tier. Default 64 MiB, 10 000 entries, 1 MiB an entry. A memory store
   * is the in-process tier itself, and is bounded by its own `maxBytes`.
   */
  l1?: { maxBytes?: number; maxEntries?: number; maxEntryBytes?: number }
  /**
   * After a response that cannot be shared, requests of its key do not wait for each other for this
   * long. Default 10 000.
   */
  passMs?: number
  /** How long a failure that somebody waited for is shared before the origin is tried again. Default 1 000. */
  failureBackoffMs?: number
  /**
   * How many runs of the origin that no lease stands for this process has under way at most: while the store is away, or after `waitMs`.
   * Whoever finds them all taken waits for one to end, within its `waitMs`. Default 64.
   */
  originConcurrency?: number
  /**
   * `secret` hashes keys, scopes and requests, so that nobody can guess them from what is stored; `encryptionKeys` seal the
   * stored answers, the first one for new ones. Strings of 32 characters or more; the same in every process. Default: none.
   */
  idempotency?: { secret?: string; encryptionKeys?: readonly string[] }
  /** For tests: a clock that can be moved by hand. */
  clock?: Clock
  /** For tests: a source of numbers from 0 to 1. */
  random?: () => number
}

/** `StampedeOptions`, checked and with every default filled in. */
export interface StampedeConfig {
  readonly store: StampedeStore
  readonly l1: L1Limits
  readonly passMs: number
  readonly failureBackoffMs: number
  readonly originConcurrency: number
  readonly idempotency: IdempotencyConfig
  readonly clock: Clock
  readonly random: () => number
}

const MIB = 1024 * 1024
const L1: Readonly<Record<keyof L1Limits, Reader<number>>> = {
  maxBytes: bytes(64 * MIB),
  maxEntries: number(10_000, { min: 0, max: 10_000_000, unit: 'entries' }),
  maxEntryBytes: bytes(MIB),
}
const OPTIONS = {
  store: readStore,
  l1: (where: string, value: unknown) => readOptions(where, value, L1),
  passMs: durationMs(10_000),
  failureBackoffMs: durationMs(1_000),
  originConcurrency: number(64, { min: 1, max: 1_000_000, unit: 'runs at a time' }),
  idempotency: readIdempotency,
  clock: readClock,
  random: callback<() => number>(),
} satisfies Record<keyof StampedeOptions, Reader>

/** Throws `ERR_STAMPEDE_OPTION`. */
export function readStampedeOptions(options?: StampedeOptions): StampedeConfig {
  const { random = Math.random, ...read } = readOptions('createStampede', options, OPTIONS)
  return { ...read, random }
}

function readIdempotency(where: string, value: unknown): IdempotencyConfig {
  if (value === undefined) return { secret: '', encryptionKeys: [] }
  if (typeof value !== 'object' || value === null) throw secretError(where)
  // No message may show a secret, also not one under a mistyped name.
  checkNames(where, Object.fromEntries(Object.keys(value).map((name) => [name, HIDDEN])), SECRETS)
  const { secret = '', encryptionKeys: keys = [] } = value as Record<string, unknown>
  // Also undefined: a variable that is not set in one process of a fleet would give it other keys.
  if ('secret' in value && !isSecret(secret)) throw secretError(`${where}.secret`)
  if (!Array.isArray(keys) || !keys.every(isSecret)) throw secretError(`${where}.encryptionKeys`)
  return { secret: String(secret), encryptionKeys: [...keys] }
}

const SECRETS: ReadonlyArray<keyof IdempotencyConfig> = ['secret', 'encryptionKeys']
const HIDDEN = '(hidden)'
const isSecret = (value: unknown): boolean => typeof value === 'string' && value.length >= 32

/** Does not show what was received. */
function secretError(where: string): Error {
  return optionError(
    where,
    HIDDEN,
    "pass { secret: '…', encryptionKeys: ['…'] }, each with 32 characters or more, for example from `openssl rand -hex 32`",
  )
}

function readClock(where: string, value: unknown): Clock {
  if (value === undefined) return systemClock
  if (has(value, ['now', 'wallNow', 'setTimer'])) return value as Clock
  throw optionError(where, value, 'pass an object with now, wallNow and setTimer')
}

/** Does it have these methods? */
function has(value: unknown, methods: readonly string[]): boolean {
  if (typeof value !== 'object' || value === null) return false
  return methods.every((name) => typeof (value as Record<string, unknown>)[name] === 'function')
}

function readStore(where: string, value: unknown): StampedeStore {
  if (value === undefined) return memoryStore()
  const methods = ['attach', 'lookup', 'commit', 'pass', 'fail', 'renew', 'purge', 'mark', 'close']
  if (has(value, methods)) return value as StampedeStore
  throw optionError(where, value, 'pass memoryStore() or redisStore(redis)')
}
