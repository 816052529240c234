// The attempt object that a handler or job gets: its steps, and its calls that decide how the
// attempt ends.

import { decodeValue, encodeValue } from '../data/value.ts'
import { optionError, StampedeError, show, stepNotStored, valueError } from '../errors.ts'
import { publicFence } from '../ports/grant.ts'
import type { AttemptEnd } from '../ports/idempotent-exchange.ts'
import { decodeKept, encodeKept, type Kept, withoutBody } from './kept-response.ts'
import { isFinal, replayableHeaders } from './replayable.ts'
import type { Outcome, Running } from './running.ts'
import type { IdempotencyRuntime } from './runtime.ts'

/** The end that the handler chose for its attempt. If it chose none, its response decides. */
export type Verdict = 'keep' | 'release' | 'uncertain'

/** One run of a handler or job for an idempotency key. */
export interface Attempt {
  /** Number of this run among all runs of the key. The first one is 1. */
  readonly number: number
  /**
   * Whether the lease of an earlier attempt ended during its run, so part of the work may be done.
   */
  readonly isRecovery: boolean
  /**
   * Fencing token, greater than that of each earlier attempt. Pass it to the database, so that the
   * database can reject writes of an expired attempt. Undefined if the store is unavailable and
   * `onStoreError: 'proceed'` lets the request run unprotected.
   */
  readonly fence: bigint | undefined
  /**
   * Aborted with `ERR_STAMPEDE_LEASE_LOST` when the lease is lost. Then another attempt may begin,
   * and the result of this one does not count.
   */
  readonly signal: AbortSignal
  /**
   * An idempotency key for a call to another service. It is the same in each attempt of this
   * request. `name` has 1 to 100 visible ASCII characters, otherwise `childKey` throws
   * `ERR_STAMPEDE_OPTION`.
   */
  childKey(name: string): string
  /**
   * Runs `work` once for all attempts and stores its result: JSON, or bytes. A later attempt gets
   * the stored result. If `work` fails, `step` rejects with its error, and `work` may run again.
   * `step` also rejects with `ERR_STAMPEDE_VALUE` if the result cannot be stored or read, and with
   * `ERR_STAMPEDE_LEASE_LOST` if the lease is lost.
   */
  step<T>(name: string, work: () => T | Promise<T>): Promise<T>
  /** Stores the response with any status, also a 5xx, so that the handler does not run again. */
  keep(): void
  /** Releases the key after any response: a repeat of the request runs the handler again. */
  release(): void
  /** Makes the outcome uncertain: repeats get a 409 until an operator settles the key. */
  uncertain(): void
  /** Stores that the attempt completed, without the body of its response. */
  withoutBody(): void
}

/** The decisions of the handler about its attempt. */
export interface Decisions {
  verdict: Verdict | undefined
  keepsBody: boolean
}

export interface AttemptHandle {
  readonly attempt: Attempt
  readonly decisions: Readonly<Decisions>
}

const NEVER = new AbortController().signal

/**
 * The attempt object of a run. Without `running`, the request is unprotected and nothing is stored.
 */
export function createAttempt(
  rt: IdempotencyRuntime,
  key: string,
  running: Running | undefined,
): AttemptHandle {
  const decisions: Decisions = { verdict: undefined, keepsBody: true }
  const setVerdict = (verdict: Verdict) => () => {
    decisions.verdict = verdict
  }
  let steps: Map<string, Promise<unknown>> | undefined
  const attempt: Attempt = {
    number: running?.begun.attempt ?? 1,
    isRecovery: running?.begun.isRecovery ?? false,
    get fence() {
      return publicFence(running?.begun.grant.fence ?? '')
    },
    // A getter, because reading it checks the clock. After a suspension of the machine, the clock
    // shows the end of the lease before a timer fires.
    get signal() {
      return running?.signal ?? NEVER
    },
    childKey: (name) => rt.hashes.childKey(key, readName('childKey', name)),
    step<T>(name: string, work: () => T | Promise<T>): Promise<T> {
      steps ??= new Map()
      const known = steps.get(readName('step', name))
      if (known !== undefined) return known as Promise<T>
      const result = runStep(rt, key, running, name, work)
      steps.set(name, result)
      // A step that failed may be tried again in the same attempt.
      result.catch(() => steps?.delete(name))
      return result
    },
    keep: setVerdict('keep'),
    release: setVerdict('release'),
    uncertain: setVerdict('uncertain'),
    withoutBody() {
      decisions.keepsBody = false
    },
  }
  return { attempt, decisions }
}

function readName(where: 'step' | 'childKey', name: string): string {
  if (typeof name === 'string' && /^[\x21-\x7e]{1,100}$/.test(name)) return name
  throw optionError(
    `attempt.${where}: name`,
    name,
    "use 1 to 100 visible ASCII characters: 'charge'",
  )
}

/**
 * Returns the outcome. If it is unknown (undefined), the lease expires, and `onLeaseExpired`
 * decides.
 */
export function outcomeOf(end: AttemptEnd, decisions: Readonly<Decisions>): Outcome | undefined {
  const { verdict, keepsBody } = decisions
  if (verdict === 'uncertain') return { as: 'uncertain' }
  if (verdict === 'release') return { as: 'released' }
  if (end.type === 'unanswered') return undefined
  if (end.type === 'failed') return verdict === 'keep' ? { as: 'uncertain' } : { as: 'released' }
  const { head } = end
  if (verdict !== 'keep' && !isFinal(head.status)) return { as: 'released' }
  const isWhole = end.type === 'answered'
  const { body, kind } = isWhole ? end : { body: new Uint8Array(), kind: undefined }
  const { status } = head
  const headers = replayableHeaders(head.headers)
  const kept: Kept = { type: 'response', status, headers, body, kind }
  return { as: 'completed', kept: isWhole && keepsBody ? kept : withoutBody(kept) }
}

const MAX_STEP_BYTES = 64 * 1024

/** Runs a step or returns its stored result. Rejects with `ERR_STAMPEDE_VALUE` or `_LEASE_LOST`. */
async function runStep<T>(
  rt: IdempotencyRuntime,
  key: string,
  running: Running | undefined,
  name: string,
  work: () => T | Promise<T>,
): Promise<T> {
  const where = `attempt.step(${show(name)})`
  const stored = running?.begun.steps.get(name)
  if (stored !== undefined) {
    const record = stepRecord(key, name)
    const opened = rt.seal.open(record, stored)
    const kept = opened && decodeKept(record, opened)
    // The step completed, but its result cannot be decoded. The attempt fails, because running the
    // step again would do its work twice.
    if (kept?.type !== 'value')
      throw valueError(
        where,
        'the stored result cannot be read; use the version and the encryption keys that stored it',
      )
    return decodeValue<T>(kept.stored)
  }
  if (running?.isLost === true) throw running.signal.reason
  // Most steps return undefined, which JSON cannot encode.
  const value = encodeValue(where, (await work()) ?? null)
  if (value.body.byteLength > MAX_STEP_BYTES) {
    throw valueError(
      where,
      `the result has more than ${MAX_STEP_BYTES} bytes; return a reference instead`,
    )
  }
  if (running !== undefined) {
    const record = stepRecord(key, name)
    const kept = encodeKept(record, { type: 'value', stored: value })
    await keep(rt, running, name, rt.seal.seal(record, kept))
  }
  return decodeValue<T>(value)
}

/**
 * Stores the result of a step. If the store is unavailable, the attempt continues and an event
 * reports it. If another attempt has taken over, the step rejects.
 */
async function keep(
  rt: IdempotencyRuntime,
  running: Running,
  name: string,
  frame: Uint8Array,
): Promise<void> {
  const { key, name: keyName } = running.claim
  try {
    if ((await rt.store.keepStep(running.begun.grant, name, frame)) === 'stale')
      throw stepNotStored(name)
  } catch (error) {
    if (error instanceof StampedeError && error.code === 'ERR_STAMPEDE_LEASE_LOST') throw error
    rt.events.emit({ type: 'store.failed', key, operation: 'keep-step', error }, keyName)
  }
}

const stepRecord = (key: string, name: string): string => `${key} ${name}`
