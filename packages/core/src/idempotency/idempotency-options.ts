// The options of idempotency() and of stampede.idempotent(): their types, defaults and checks.

import { optionError } from '../errors.ts'
import { METHODS } from '../http/methods.ts'
import {
  checkNames,
  nearest,
  readBoolean,
  readBytes,
  readChoice,
  readDurationMs,
  readFunction,
  readNumber,
  readStrings,
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
const COMMON: readonly string[] = ['leaseMs', 'maxHoldMs', 'retentionMs', 'maxAttempts', 'onBusy']
const NAMES: readonly string[] = [
  'stampede',
  ...COMMON,
  'scope',
  'required',
  'methods',
  'headers',
  'strict',
  'onLeaseExpired',
  'onStoreError',
  'fingerprint',
  'maxRequestBytes',
  'maxBodyBytes',
  'docsUrl',
]
/** What may come after `common` options in the bag of a job. */
export const JOB_NAMES: readonly string[] = [...COMMON, 'scope', 'input', 'onLeaseExpired']

type Bag = Readonly<Record<string, unknown>>

/** Throws `ERR_STAMPEDE_OPTION`. */
export function readIdempotencyOptions<Native>(options: unknown): IdempotencyRuleSet<Native> {
  const bag = checkNames(WHERE, options, NAMES)
  const { onLeaseExpired } = bag
  const isFunction = typeof onLeaseExpired === 'function'
  return Object.freeze({
    scope: readScope(bag),
    required: readRequired(bag.required),
    methods: readMethods(bag.methods),
    headers: readHeaders(bag.headers),
    strict: readBoolean(WHERE, bag, 'strict') ?? false,
    policy: readPolicy(WHERE, isFunction ? { ...bag, onLeaseExpired: 'takeover' } : bag),
    reconcile: isFunction ? (onLeaseExpired as Reconcile<Native>) : undefined,
    onStoreError: readChoice(WHERE, bag, 'onStoreError', ['reject', 'proceed']) ?? 'reject',
    fingerprint: readFingerprint<Native>(bag),
    maxRequestBytes: readBytes(WHERE, bag, 'maxRequestBytes') ?? MIB,
    maxBodyBytes: readBytes(WHERE, bag, 'maxBodyBytes') ?? MIB,
    docsUrl: readDocsUrl(bag.docsUrl),
  })
}

/** A scope as text; undefined when it is none. */
export function scopeText(scope: unknown): string | undefined {
  if (typeof scope === 'string' && scope !== '') return scope
  const isNumber =
    typeof scope === 'bigint' || (typeof scope === 'number' && Number.isFinite(scope))
  return isNumber ? String(scope) : undefined
}

export function readPolicy(where: string, bag: Bag): AttemptPolicy {
  const leaseMs = readDurationMs(where, bag, 'leaseMs', 100) ?? 30_000
  const attempts = { min: 1, max: 1_000, unit: 'attempts' }
  return {
    leaseMs,
    maxHoldMs: readDurationMs(where, bag, 'maxHoldMs', leaseMs) ?? Math.max(leaseMs, 600_000),
    retentionMs: readDurationMs(where, bag, 'retentionMs', 1_000) ?? 86_400_000,
    maxAttempts: readNumber(where, bag, 'maxAttempts', attempts) ?? 3,
    onLeaseExpired:
      readChoice(where, bag, 'onLeaseExpired', ['takeover', 'uncertain']) ?? 'takeover',
    ...readOnBusy(where, bag),
  }
}

function readOnBusy(where: string, bag: Bag): { waitMs: number; maxWaiters: number } {
  const { onBusy } = bag
  if (typeof onBusy !== 'object' || onBusy === null) {
    const choice = readChoice(where, bag, 'onBusy', ['reject', 'wait'])
    return { waitMs: choice === 'wait' ? 10_000 : 0, maxWaiters: 100 }
  }
  const inner = `${where}.onBusy`
  const wait = checkNames(inner, onBusy, ['waitMs', 'maxWaiters'])
  const waiters = { min: 1, max: 100_000, unit: 'waiting requests' }
  return {
    waitMs: readDurationMs(inner, wait, 'waitMs') ?? 10_000,
    maxWaiters: readNumber(inner, wait, 'maxWaiters', waiters) ?? 100,
  }
}

function readScope<Native>(bag: Bag): IdempotencyRules<Native>['scope'] {
  if (typeof bag.scope === 'function') return bag.scope as IdempotencyRules<Native>['scope']
  throw optionError(
    `${WHERE}.scope`,
    bag.scope,
    'say whose keys these are, so that nobody is answered with what another was: idempotency({ scope: (req) => req.user.id })',
  )
}

function readRequired<Native>(value: unknown): (request: Native) => boolean {
  if (typeof value === 'function') return value as (request: Native) => boolean
  if (value === undefined || typeof value === 'boolean') return () => value !== false
  throw optionError(`${WHERE}.required`, value, 'use true, false or a function of the request')
}

/** One that no request can have would leave the route unprotected, and nobody would know. */
function readMethods(value: unknown): ReadonlySet<string> {
  const where = `${WHERE}.methods`
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

const NAME_METHODS = "use names of methods: ['POST', 'PATCH']"

function readHeaders(value: unknown): readonly string[] {
  const where = `${WHERE}.headers`
  const names = readStrings(where, value ?? ['Idempotency-Key']).map((name) => name.toLowerCase())
  if (names.length > 0 && names.every((name) => /^[!#$%&'*+\-.^_`|~0-9a-z]+$/.test(name)))
    return names
  throw optionError(where, value, "use header names: ['Idempotency-Key']")
}

function readFingerprint<Native>(bag: Bag): IdempotencyRuleSet<Native>['fingerprint'] {
  if (typeof bag.fingerprint === 'function') {
    return readFunction(WHERE, bag, 'fingerprint') as (request: Native) => unknown
  }
  return (
    readChoice<FingerprintMode>(WHERE, bag, 'fingerprint', ['canonical', 'bytes']) ?? 'canonical'
  )
}

function readDocsUrl(value: unknown): string | undefined {
  if (value === undefined) return undefined
  if (typeof value === 'string' && /^[\x21\x24-\x3b\x3d\x3f-\x7e]+$/.test(value)) return value
  throw optionError(
    `${WHERE}.docsUrl`,
    value,
    "use a URL without a fragment: 'https://example.com/docs/idempotency'",
  )
}
