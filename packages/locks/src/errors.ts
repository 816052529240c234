// Every error of locks: one class, stable codes, messages that say what to do.

import { show } from '@stampede/core'

export type LockErrorCode =
  /** `waitMs: 0`, and somebody else has it. */
  | 'ERR_LOCK_BUSY'
  /** `waitMs` is spent. */
  | 'ERR_LOCK_WAIT_TIMEOUT'
  /** The lease is over, or another has the lock. */
  | 'ERR_LOCK_LOST'
  /** The store did not answer in time, or no quorum can be reached. */
  | 'ERR_LOCK_UNAVAILABLE'
  /** The caller's own `signal`, or `close()`. */
  | 'ERR_LOCK_ABORTED'

/** Test `error.code`, which never changes. */
export class LockError extends Error {
  readonly code: LockErrorCode
  readonly key: string
  /** Of `run` with `ERR_LOCK_LOST`: what the function returned although it had no right to go on. */
  result?: unknown

  constructor(code: LockErrorCode, key: string, problem: string, cause?: unknown) {
    super(`lock ${show(key)}: ${problem}`, cause === undefined ? undefined : { cause })
    this.name = 'LockError'
    this.code = code
    this.key = key
  }
}

export function busy(key: string): LockError {
  return new LockError('ERR_LOCK_BUSY', key, 'somebody else has it')
}

export function waitTimeout(key: string, waitMs: number): LockError {
  return new LockError('ERR_LOCK_WAIT_TIMEOUT', key, `not free within waitMs (${waitMs})`)
}

export function lost(key: string, why: string): LockError {
  return new LockError('ERR_LOCK_LOST', key, why)
}

export function unavailable(key: string, cause: unknown): LockError {
  const why = cause instanceof Error ? cause.message : String(cause)
  return new LockError('ERR_LOCK_UNAVAILABLE', key, why, cause)
}

export function aborted(key: string, cause: unknown): LockError {
  const why = cause instanceof Error ? `: ${cause.message}` : ''
  return new LockError('ERR_LOCK_ABORTED', key, `the wait was aborted${why}`, cause)
}
