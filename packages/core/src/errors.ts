// All errors of Stampede. They have one base class, a stable code, and a message with the fix.

/**
 * All error codes, each with the case in which it occurs. A test checks that the table in
 * docs/guide/events.md has the same text.
 */
export const ERROR_CODES = {
  ERR_STAMPEDE_OPTION:
    'an option or purge target is unknown, has the wrong type or is out of range, or a callback option failed',
  ERR_STAMPEDE_VALUE:
    'a factory or job returned a value that cannot be stored, or called `notModified()` without a `previous`',
  ERR_STAMPEDE_CLOSED: 'a method was called after `close()`',
  ERR_STAMPEDE_STORE_UNAVAILABLE:
    'the store did not reply in time, or replied with an error; try again',
  ERR_STAMPEDE_ORIGIN_FAILED:
    'the factory of another caller failed less than `failureBackoffMs` ago, and its failure is shared',
  ERR_STAMPEDE_ORIGIN_TIMEOUT:
    'the factory took longer than `originTimeoutMs`; its `signal` is aborted',
  ERR_STAMPEDE_WAIT_TIMEOUT:
    'the call waited for `waitMs` for another fill or a concurrency slot; try again later',
  ERR_STAMPEDE_MANY_FAILED:
    'some keys of a call failed: `errors` has the error of each, `values` the other values',
  ERR_STAMPEDE_LEASE_LOST:
    'an idempotent attempt lost its lease; its `signal` has this error, and `step()` rejects with it',
  ERR_STAMPEDE_BODY_UNSEEN: 'other code read the request body before `idempotency()` or the cache',
  ERR_STAMPEDE_KEY_REUSED: 'the key of the job was used before, with another input',
  ERR_STAMPEDE_IN_PROGRESS: 'another attempt of the job is running',
  ERR_STAMPEDE_UNCERTAIN: 'an earlier attempt of the job may have done its work; settle it',
  ERR_STAMPEDE_NOT_RETAINED: 'the job completed, but its result was not stored or cannot be read',
  ERR_STAMPEDE_TRANSACTION_OVER:
    'the transaction of the attempt has ended; await each statement before the response',
  ERR_STAMPEDE_TRANSACTION_LOST: 'the transaction of a job did not commit',
  ERR_STAMPEDE_RESPONSE: 'a response cannot be sent, or ended before it was complete',
  ERR_LOCK_BUSY: '`waitMs` is 0, and another owner holds the lock',
  ERR_LOCK_WAIT_TIMEOUT: '`waitMs` is over, and another owner still holds the lock',
  ERR_LOCK_LOST: 'the lease has ended; do not write any more',
  ERR_LOCK_UNAVAILABLE: 'the store did not reply in time, or no quorum was reached',
  ERR_LOCK_ABORTED: "the caller's `signal` was aborted, or the locks were closed",
} as const

/** A code of `ERROR_CODES`. */
export type StampedeErrorCode = keyof typeof ERROR_CODES

/**
 * Base class of all errors that Stampede throws. Test `error.code`, because it never changes and
 * the message may.
 */
export class StampedeError extends Error {
  /** The case in which the error occurs, a key of `ERROR_CODES`. */
  readonly code: StampedeErrorCode
  /** The errors by key, if the code is `ERR_STAMPEDE_MANY_FAILED`. */
  declare readonly errors?: ReadonlyMap<string, unknown>
  /** The values of the other keys, if the code is `ERR_STAMPEDE_MANY_FAILED`. */
  declare readonly values?: ReadonlyMap<string, unknown>

  constructor(code: StampedeErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options)
    this.name = 'StampedeError'
    this.code = code
  }
}

/** The error for an option that is unknown, has the wrong type or is out of range. */
export function optionError(option: string, received: unknown, fix: string): StampedeError {
  return new StampedeError('ERR_STAMPEDE_OPTION', `${option}: received ${show(received)}; ${fix}`)
}

/** The error for a Stampede of another copy of this package, for example of another version. */
export function otherCopy(option: string): StampedeError {
  return new StampedeError(
    'ERR_STAMPEDE_OPTION',
    `${option}: received a Stampede of another copy of @stampede/core; install one copy for the ` +
      'app and its packages: npm ls @stampede/core lists them',
  )
}

/**
 * The error for a store that already serves another user, such as a second Stampede. The second
 * user would get the wake-ups of the first one.
 */
export function storeInUse(user: 'createStampede' | 'createLocks' | 'idempotency'): StampedeError {
  const fix =
    user === 'createLocks'
      ? 'call createLocks once, and share its locks'
      : 'create one store for each Stampede'
  return optionError(`${user}.store`, 'a store that is already in use', fix)
}

/**
 * The error for a callback option that threw or returned a wrong value. The request fails with it,
 * because a default key or identity could share responses between users. An option without the name
 * of its function belongs to `stampedeCache`.
 */
export function callbackError(option: string, problem: string, cause?: unknown): StampedeError {
  const options = cause === undefined ? undefined : { cause }
  const why = cause === undefined ? problem : `${problem}: ${messageOf(cause)}`
  const where = option.includes('.') ? option : `stampedeCache.${option}`
  return new StampedeError('ERR_STAMPEDE_OPTION', `${where}: ${why}`, options)
}

/** The error for a value that cannot be stored. `where` names the method that would store it. */
export function valueError(where: string, problem: string): StampedeError {
  return new StampedeError('ERR_STAMPEDE_VALUE', `${where}: ${problem}`)
}

/** The error for a factory that called `notModified()` although there is no previous value. */
export function noPreviousValue(where: string): StampedeError {
  return valueError(
    where,
    'notModified() was called without a previous value; check context.previous first',
  )
}

export function closedError(): StampedeError {
  return new StampedeError(
    'ERR_STAMPEDE_CLOSED',
    'this Stampede is closed; create a new one, or call close() after the last request',
  )
}

/**
 * The error for a store that did not reply within its time budget or replied with an error. A text
 * as `cause` says why this version cannot use the reply. Without a `cause`, the circuit breaker is
 * open and no command was sent. A store of the app may throw any value.
 */
export function storeUnavailable(
  store: string,
  operation: string,
  cause: unknown = 'not sent, because earlier commands failed',
): StampedeError {
  const options = typeof cause === 'string' ? undefined : { cause }
  const message = `${store} ${operation}: ${messageOf(cause)}`
  return new StampedeError('ERR_STAMPEDE_STORE_UNAVAILABLE', message, options)
}

/**
 * Whether an operation of a store may have taken effect, although it failed with this error. False
 * if the store replied with an error, or if no command was sent.
 */
export function mayHaveRun(error: unknown): boolean {
  const { cause } = error as { cause?: unknown }
  return cause instanceof Error && cause.name !== 'ReplyError' && cause.name !== 'NotSent'
}

/** The error for a caller that shares the failure of another caller's factory. */
export function originFailed(key: string, message: string, cause?: unknown): StampedeError {
  return new StampedeError(
    'ERR_STAMPEDE_ORIGIN_FAILED',
    `the factory of ${show(key)} failed in another call: ${message}; retry after failureBackoffMs`,
    { cause },
  )
}

export function originTimeout(key: string, originTimeoutMs: number): StampedeError {
  return new StampedeError(
    'ERR_STAMPEDE_ORIGIN_TIMEOUT',
    `${show(key)} did not finish within originTimeoutMs (${originTimeoutMs}); raise it, or make the run faster`,
  )
}

export function waitTimeout(key: string, waitMs: number): StampedeError {
  return new StampedeError(
    'ERR_STAMPEDE_WAIT_TIMEOUT',
    `${show(key)} was still being filled elsewhere after waitMs (${waitMs}); retry, or raise waitMs`,
  )
}

export function noConcurrencySlot(key: string, waitMs: number): StampedeError {
  return new StampedeError(
    'ERR_STAMPEDE_WAIT_TIMEOUT',
    `the factory of ${show(key)} could not start within waitMs (${waitMs}), because all concurrency slots are taken; retry, or raise originConcurrency`,
  )
}

/** The error for a call with many keys, of which some failed. */
export function manyFailed(
  where: string,
  values: ReadonlyMap<string, unknown>,
  errors: ReadonlyMap<string, unknown>,
): StampedeError {
  const [[key, cause] = ['', undefined]] = errors
  const text = `${where}: ${errors.size} of ${errors.size + values.size} keys failed, ${show(key)} with: `
  const fix = '; error.errors has the error of each key, error.values the other values'
  const error = new StampedeError('ERR_STAMPEDE_MANY_FAILED', text + messageOf(cause) + fix, {
    cause,
  })
  return Object.assign(error, { values, errors })
}

/** The abort reason of an attempt's `signal`. The result of the attempt will not be stored. */
export function leaseLost(why: string): StampedeError {
  return new StampedeError(
    'ERR_STAMPEDE_LEASE_LOST',
    `this attempt lost its lease: ${why}; stop, because its result will not be stored`,
  )
}

export function stepNotStored(step: string): StampedeError {
  return leaseLost(`step ${show(step)} was not stored, because another attempt has taken over`)
}

/**
 * The error for a body that other code read before idempotency() without leaving a parsed value.
 */
export function bodyUnseen(middleware: string, option: string): StampedeError {
  return new StampedeError(
    'ERR_STAMPEDE_BODY_UNSEEN',
    `${middleware}: another layer has read the body, so two different requests would look equal; ` +
      `mount ${middleware}() before that layer, or after a parser that sets req.body ` +
      `(ctx.request.body), or use the ${option} option`,
  )
}

/** The error of `stampede.idempotent` for a key that was used before with another input. */
export function keyReused(key: string): StampedeError {
  return new StampedeError(
    'ERR_STAMPEDE_KEY_REUSED',
    `${show(key)} was used with another input; use another key`,
  )
}

export function inProgress(key: string): StampedeError {
  return new StampedeError(
    'ERR_STAMPEDE_IN_PROGRESS',
    `${show(key)} is running elsewhere; retry later, or pass onBusy: 'wait'`,
  )
}

export function outcomeUncertain(key: string): StampedeError {
  const fix = 'settle it with stampede.idempotency.resolve() or release()'
  return new StampedeError(
    'ERR_STAMPEDE_UNCERTAIN',
    `it is not known whether ${show(key)} was done; ${fix}`,
  )
}

export function notRetained(key: string): StampedeError {
  return new StampedeError(
    'ERR_STAMPEDE_NOT_RETAINED',
    `${show(key)} was done before, but its result was not kept or cannot be read; it does not run again`,
  )
}

/** The error of a job whose transaction did not commit. */
export function transactionLost(key: string, why: string): StampedeError {
  return new StampedeError(
    'ERR_STAMPEDE_TRANSACTION_LOST',
    `the transaction of ${show(key)} was rolled back: ${why}; its result was not stored`,
  )
}

/** The message of a thrown value, which need not be an `Error`. At most 500 characters. */
export function messageOf(error: unknown): string {
  try {
    const { message } = Object(error)
    return (typeof message === 'string' ? message : String(error)).slice(0, 500)
  } catch {
    return 'a value without a message was thrown'
  }
}

/** A received value for a message. It is short, and strings are quoted so that '5' and 5 differ. */
export function show(value: unknown): string {
  if (typeof value === 'string')
    return JSON.stringify(value.length > 80 ? `${value.slice(0, 77)}...` : value)
  if (typeof value === 'function') return `function ${value.name || '(anonymous)'}`
  if (typeof value === 'bigint') return `${value}n`
  if (Array.isArray(value)) return `an array of ${value.length}`
  if (typeof value === 'object' && value !== null)
    return `an object (${value.constructor?.name ?? 'null prototype'})`
  return String(value)
}
