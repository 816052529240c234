// stampede.idempotent: runs a job once for its key and stores its result.

import { decodeValue, encodeValue } from '../data/value.ts'
import type { StoredValue } from '../entry/entry.ts'
import {
  closedError,
  inProgress,
  keyReused,
  notRetained,
  optionError,
  outcomeUncertain,
} from '../errors.ts'
import type { IdempotencyOutcome } from '../events.ts'
import { canonicalValue } from '../http/fingerprint.ts'
import type { Fingerprints } from '../ports/idempotency-store.ts'
import { contextOf, type IdempotencyTrace, idempotencyTracing, trace } from '../tracing.ts'
import { type Attempt, HandlerAttempt } from './attempt.ts'
import { type Begun, beginAttempt } from './begin.ts'
import { type AttemptRules, readJobOptions } from './options.ts'
import { REPLAYED } from './replies.ts'
import type { Running } from './running.ts'
import type { IdempotencyRuntime } from './runtime.ts'
import type { Claim } from './types.ts'

/** Options of `stampede.idempotent`. */
export interface IdempotentOptions extends AttemptRules {
  /** Owner of the key. Equal keys of two scopes are two keys. Default: one scope for all jobs. */
  scope?: string | undefined
  /**
   * The input of the job, as a value that JSON can represent. A repeat with another input, or
   * without one, rejects with `ERR_STAMPEDE_KEY_REUSED`. Default: no input.
   */
  input?: unknown
}

const WHERE = 'idempotent'

type Work<T> = (attempt: Attempt) => T | Promise<T>

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
  if (typeof work !== 'function')
    throw optionError(`${WHERE}: work`, work, 'pass the job as a function')
  const key = jobRecord(rt, jobKey, scope)
  if (rt.closed) throw closedError()
  const fingerprints = inputPrint(rt, input)
  const context: IdempotencyTrace | undefined = idempotencyTracing.hasSubscribers
    ? contextOf(key, { kind: 'job' } as const, jobKey)
    : undefined
  const run = () => runClaim(rt, { key, name: jobKey, fingerprints, policy, trace: context }, work)
  return context === undefined ? run() : trace(idempotencyTracing, context, run)
}

async function runClaim<T>(rt: IdempotencyRuntime, claim: Claim, work: Work<T>): Promise<T> {
  const { key, name: jobKey } = claim
  const report = (outcome: IdempotencyOutcome): void => {
    rt.events.emit({ type: 'idempotency.answered', key, outcome }, jobKey)
    if (claim.trace !== undefined) claim.trace.outcome = outcome
  }
  let begun: Begun
  try {
    begun = await beginAttempt(rt, claim)
  } catch (error) {
    rt.events.emit({ type: 'store.failed', key, operation: 'begin', error }, jobKey)
    report('unavailable')
    throw error
  }
  if (begun.type === 'running') {
    report(begun.begun.isRecovery ? 'recovered' : 'started')
    return runJob(rt, begun, work)
  }
  if (begun.type === 'done' && begun.kept.type === 'value') {
    report(REPLAYED[begun.from])
    return decodeValue<T>(begun.kept.stored)
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
  const { key, name } = running.claim
  let value: T
  try {
    value = await work(new HandlerAttempt(rt, key, running))
  } catch (error) {
    await running.onEnd({ type: 'failed', error })
    throw error
  }
  const { verdict, keepsBody } = running
  const isKept = keepsBody && verdict !== 'release' && verdict !== 'uncertain'
  const stored = isKept ? encodeIfPossible(name, value) : undefined
  await running.onEnd({ type: 'returned', stored })
  // The first call gets the decoded value too, so that it equals the value of later calls.
  return stored === undefined ? value : decodeValue<T>(stored)
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
