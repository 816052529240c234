// A part of the work that is done once over all attempts: its result is kept in the record.

import { decodeValue, encodeValue } from '../data/value.ts'
import { attemptOver, StampedeError, show, valueError } from '../errors.ts'
import type { IdempotencyRuntime } from './idempotency-runtime.ts'
import { decodeKept, encodeKept } from './kept-response.ts'
import type { Running } from './running.ts'

const MAX_STEP_BYTES = 64 * 1024

/** Rejects with `ERR_STAMPEDE_VALUE` when the result is not one that can be kept. */
export async function runStep<T>(
  rt: IdempotencyRuntime,
  key: string,
  running: Running | undefined,
  name: string,
  work: () => T | Promise<T>,
): Promise<T> {
  const where = `attempt.step(${show(name)})`
  const stored = running?.steps.get(name)
  if (stored !== undefined) {
    const opened = rt.seal.open(sealName(key, name), stored)
    const kept = opened && decodeKept(opened)
    // Running it again would do it twice; the attempt must not go on as if it had not been done.
    if (kept?.type !== 'value')
      throw valueError(where, 'its result cannot be read by this version or key')
    return decodeValue<T>(kept.stored)
  }
  if (running?.signal.aborted === true) throw running.signal.reason
  // Most parts return nothing, which JSON has no form for.
  const value = encodeValue(where, (await work()) ?? null)
  if (value.body.byteLength > MAX_STEP_BYTES) {
    throw valueError(
      where,
      `the result has more than ${MAX_STEP_BYTES} bytes; return a reference to it`,
    )
  }
  if (running !== undefined) {
    const frame = rt.seal.seal(sealName(key, name), encodeKept({ type: 'value', stored: value }))
    await keep(rt, running, name, frame)
  }
  return decodeValue<T>(value)
}

/** A store that is away does not undo the step: it goes on, and says so. One that has another attempt ends it. */
async function keep(
  rt: IdempotencyRuntime,
  running: Running,
  name: string,
  frame: Uint8Array,
): Promise<void> {
  const { key } = running.grant
  try {
    if ((await rt.store.keepStep(running.grant, name, frame)) === 'stale') throw attemptOver(name)
  } catch (error) {
    if (error instanceof StampedeError && error.code === 'ERR_STAMPEDE_LEASE_LOST') throw error
    rt.events.emit({ type: 'store.failed', key, operation: 'keep-step', error })
  }
}

const sealName = (key: string, name: string): string => `${key} ${name}`
