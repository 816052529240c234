// The options of createStampede with their types, defaults and checks.

import { optionError } from './errors.ts'
import { callSafely } from './events.ts'
import type { IdempotencyConfig, IdempotencyStoreOwner } from './idempotency/runtime.ts'
import type { L1Limits } from './l1/l1.ts'
import { isMemoryStore, memoryStore } from './memory/memory-store.ts'
import {
  bytes,
  callback,
  checkNames,
  type Defined,
  durationMs,
  number,
  type Reader,
  readOptions,
} from './options.ts'
import { type Clock, systemClock } from './ports/clock.ts'
import type { MemoryStore, StampedeStore } from './ports/store.ts'

/** Options of `createStampede`. All durations are in ms. */
export interface StampedeOptions {
  /** The store that all processes share. Default `memoryStore()`, for one process. */
  store?: StampedeStore | MemoryStore | undefined
  /**
   * Bounds of the memory for entries in this process (L1). Default 64 MiB, 10 000 entries, and 1
   * MiB per entry. Without a store that processes share, L1 is the cache itself. Then `maxEntries`
   * and `maxEntryBytes` have no default, and no bound may be 0.
   */
  l1?:
    | {
        maxBytes?: number | undefined
        maxEntries?: number | undefined
        maxEntryBytes?: number | undefined
      }
    | undefined
  /**
   * How long the failure of a run is shared. It is shared only if other requests waited for that
   * run. Default 1 000.
   */
  failureBackoffMs?: number | undefined
  /**
   * Limit of simultaneous runs of the origin without a lease in this process. Such runs happen
   * while the store is unavailable and after `waitMs`. Further requests wait for a slot, within
   * their `waitMs`. Default 64.
   */
  originConcurrency?: number | undefined
  /**
   * Secrets and the store for idempotency keys. `secret` is the HMAC key for hashes of keys, scopes
   * and requests, so that a reader of the store cannot guess them. `encryptionKeys` encrypt the
   * stored responses. The first one encrypts new responses. Each secret is a string of at least 32
   * characters, the same in all processes. Default: none, also with a `store`. Then a reader of the
   * store can guess short keys. `store` keeps the records of idempotency keys, for example
   * `postgresStore(pool)`. Default: `store` of the Stampede.
   */
  idempotency?:
    | {
        secret?: string
        encryptionKeys?: readonly string[] | undefined
        store?: IdempotencyStoreOwner | undefined
      }
    | undefined
  /**
   * Gets the promise of each task that may go on after its response: lookups with their fills,
   * commits and refreshes, and purges by unsafe requests. The promises never reject. For platforms
   * that freeze the process after a response, for example `waitUntil` of `@vercel/functions`. It is
   * called in the async context of the request that starts the task. Default: none.
   */
  waitUntil?: ((promise: Promise<unknown>) => void) | undefined
  /** A clock for tests, such as `ManualClock`. Default: the clock of the process. */
  clock?: Clock | undefined
}

/** `StampedeOptions` after the checks, with all defaults. */
export interface StampedeConfig
  extends Defined<Omit<StampedeOptions, 'l1' | 'idempotency' | 'waitUntil'>> {
  readonly l1: L1Limits
  readonly idempotency: IdempotencyConfig
  readonly waitUntil: StampedeOptions['waitUntil']
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
  failureBackoffMs: durationMs(1_000),
  originConcurrency: number(64, { min: 1, max: 1_000_000, unit: 'runs at a time' }),
  idempotency: readIdempotency,
  waitUntil: callback<(promise: Promise<unknown>) => void>(),
  clock: readClock,
} satisfies Record<keyof StampedeOptions, Reader>

/** Checks the options and adds the defaults. Throws `ERR_STAMPEDE_OPTION`. */
export function readStampedeOptions(options?: StampedeOptions): StampedeConfig {
  if (isStore(options)) {
    throw optionError('createStampede', options, 'pass the store among the options: { store }')
  }
  const { waitUntil, ...read } = readOptions('createStampede', options, OPTIONS)
  const isAlone = isMemoryStore(read.store)
  const l1 = isAlone ? limitsOfOnlyTier(read.l1, options?.l1) : read.l1
  const random = read.clock.random?.bind(read.clock) ?? Math.random
  const safely = waitUntil && ((task: Promise<unknown>) => callSafely(waitUntil, task))
  return { ...read, l1, random, waitUntil: safely }
}

function readIdempotency(where: string, value: unknown): IdempotencyConfig {
  if (value === undefined) return { secret: '', encryptionKeys: [] }
  if (typeof value !== 'object' || value === null) throw secretError(where)
  // The values are hidden first, because an error about a mistyped name would otherwise show a
  // secret.
  checkNames(where, Object.fromEntries(Object.keys(value).map((name) => [name, HIDDEN])), NAMES)
  const { secret = '', encryptionKeys: keys = [], store } = value as Record<string, unknown>
  // An explicit `undefined` is an error too. It comes from an environment variable that is not set,
  // and this process would then use other keys than the rest of the fleet.
  if ('secret' in value && !isSecret(secret)) throw secretError(`${where}.secret`)
  if (!Array.isArray(keys) || !keys.every(isSecret)) throw secretError(`${where}.encryptionKeys`)
  const isStore = store === undefined || has(Object(store).idempotency, ['begin', 'finish'])
  if (!isStore) throw optionError(`${where}.store`, store, 'pass postgresStore(pool)')
  const owner = store as IdempotencyStoreOwner | undefined
  return { secret: String(secret), encryptionKeys: [...keys], store: owner }
}

const NAMES: ReadonlyArray<keyof IdempotencyConfig> = ['secret', 'encryptionKeys', 'store']
const HIDDEN = '(hidden)'
const isSecret = (value: unknown): boolean => typeof value === 'string' && value.length >= 32

/** An error that does not contain the received value. */
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

const RECORDS: ReadonlyArray<keyof StampedeStore> = ['lookup', 'commit', 'pass', 'fail', 'renew']
const STORE: ReadonlyArray<keyof StampedeStore> = ['attach', 'purge', 'mark', 'close', ...RECORDS]

function has(value: unknown, methods: readonly string[]): boolean {
  if (typeof value !== 'object' || value === null) return false
  return methods.every((name) => typeof (value as Record<string, unknown>)[name] === 'function')
}

/** Whether the store has entries. Without them, L1 is the cache. */
export function hasRecords(store: StampedeStore | MemoryStore): store is StampedeStore {
  return 'lookup' in store
}

const isStore = (value: unknown): value is StampedeStore | MemoryStore =>
  isMemoryStore(value) || has(value, STORE)

function readStore(where: string, value: unknown): StampedeStore | MemoryStore {
  if (value === undefined) return memoryStore()
  if (isStore(value)) return value
  const records = 'a postgresStore(pool) belongs in idempotency: { store, secret }'
  throw optionError(where, value, `pass memoryStore() or redisStore(redis); ${records}`)
}

/** Without a store that processes share, L1 is the cache. Only `maxBytes` has a default. */
function limitsOfOnlyTier(limits: L1Limits, set: StampedeOptions['l1']): L1Limits {
  for (const name of ['maxBytes', 'maxEntries', 'maxEntryBytes'] as const) {
    if (set?.[name] !== 0) continue
    const fix = 'without a store that processes share, L1 is the cache; pass a store, or remove it'
    throw optionError(`createStampede.l1.${name}`, 0, fix)
  }
  const { maxBytes } = limits
  const { maxEntries = Number.POSITIVE_INFINITY, maxEntryBytes = maxBytes } = set ?? {}
  return { maxBytes, maxEntries, maxEntryBytes: Math.min(maxEntryBytes, maxBytes) }
}
