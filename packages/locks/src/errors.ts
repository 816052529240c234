// Errors of locks. Their codes are part of the list in @stampede/core.

import { StampedeError } from '@stampede/core'
import { show } from '@stampede/core/store'

type LockErrorCode = Extract<StampedeError['code'], `ERR_LOCK_${string}`>

/** An error of a lock. Compare `code`, which never changes. Messages may change. */
export class LockError extends StampedeError {
  /** The case in which the error occurs. */
  declare readonly code: LockErrorCode
  /** The key of the lock. */
  readonly key: string
  /** The value that the function of `run` returned after its lease had ended (`ERR_LOCK_LOST`). */
  result?: unknown

  constructor(code: LockErrorCode, key: string, problem: string, cause?: unknown) {
    super(code, `lock ${show(key)} ${problem}`, cause === undefined ? undefined : { cause })
    this.name = 'LockError'
    this.key = key
  }
}

export function busy(key: string): LockError {
  return new LockError('ERR_LOCK_BUSY', key, 'is held by another owner; retry, or pass waitMs')
}

export function waitTimeout(key: string, waitMs: number): LockError {
  return new LockError(
    'ERR_LOCK_WAIT_TIMEOUT',
    key,
    `was not free within waitMs (${waitMs}); retry, or raise waitMs`,
  )
}

export function lost(key: string, why: string): LockError {
  return new LockError('ERR_LOCK_LOST', key, `is no longer held: ${why}`)
}

export function unavailable(key: string, cause: unknown): LockError {
  const why = cause instanceof Error ? cause.message : String(cause)
  return new LockError('ERR_LOCK_UNAVAILABLE', key, `is unavailable: ${why}`, cause)
}

export function aborted(key: string, cause: unknown): LockError {
  const why = cause instanceof Error ? ` (${cause.message})` : ''
  return new LockError(
    'ERR_LOCK_ABORTED',
    key,
    `was not acquired: the wait was aborted${why}`,
    cause,
  )
}
