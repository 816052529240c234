// stampede.idempotent: runs a job once for its key and stores its result.

import { decodeValue, encodeValue } from '../data/value.ts'
import type { StoredValue } from '../entry/entry.ts'
import {
  inProgress,
  keyReused,
  notRetained,
  optionError,
  outcomeUncertain,
  storeUnavailable,
  transactionLost,
} from '../errors.ts'
import type { IdempotencyOutcome } from '../events.ts'
import { canonicalValue } from '../http/fingerprint.ts'
import type { Fingerprints } from '../ports/idempotency-store.ts'
import type { AttemptEnd } from '../ports/idempotent-exchange.ts'
import { contextOf, type IdempotencyTrace, idempotencyTracing, trace } from '../tracing.ts'
import { type Attempt, HandlerAttempt } from './attempt.ts'
import { beginAttempt } from './begin.ts'
import { type AttemptRules, checkTransactions, readJobOptions } from './options.ts'
import { REPLAYED } from './replies.ts'
import { type JobEnd, Running, type TransactionEnd } from './running.ts'
import type { IdempotencyRuntime } from './runtime.ts'
import type { Claim } from './types.ts'

/** Options of `stampede.idempotent`. */
export interface IdempotentOptions<
  Transaction extends AttemptRules['transaction'] = AttemptRules['transaction'],
> extends Omit<AttemptRules, 'transaction'> {
  /**
   * Runs the job in a transaction that commits together with the stored result. The values are
   * those of the option of `idempotency`. Default false.
   */
  transaction?: Transaction
  /** Owner of the key. Equal keys of two scopes are two keys. Default: one scope for all jobs. */
  scope?: string | undefined
  /**
   * The input of the job, as a value that JSON can represent. A repeat with another input, or
   * without one, rejects with `ERR_STAMPEDE_KEY_REUSED`. Default: no input.
   */
  input?: unknown
}

const WHERE = 'idempotent'

type Work<T> = (attempt: Attempt<never>) => T | Promise<T>

/** How often a job runs again after its transaction was rolled back because of another one. */
const MOST_REPEATS = 3

/**
 * Runs a job or returns its stored result. Rejects with `ERR_STAMPEDE_OPTION` for invalid options.
 */
export async function runIdempotent<T>(
  rt: IdempotencyRuntime,
  jobKey: string,
  work: Work<T>,
  options?: IdempotentOptions,
): Promise<T> {
  const { scope, input, ...policy } = readJobOptions(WHERE, options)
  checkTransactions(WHERE, policy, rt.store)
  if (typeof work !== 'function')
    throw optionError(`${WHERE}: work`, work, 'pass the job as a function')
  const key = jobRecord(rt, jobKey, scope)
  const fingerprints = inputPrint(rt, input)
  const context: IdempotencyTrace | undefined = idempotencyTracing.hasSubscribers
    ? contextOf(key, { kind: 'job' } as const, jobKey)
    : undefined
  const run = () => runClaim(rt, { key, name: jobKey, fingerprints, policy, trace: context }, work)
  return context === undefined ? run() : trace(idempotencyTracing, context, run)
}

async function runClaim<T>(rt: IdempotencyRuntime, claim: Claim, work: Work<T>): Promise<T> {
  const { key, name: jobKey, repeats = 0 } = claim
  const report = (outcome: IdempotencyOutcome): void => {
    if (repeats > 0) return
    rt.events.emit({ type: 'idempotency.answered', key, outcome }, jobKey)
    if (claim.trace !== undefined) claim.trace.outcome = outcome
  }
  const begun = await beginAttempt(rt, claim)
  if (begun instanceof Running) {
    report(begun.begun.isRecovery ? 'recovered' : 'started')
    return runJob(rt, begun, work)
  }
  if (begun.type === 'done' && begun.kept.type === 'value') {
    report(REPLAYED[begun.from])
    return decodeValue<T>(begun.kept.stored)
  }
  if (begun.type === 'unavailable') {
    report('unavailable')
    throw begun.error
  }
  const [outcome, error] = REFUSED[begun.type]
  report(outcome)
  throw error(jobKey)
}

const REFUSED = {
  mismatch: ['key-reused', keyReused],
  busy: ['in-progress', inProgress],
  uncertain: ['uncertain', outcomeUncertain],
  unreadable: ['not-retained', notRetained],
  // The job completed without a stored value.
  done: ['not-retained', notRetained],
} as const

/**
 * The internal key of the record of a job: a keyed hash of scope and key. Throws
 * `ERR_STAMPEDE_OPTION`.
 */
export function jobRecord(rt: IdempotencyRuntime, key: unknown, scope: unknown = ''): string {
  if (typeof key !== 'string' || key === '') {
    throw optionError(`${WHERE}: key`, key, "name the job: idempotent('invoice:7', work)")
  }
  if (typeof scope !== 'string') throw optionError(`${WHERE}.scope`, scope, 'use a string')
  return rt.hashes.jobKey(scope, key)
}

function inputPrint({ hashes: names }: IdempotencyRuntime, input: unknown): Fingerprints {
  const canonical = input === undefined ? '' : canonicalValue(input)
  if (canonical !== undefined)
    return { exact: '', canonical: names.fingerprint(['job', canonical]) }
  throw optionError(`${WHERE}.input`, input, 'use a value that JSON can represent')
}

async function runJob<T>(rt: IdempotencyRuntime, running: Running, work: Work<T>): Promise<T> {
  const { claim, holdsAll } = running
  const { key, name, repeats = 0 } = claim
  const again = holdsAll && repeats < MOST_REPEATS && { ...claim, repeats: repeats + 1 }
  const end = (as: JobEnd | AttemptEnd): Promise<TransactionEnd | undefined> | undefined =>
    holdsAll ? running.endTransaction(as) : running.onEnd(as)
  let value: T
  try {
    value = await work(new HandlerAttempt(rt, key, running))
  } catch (error) {
    await end({ type: 'failed', error })
    if (again && isConflict(error)) return runClaim(rt, again, work)
    throw error
  }
  const { verdict, keepsBody } = running
  const isKept = keepsBody && verdict !== 'release' && verdict !== 'uncertain'
  const stored = isKept ? encodeIfPossible(name, value) : undefined
  const ended = await end({ type: 'returned', stored })
  if (again && ended === 'stale') return runClaim(rt, again, work)
  if (ended === 'failed' || ended === 'ended') throw transactionLost(name, LOST[ended])
  if (ended === 'stale' || ended === 'unknown')
    throw storeUnavailable(rt.store.name, 'finish', new Error('the transaction may be rolled back'))
  // The first call gets the decoded value too, so that it equals the value of later calls.
  return stored === undefined ? value : decodeValue<T>(stored)
}

const LOST = {
  failed: 'one of its statements failed',
  ended: 'the job ended the transaction itself',
} as const

/**
 * Whether the database rolled the transaction back because of another one: SQLSTATE 40001, a
 * serialization failure, or 40P01, a deadlock. An ORM may have the error of the driver as `cause`.
 */
function isConflict(error: unknown): boolean {
  const { code, cause } = Object(error)
  return [code, Object(cause).code].some((each) => each === '40001' || each === '40P01')
}

/**
 * Encodes the result of a job. Undefined if JSON cannot represent the result: an error would make
 * the job run again although it completed. The result `undefined` becomes null.
 */
function encodeIfPossible(key: string, value: unknown): StoredValue | undefined {
  try {
    return encodeValue(key, value ?? null)
  } catch {
    return undefined
  }
}
