// The options of idempotency() and stampede.idempotent() with their types, defaults and checks.

import { optionError } from '../errors.ts'
import type { FingerprintMode } from '../http/fingerprint.ts'
import {
  bytes,
  checkNames,
  choice,
  type Defined,
  durationMs,
  flag,
  nearest,
  type Reader,
  readOptions,
  readStrings,
  unchecked,
} from '../options.ts'
import type {
  AttemptTransaction,
  IdempotencyStore,
  TransactionRules,
  TransactionRunner,
} from '../ports/idempotency-store.ts'

/** Options that requests and jobs have in common. All durations are in ms. */
export interface AttemptRules {
  /**
   * How long an attempt blocks others after its last renewal. A live process renews its lease. An
   * attempt that takes longer than 20 leases, and longer than 600 000 ms, loses it. Default 30 000.
   */
  leaseMs?: number | undefined
  /**
   * How long a result is kept. After this time, a repeat runs the handler again, so document the
   * time for your clients. Default 86 400 000 (a day).
   */
  retentionMs?: number | undefined
  /**
   * While an attempt runs, `reject` sends a 409 to a repeat. `wait` lets the repeat wait for the
   * result, for at most 10 000 ms or `waitMs`, and with at most 100 waiters per key and process.
   * Default `reject`.
   */
  onBusy?: 'reject' | 'wait' | { waitMs: number } | undefined
  /**
   * After the lease of an attempt expired: with `takeover`, the next request or call runs the
   * handler or job. After three expired leases in a row, the key is uncertain all the same. With
   * `uncertain`, repeats get a 409 until an operator settles the key. Default `takeover`.
   */
  onLeaseExpired?: 'takeover' | 'uncertain' | undefined
  /**
   * Runs the handler in a transaction that commits together with the stored result, so its writes
   * take effect exactly once. The handler writes with `attempt.tx`. `true`, or `{ isolation, runner
   * }`: the isolation level, by default that of the database, and the runner of an ORM. A runner
   * alone is possible, too. The store must support it, as `postgresStore` does. `leaseMs`,
   * `onLeaseExpired` and `onStoreError: 'proceed'` are errors then, since there is no lease.
   * Default false.
   */
  transaction?: boolean | TransactionRules<AnyTx> | TransactionRunner<AnyTx> | undefined
}

// biome-ignore lint/suspicious/noExplicitAny: each ORM has another type.
type AnyTx = any

/** The type of `attempt.tx` for an option `transaction`. */
export type TxOf<T> =
  T extends TransactionRunner<infer Tx>
    ? Tx
    : T extends { runner: TransactionRunner<infer Tx> }
      ? Tx
      : T extends true | object
        ? AttemptTransaction
        : never

/** A response that an operator gives instead of the handler. */
export interface GivenAnswer {
  /** Status from 200 to 599. Default 200. */
  status?: number | undefined
  /** Header fields. Default: only a Content-Type for the body. */
  headers?: Readonly<Record<string, string>> | undefined
  /** Text, bytes, or a value that is sent as JSON. Default: no body. */
  body?: unknown
}

/** Options of `idempotency` except `stampede`. */
export interface IdempotencyRules<Native = unknown> extends AttemptRules {
  /**
   * Returns the owner of the keys, such as the id of the user. The owner must be the same for each
   * repeat of a request. Equal keys of two scopes are two keys. The request fails if `scope`
   * throws, or returns something other than a non-empty string or a number.
   */
  scope: (request: Native) => string | number | bigint | Promise<string | number | bigint>
  /**
   * Whether a request without a key gets a 400. If not, such a request runs without protection.
   * Default true.
   */
  required?: boolean | ((request: Native) => boolean) | undefined
  /**
   * Methods whose requests are protected. Requests with other methods go to the handler unchanged.
   * Default POST and PATCH.
   */
  methods?: readonly string[] | undefined
  /**
   * Names of the request field with the key, in any of which a client may send it. Document the
   * first name for your clients. Default `Idempotency-Key`.
   */
  headers?: readonly string[] | undefined
  /**
   * Whether a key must be a quoted string, as in the IETF draft of `Idempotency-Key`. Default
   * false: a key may be unquoted.
   */
  strict?: boolean | undefined
  /**
   * While the store is unavailable: `reject` with a 503, or `proceed` unprotected. Default
   * `reject`.
   */
  onStoreError?: 'reject' | 'proceed' | undefined
  /**
   * How a repeat is compared with the first request, by method, path, query, media type and body.
   * `bytes` compares the bytes of the body, `canonical` its meaning as JSON or form. A function
   * returns a value that replaces query, media type and body. Default `canonical`.
   */
  fingerprint?: FingerprintMode | ((request: Native) => unknown) | undefined
  /**
   * Largest body, in bytes. A larger request gets a 413. A larger response is sent, and stored
   * without its body. Default 1 MiB. In Redis, a response is stored with at most 4 MiB.
   */
  maxBodyBytes?: number | undefined
  /** URL of your documentation, for `type` and `Link` of problem documents. Default: none. */
  docsUrl?: string | undefined
}

/** The checked options for the attempts of a key. */
export interface AttemptPolicy extends Defined<Omit<AttemptRules, 'onBusy' | 'transaction'>> {
  /** Set if attempts run in a transaction. */
  readonly transaction: TransactionRules | undefined
  /** How long a repeat waits for a running attempt. 0: it does not wait. */
  readonly waitMs: number
  /** Largest response body to store. */
  readonly maxBodyBytes: number
}

type Converted = 'required' | 'methods' | 'headers' | 'docsUrl' | keyof AttemptRules

/** The checked options of `idempotency`. */
export interface IdempotencyRuleSet
  extends AttemptPolicy,
    Defined<Omit<IdempotencyRules, Converted>> {
  readonly required: (request: unknown) => boolean
  readonly methods: ReadonlySet<string>
  /** Names in lower case. */
  readonly headers: readonly string[]
  readonly docsUrl: string | undefined
}

const WHERE = 'idempotency'
const MIB = 1024 * 1024

const ATTEMPTS = {
  leaseMs: durationMs(30_000, 100),
  retentionMs: durationMs(86_400_000, 1_000),
  onBusy: readOnBusy,
  onLeaseExpired: choice('takeover', 'uncertain'),
  transaction: readTransaction,
} satisfies Record<keyof AttemptRules, Reader>
const JOB = { ...ATTEMPTS, scope: unchecked(), input: unchecked() }
const OPTIONS = {
  ...ATTEMPTS,
  stampede: unchecked(),
  scope: readScope,
  required: readRequired,
  methods: readMethods,
  headers: readHeaders,
  strict: flag(false),
  onStoreError: choice('reject', 'proceed'),
  fingerprint: readFingerprint,
  maxBodyBytes: bytes(MIB),
  docsUrl: readDocsUrl,
} satisfies Record<keyof IdempotencyRules | 'stampede', Reader>

/** Checks the options of `idempotency`. Throws `ERR_STAMPEDE_OPTION`. */
export function readIdempotencyOptions(options: unknown): IdempotencyRuleSet {
  const { onBusy: waitMs, ...read } = readOptions(WHERE, options, OPTIONS)
  if (read.transaction !== undefined) refuseLeaseOptions(WHERE, options as object)
  return Object.freeze({ ...read, waitMs })
}

export interface JobRules extends AttemptPolicy {
  readonly scope: unknown
  readonly input: unknown
}

/** Checks the options of `stampede.idempotent`. Throws `ERR_STAMPEDE_OPTION`. */
export function readJobOptions(where: string, options: unknown): JobRules {
  const { onBusy: waitMs, ...read } = readOptions(where, options, JOB)
  if (read.transaction !== undefined) refuseLeaseOptions(where, options as object)
  return { ...read, waitMs, maxBodyBytes: Infinity }
}

function readTransaction(where: string, value: unknown = false): TransactionRules | undefined {
  if (typeof value === 'boolean') return value ? {} : undefined
  if (isRunner(value)) return { runner: value }
  // An instance of a class is the client of an ORM or driver, or a string.
  if ((Object(value).constructor ?? Object) !== Object) throw optionError(where, value, RULES)
  const { isolation, runner } = checkNames(where, value, ['isolation', 'runner'])
  if (isolation !== undefined) ISOLATION(`${where}.isolation`, isolation)
  if (runner === undefined || isRunner(runner)) return value as TransactionRules
  throw optionError(`${where}.runner`, runner, 'pass an object with begin and query')
}

const RULES = 'pass true, { isolation }, or a runner, such as fromDrizzle(db, sql)'
const ISOLATION = choice('read committed', 'repeatable read', 'serializable')

function isRunner(value: unknown): value is TransactionRunner {
  const { begin, query } = Object(value)
  return typeof begin === 'function' && typeof query === 'function'
}

/** An attempt in a transaction leaves nothing behind that could expire. */
function refuseLeaseOptions(
  where: string,
  options: AttemptRules & { onStoreError?: string },
): void {
  for (const name of ['leaseMs', 'onLeaseExpired'] as const) {
    const fix = 'remove it, because an attempt in a transaction has no lease'
    if (options[name] !== undefined) throw optionError(`${where}.${name}`, options[name], fix)
  }
  const { onStoreError } = options
  const fix = "use 'reject', because there is no transaction without the store"
  if (onStoreError === 'proceed') throw optionError(`${where}.onStoreError`, onStoreError, fix)
}

/** Throws unless the store supports the option `transaction`, or the option is not set. */
export function checkTransactions(
  where: string,
  { transaction }: Pick<AttemptPolicy, 'transaction'>,
  store: IdempotencyStore,
): void {
  if (transaction === undefined || store.transactions === true) return
  const fix = 'createStampede({ idempotency: { store: postgresStore(pool) } })'
  const given = Object.keys(transaction).length === 0 ? true : transaction
  throw optionError(`${where}.transaction`, given, `pass a store with transactions: ${fix}`)
}

const ON_BUSY = choice('reject', 'wait')
const WAITING = { waitMs: durationMs(10_000) }

/** How long a repeat waits. */
function readOnBusy(where: string, value: unknown): number {
  const isObject = typeof value === 'object' && value !== null
  if (!isObject && ON_BUSY(where, value) === 'reject') return 0
  return readOptions(where, isObject ? value : {}, WAITING).waitMs
}

function readScope(where: string, value: unknown): IdempotencyRules['scope'] {
  if (typeof value === 'function') return value as IdempotencyRules['scope']
  const example = 'idempotency({ scope: (req) => req.user.id })'
  const fix = `return the id of the caller, so that callers do not share keys: ${example}`
  throw optionError(where, value, fix)
}

function readRequired(where: string, value: unknown): IdempotencyRuleSet['required'] {
  if (typeof value === 'function') return value as IdempotencyRuleSet['required']
  if (value === undefined || typeof value === 'boolean') return () => value !== false
  throw optionError(where, value, 'use true, false or a function of the request')
}

/**
 * The request methods that Node parses. Core does not import node:http, so it has its own list.
 * Common methods come first. For a mistyped method, an error suggests the most similar name. If
 * several names are equally similar, it suggests the first of them.
 */
const METHODS: readonly string[] = [
  ...['POST', 'PATCH', 'PUT', 'DELETE', 'GET', 'HEAD', 'OPTIONS', 'TRACE', 'CONNECT', 'QUERY'],
  ...['ACL', 'BIND', 'CHECKOUT', 'COPY', 'LINK', 'LOCK', 'M-SEARCH', 'MERGE', 'MKACTIVITY'],
  ...['MKCALENDAR', 'MKCOL', 'MOVE', 'NOTIFY', 'PROPFIND', 'PROPPATCH', 'PURGE', 'REBIND'],
  ...['REPORT', 'SEARCH', 'SOURCE', 'SUBSCRIBE', 'UNBIND', 'UNLINK', 'UNLOCK', 'UNSUBSCRIBE'],
]

/**
 * Checks the names, because a mistyped method would leave the route unprotected without an error.
 */
function readMethods(where: string, value: unknown): ReadonlySet<string> {
  const names = readStrings(where, value ?? ['POST', 'PATCH'])
  if (names.length === 0) throw optionError(where, value, NAME_METHODS)
  for (const [i, name] of names.entries()) {
    if (METHODS.includes(name.toUpperCase())) continue
    const near = nearest(name, METHODS)
    const fix = near === undefined ? NAME_METHODS : `did you mean ${near}?`
    throw optionError(`${where}[${i}]`, name, `there is no such method; ${fix}`)
  }
  return new Set(names.map((name) => name.toUpperCase()))
}

const NAME_METHODS = "use method names: ['POST', 'PATCH']"

function readHeaders(where: string, value: unknown): readonly string[] {
  const names = readStrings(where, value ?? ['Idempotency-Key']).map((name) => name.toLowerCase())
  if (names.length > 0 && names.every((name) => /^[!#$%&'*+\-.^_`|~0-9a-z]+$/.test(name)))
    return names
  throw optionError(where, value, "use header names: ['Idempotency-Key']")
}

const MODE = choice<FingerprintMode>('canonical', 'bytes')

function readFingerprint(where: string, value: unknown): IdempotencyRuleSet['fingerprint'] {
  return typeof value === 'function' ? (value as () => unknown) : MODE(where, value)
}

function readDocsUrl(where: string, value: unknown): string | undefined {
  if (value === undefined) return undefined
  if (typeof value === 'string' && /^[\x21\x24-\x3b\x3d\x3f-\x7e]+$/.test(value)) return value
  const fix = "use a URL without a fragment: 'https://example.com/docs/idempotency'"
  throw optionError(where, value, fix)
}
