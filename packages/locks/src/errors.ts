// The errors of locks. Their codes are in the list of @stampede/core.

import { StampedeError, type StampedeErrorCode } from '@stampede/core'
import { show } from '@stampede/core/store'

export type LockErrorCode = Extract<StampedeErrorCode, `ERR_LOCK_${string}`>

/** Test `error.code`, which never changes. */
export class LockError extends StampedeError {
  declare readonly code: LockErrorCode
  readonly key: string
  /** Of `run` with `ERR_LOCK_LOST`: what the function returned although it had no right to go on. */
  result?: unknown

  constructor(code: LockErrorCode, key: string, problem: string, cause?: unknown) {
    super(code, `lock ${show(key)}: ${problem}`, cause === undefined ? undefined : { cause })
    this.name = 'LockError'
    this.key = key
  }
}

export function busy(key: string): LockError {
  return new LockError('ERR_LOCK_BUSY', key, 'another owner holds it; retry, or pass waitMs')
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
