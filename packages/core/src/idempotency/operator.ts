// For operators: what is known of a key, and the last word on it.

import { decodeValue, encodeValue } from '../data/value.ts'
import { closedError, optionError } from '../errors.ts'
import { checkNames, flag, readOptions } from '../options.ts'
import type { HeaderList } from '../ports/exchange.ts'
import type { Settlement, SettleReply } from '../ports/idempotency-store.ts'
import { keptFrom } from './given-answer.ts'
import { type GivenAnswer, scopeText } from './idempotency-options.ts'
import { type IdempotencyRuntime, onSettled } from './idempotency-runtime.ts'
import { decodeKept, encodeKept, type Kept } from './kept-response.ts'
import { jobRecord } from './run-idempotent.ts'

/** A job's key, with its scope if it has one; or the key a client sent, with the scope it belongs to. */
export type IdempotencyKeyRef =
  | string
  | { readonly job: string; readonly scope: string }
  | { readonly key: string; readonly scope: string | number | bigint }

export interface IdempotencyRecord {
  /** `lapsed`: the holder died, and nobody has come since. */
  readonly state: 'running' | 'lapsed' | 'completed' | 'released' | 'uncertain'
  readonly attempt: number
  readonly fence: bigint
  /** Until a running attempt's lease ends, unless it is renewed. */
  readonly leaseForMs: number
  readonly ageMs: number
  /** Until it is forgotten. */
  readonly keepForMs: number
  /** Parts that were done. */
  readonly steps: readonly string[]
  /** Of a completed request; `body` is undefined when it was not kept, or cannot be read here. */
  readonly response?: {
    readonly status: number
    readonly headers: HeaderList
    readonly body: Uint8Array | undefined
  }
  /** Of a completed job. */
  readonly value?: unknown
}

export interface IdempotencyOperator {
  /** Undefined: nothing is known of the key. */
  inspect(key: IdempotencyKeyRef): Promise<IdempotencyRecord | undefined>
  /**
   * Lets the next request run. An attempt that runs, or a completed record, is refused without `force`; with it, an attempt at
   * work is voided, and its result will not count.
   */
  release(key: IdempotencyKeyRef, options?: { force?: boolean }): Promise<SettleReply>
  /** Says that it was done, with the answer that duplicates get: a response, or `{ value }` for a job. */
  resolve(
    key: IdempotencyKeyRef,
    answer: GivenAnswer | { value: unknown },
    options?: { force?: boolean },
  ): Promise<SettleReply>
}

const RESOLVED_MS = 86_400_000

/** `made`: the runtime, when it is first needed. */
export function createOperator(made: () => IdempotencyRuntime): IdempotencyOperator {
  const runtime = (): IdempotencyRuntime => {
    const rt = made()
    if (rt.closed) throw closedError()
    return rt
  }
  const settle = async (
    ref: IdempotencyKeyRef,
    settlement: (rt: IdempotencyRuntime, record: string) => Settlement,
    options: unknown,
  ) => {
    const where = 'idempotency'
    const { force } = readOptions(where, options, { force: flag(false) })
    const rt = runtime()
    const record = recordOf(rt, ref)
    const reply = await rt.store.settle(record, settlement(rt, record), { force })
    // Its message may come later than this reply.
    if (reply === 'settled') await onSettled(rt, record)
    return reply
  }
  return {
    async inspect(ref) {
      const rt = runtime()
      const record = recordOf(rt, ref)
      const found = await rt.store.inspect(record)
      if (found === undefined) return undefined
      const { frame, fence, ...known } = found
      const opened = frame && rt.seal.open(record, frame)
      return { ...known, fence: BigInt(fence), ...shown(opened && decodeKept(record, opened)) }
    },
    release: (ref, options) =>
      settle(ref, () => ({ as: 'released', keepMs: RESOLVED_MS }), options),
    resolve: (ref, answer, options) =>
      settle(
        ref,
        (rt, record) => ({
          as: 'completed',
          frame: rt.seal.seal(record, encodeKept(record, keptOf(ref, answer))),
          keepMs: RESOLVED_MS,
        }),
        options,
      ),
  }
}

function recordOf(rt: IdempotencyRuntime, ref: IdempotencyKeyRef): string {
  if (typeof ref === 'string') return jobRecord(rt, ref)
  const { job, key, scope: given } = checkNames('idempotency: key', ref, ['job', 'key', 'scope'])
  if (job !== undefined && key === undefined) return jobRecord(rt, job, given)
  const scope = scopeText(given)
  if (typeof key !== 'string' || key === '' || scope === undefined || job !== undefined) {
    throw optionError(
      'idempotency: key',
      ref,
      'use the key of a job, or { scope, key } of a request',
    )
  }
  return rt.names.recordKey('http', scope, key)
}

function keptOf(ref: IdempotencyKeyRef, answer: GivenAnswer | { value: unknown }): Kept {
  const where = 'idempotency.resolve'
  if (typeof ref !== 'string' && !('job' in ref)) {
    return keptFrom(where, answer as GivenAnswer)
  }
  const { value } = checkNames(where, answer, ['value'])
  return { type: 'value', stored: encodeValue(where, value) }
}

function shown(kept: Kept | undefined): Pick<IdempotencyRecord, 'response' | 'value'> {
  if (kept === undefined) return {}
  if (kept.type === 'value') return { value: decodeValue(kept.stored) }
  const { status } = kept
  if (kept.type === 'response')
    return { response: { status, headers: kept.headers, body: kept.body } }
  const headers: HeaderList = kept.location === undefined ? [] : [['location', kept.location]]
  return { response: { status, headers, body: undefined } }
}
