// The options of idempotency() and of stampede.idempotent(): their types, defaults and checks.

import { optionError } from '../errors.ts'
import { METHODS } from '../http/methods.ts'
import {
  bytes,
  choice,
  durationMs,
  flag,
  nearest,
  number,
  type ReadBy,
  type Reader,
  readOptions,
  readStrings,
  unchecked,
} from '../options.ts'
import type { Attempt } from './attempt.ts'
import type { AttemptPolicy } from './claim.ts'
import type { FingerprintMode } from './fingerprint.ts'

/** What requests and jobs have in common. Durations are milliseconds. */
export interface AttemptRules {
  /** How long a silent attempt is trusted before another may begin; renewed while it lives. Default 30 000. */
  leaseMs?: number
  /** An attempt that takes longer loses its lease. Default 600 000. */
  maxHoldMs?: number
  /** How long a result is remembered. Publish it: clients must not repeat a key after it. Default 86 400 000 (a day). */
  retentionMs?: number
  /** After this many attempts in a row that died, the outcome is `uncertain`. Default 3. */
  maxAttempts?: number
  /** A duplicate of a running attempt is rejected (409), or waits for the result, up to 10 000 ms. Default `reject`. */
  onBusy?: 'reject' | 'wait' | { waitMs: number; maxWaiters?: number }
}

/** An answer made without the handler: by `onLeaseExpired`, or by an operator. */
export interface GivenAnswer {
  /** Default 200. */
  status?: number
  headers?: Readonly<Record<string, string>>
  /** Text, bytes, or a value that is sent as JSON. Default: none. */
  body?: unknown
}

/** `native`: the Express request or the Koa context. */
export type Reconcile<Native> = (
  attempt: Attempt,
  native: Native,
) => Reconciled | Promise<Reconciled>
/** Run the handler; or leave it to an operator; or: it was done, and this is the answer. */
export type Reconciled = 'takeover' | 'uncertain' | GivenAnswer

/** Options of `idempotency`, but for which Stampede to use. */
export interface IdempotencyRules<Native = unknown> extends AttemptRules {
  /**
   * Whose keys these are: the id of the caller, the same for every retry, whatever credentials it comes with. Two scopes never
   * meet. An error it throws answers the request; so does anything it returns but a non-empty string or a number.
   */
  scope: (request: Native) => string | number | bigint | Promise<string | number | bigint>
  /** Answer 400 without a key, or let the request through unprotected. Default true. */
  required?: boolean | ((request: Native) => boolean)
  /** Other methods pass untouched. Default POST and PATCH. */
  methods?: readonly string[]
  /** Names of the header; the first one is the one to document. Default `Idempotency-Key`. */
  headers?: readonly string[]
  /** Accept only what the draft allows: a quoted string. Default false: the bare form is the same key. */
  strict?: boolean
  /** A record whose holder died is run again by the next request, or kept from it; or asked about. Default `takeover`. */
  onLeaseExpired?: 'takeover' | 'uncertain' | Reconcile<Native>
  /** Without the store: 503, or run the request unprotected. Default `reject`. */
  onStoreError?: 'reject' | 'proceed'
  /**
   * What makes two requests the same: method, path, query, media type, and the body by its `bytes`, or else by what it means as
   * JSON or form (`canonical`, default). A function's value stands for query, type and body.
   */
  fingerprint?: FingerprintMode | ((request: Native) => unknown)
  /** Larger requests are answered 413. Default 1 MiB. */
  maxRequestBytes?: number
  /** Larger responses reach their client, and are remembered without the body. Default 1 MiB. */
  maxBodyBytes?: number
  /** Where your clients can read about your keys; `type` and `Link` of problem documents point there. */
  docsUrl?: string
}

type Plain =
  | 'scope'
  | 'strict'
  | 'onStoreError'
  | 'fingerprint'
  | 'maxRequestBytes'
  | 'maxBodyBytes'

export interface IdempotencyRuleSet<Native>
  extends Readonly<Required<Pick<IdempotencyRules<Native>, Plain>>> {
  readonly required: (request: Native) => boolean
  readonly methods: ReadonlySet<string>
  /** Lower-case. */
  readonly headers: readonly string[]
  readonly policy: AttemptPolicy
  readonly reconcile: Reconcile<Native> | undefined
  readonly docsUrl: string | undefined
}

const WHERE = 'idempotency'
const MIB = 1024 * 1024

/** `maxHoldMs` cannot be shorter than the lease: its default and its least value depend on it. */
const ATTEMPTS = {
  leaseMs: durationMs(30_000, 100),
  maxHoldMs: unchecked(),
  retentionMs: durationMs(86_400_000, 1_000),
  maxAttempts: number(3, { min: 1, max: 1_000, unit: 'attempts' }),
  onBusy: readOnBusy,
} satisfies Record<keyof AttemptRules, Reader>
const onLeaseExpired: Reader<'takeover' | 'uncertain'> = choice('takeover', 'uncertain')
const JOB = {
  ...ATTEMPTS,
  onLeaseExpired,
  scope: unchecked(),
  input: unchecked(),
}
const OPTIONS = {
  ...ATTEMPTS,
  stampede: unchecked(),
  scope: readScope,
  required: readRequired,
  methods: readMethods,
  headers: readHeaders,
  strict: flag(false),
  onLeaseExpired: (where: string, value: unknown) =>
    typeof value === 'function' ? (value as Reconcile<unknown>) : onLeaseExpired(where, value),
  onStoreError: choice('reject', 'proceed'),
  fingerprint: readFingerprint,
  maxRequestBytes: bytes(MIB),
  maxBodyBytes: bytes(MIB),
  docsUrl: readDocsUrl,
} satisfies Record<keyof IdempotencyRules | 'stampede', Reader>

/** Throws `ERR_STAMPEDE_OPTION`. */
export function readIdempotencyOptions<Native>(options: unknown): IdempotencyRuleSet<Native> {
  const read = readOptions(WHERE, options, OPTIONS)
  const { onLeaseExpired: expired } = read
  const onLeaseExpired = typeof expired === 'function' ? 'takeover' : expired
  return Object.freeze({
    scope: read.scope,
    required: read.required,
    methods: read.methods,
    headers: read.headers,
    strict: read.strict,
    policy: policyOf(WHERE, { ...read, onLeaseExpired }),
    reconcile: typeof expired === 'function' ? expired : undefined,
    onStoreError: read.onStoreError,
    fingerprint: read.fingerprint,
    maxRequestBytes: read.maxRequestBytes,
    maxBodyBytes: read.maxBodyBytes,
    docsUrl: read.docsUrl,
  })
}

export interface JobRules {
  readonly policy: AttemptPolicy
  readonly scope: unknown
  readonly input: unknown
}

/** Throws `ERR_STAMPEDE_OPTION`. */
export function readJobOptions(where: string, options: unknown): JobRules {
  const read = readOptions(where, options, JOB)
  return { policy: policyOf(where, read), scope: read.scope, input: read.input }
}

function policyOf(
  where: string,
  read: ReadBy<typeof ATTEMPTS> & Pick<AttemptPolicy, 'onLeaseExpired'>,
): AttemptPolicy {
  const { leaseMs, retentionMs, maxAttempts, onBusy, onLeaseExpired } = read
  const longest = durationMs(Math.max(leaseMs, 600_000), leaseMs)
  const maxHoldMs = longest(`${where}.maxHoldMs`, read.maxHoldMs)
  return { leaseMs, maxHoldMs, retentionMs, maxAttempts, onLeaseExpired, ...onBusy }
}

const ON_BUSY = choice('reject', 'wait')
const WAITING = {
  waitMs: durationMs(10_000),
  maxWaiters: number(100, { min: 1, max: 100_000, unit: 'waiting requests' }),
}

function readOnBusy(where: string, value: unknown): { waitMs: number; maxWaiters: number } {
  if (typeof value === 'object' && value !== null) return readOptions(where, value, WAITING)
  const defaults = readOptions(where, {}, WAITING)
  return ON_BUSY(where, value) === 'wait' ? defaults : { ...defaults, waitMs: 0 }
}

/** A scope as text; undefined when it is none. */
export function scopeText(scope: unknown): string | undefined {
  if (typeof scope === 'string' && scope !== '') return scope
  const isNumber =
    typeof scope === 'bigint' || (typeof scope === 'number' && Number.isFinite(scope))
  return isNumber ? String(scope) : undefined
}

function readScope(where: string, value: unknown): IdempotencyRules['scope'] {
  if (typeof value === 'function') return value as IdempotencyRules['scope']
  throw optionError(
    where,
    value,
    'return the id of the caller, so that callers do not share keys: idempotency({ scope: (req) => req.user.id })',
  )
}

function readRequired(where: string, value: unknown): (request: unknown) => boolean {
  if (typeof value === 'function') return value as (request: unknown) => boolean
  if (value === undefined || typeof value === 'boolean') return () => value !== false
  throw optionError(where, value, 'use true, false or a function of the request')
}

/** One that no request can have would leave the route unprotected, and nobody would know. */
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

function readFingerprint(
  where: string,
  value: unknown,
): FingerprintMode | ((request: unknown) => unknown) {
  return typeof value === 'function' ? (value as (request: unknown) => unknown) : MODE(where, value)
}

function readDocsUrl(where: string, value: unknown): string | undefined {
  if (value === undefined) return undefined
  if (typeof value === 'string' && /^[\x21\x24-\x3b\x3d\x3f-\x7e]+$/.test(value)) return value
  throw optionError(
    where,
    value,
    "use a URL without a fragment: 'https://example.com/docs/idempotency'",
  )
}
