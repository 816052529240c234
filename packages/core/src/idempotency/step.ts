// Steps: parts of a handler's work that run once for all attempts. The record stores their results.

import { decodeValue, encodeValue } from '../data/value.ts'
import { StampedeError, show, stepNotStored, valueError } from '../errors.ts'
import type { IdempotencyRuntime } from './idempotency-runtime.ts'
import { decodeKept, encodeKept } from './kept-response.ts'
import type { Running } from './running.ts'

const MAX_STEP_BYTES = 64 * 1024

/** Runs a step or returns its stored result. Rejects with `ERR_STAMPEDE_VALUE` or `_LEASE_LOST`. */
export async function runStep<T>(
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
