// Every error of the product: one base, a stable code, and a message that names the fix.

/** Every code and when it occurs. A test holds the table in docs/guide/errors.md equal to this list. */
export const ERROR_CODES = {
  ERR_STAMPEDE_OPTION:
    'an option or a purge target is unknown, of the wrong type or out of range; or a callback option failed',
  ERR_STAMPEDE_VALUE:
    'a factory or job returned a value that cannot be stored, or called `notModified()` without a `previous`',
  ERR_STAMPEDE_CLOSED: 'a call came after `close()`',
  ERR_STAMPEDE_STORE_UNAVAILABLE: 'the store did not reply, or refused; try again',
  ERR_STAMPEDE_ORIGIN_FAILED:
    'another caller ran the factory less than `failureBackoffMs` ago while others waited, and it failed',
  ERR_STAMPEDE_ORIGIN_TIMEOUT:
    'the factory took longer than `originTimeoutMs`; its `signal` is aborted',
  ERR_STAMPEDE_WAIT_TIMEOUT:
    '`waitMs` is over: no concurrency slot is free, or `set` still waits for a fill; try again later',
  ERR_STAMPEDE_LEASE_LOST:
    'an idempotent attempt lost its lease; `step()` rejects with it, and it is the reason of `signal`',
  ERR_STAMPEDE_BODY_UNSEEN: 'the body was read before `idempotency()` saw it',
  ERR_STAMPEDE_KEY_REUSED: 'the key of a job was used with another `input`',
  ERR_STAMPEDE_IN_PROGRESS: 'the job is running elsewhere',
  ERR_STAMPEDE_UNCERTAIN: 'an earlier attempt of the job may have done its work; settle it',
  ERR_STAMPEDE_NOT_RETAINED: 'the job was done, and its result was not kept or cannot be read',
  ERR_STAMPEDE_RESPONSE: 'a response cannot be sent, or ended before it was complete',
  ERR_LOCK_BUSY: '`waitMs: 0`, and another owner holds the lock',
  ERR_LOCK_WAIT_TIMEOUT: '`waitMs` is over, and another owner still holds the lock',
  ERR_LOCK_LOST: 'the lease is over; write nothing',
  ERR_LOCK_UNAVAILABLE: 'the store did not answer, or no quorum can be reached',
  ERR_LOCK_ABORTED: "the caller's `signal` was aborted, or the locks were closed",
} as const

export type StampedeErrorCode = keyof typeof ERROR_CODES

/** Base of all errors thrown by Stampede. Test `error.code`, which never changes. */
export class StampedeError extends Error {
  readonly code: StampedeErrorCode

  constructor(code: StampedeErrorCode, message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'StampedeError'
    this.code = code
  }
}

/** An option is unknown, of the wrong type or out of range. Thrown when something is created. */
export function optionError(option: string, received: unknown, fix: string): StampedeError {
  return new StampedeError('ERR_STAMPEDE_OPTION', `${option}: received ${show(received)}; ${fix}`)
}

/** A store hears for one: a second user would take the wake-ups of the first. */
export function storeInUse(user: 'createStampede' | 'createLocks' | 'idempotency'): StampedeError {
  const fix =
    user === 'createLocks'
      ? 'call createLocks once, and share its locks'
      : 'create one store for each Stampede'
  return optionError(`${user}.store`, 'a store that is already in use', fix)
}

/** A store's reply is not one that this version knows. */
export function unknownReply(store: string, operation: string, problem: string): StampedeError {
  return new StampedeError('ERR_STAMPEDE_STORE_UNAVAILABLE', `${store} ${operation}: ${problem}`)
}

export function responseError(problem: string): StampedeError {
  return new StampedeError('ERR_STAMPEDE_RESPONSE', problem)
}

/** A callback failed. The request is answered with it: guessing would share a bucket. */
export function callbackError(
  option:
    | 'key'
    | 'identity'
    | 'bypass'
    | 'stampedeCache.tags'
    | 'stampedeCache.invalidateOn.tags'
    | 'idempotency.scope'
    | 'idempotency.fingerprint',
  problem: string,
  cause?: unknown,
): StampedeError {
  const options = cause === undefined ? undefined : { cause }
  const why = cause === undefined ? problem : `${problem}: ${messageOf(cause)}`
  const where = option.includes('.') ? option : `stampedeCache.${option}`
  return new StampedeError('ERR_STAMPEDE_OPTION', `${where}: ${why}`, options)
}

/** A result that cannot be kept; `where` is what was to keep it. */
export function valueError(where: string, problem: string): StampedeError {
  return new StampedeError('ERR_STAMPEDE_VALUE', `${where}: ${problem}`)
}

/** A factory said that the value is unchanged, and there is none. */
export function nothingBefore(where: string): StampedeError {
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

/** The store did not answer in its time budget, refused, or is being left alone by the breaker. */
export function storeUnavailable(store: string, operation: string, cause?: unknown): StampedeError {
  const why = cause instanceof Error ? cause.message : 'not sent, because earlier commands failed'
  return new StampedeError('ERR_STAMPEDE_STORE_UNAVAILABLE', `${store} ${operation}: ${why}`, {
    cause,
  })
}

/** Another caller ran the origin for this key and it failed; the failure is shared, not repeated. */
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

export function noPlace(key: string, waitMs: number): StampedeError {
  return new StampedeError(
    'ERR_STAMPEDE_WAIT_TIMEOUT',
    `the factory of ${show(key)} could not start within waitMs (${waitMs}), because all concurrency slots are taken; retry, or raise originConcurrency`,
  )
}

/** The reason of an attempt's `signal`: what it does from now on does not count. */
export function leaseLost(why: string): StampedeError {
  return new StampedeError(
    'ERR_STAMPEDE_LEASE_LOST',
    `this attempt lost its lease: ${why}; stop, because its result will not be stored`,
  )
}

export function attemptOver(step: string): StampedeError {
  return leaseLost(`step ${show(step)} was not stored, because another attempt has taken over`)
}

/** The body was read before idempotency() saw it, and whoever read it left nothing to see. */
export function bodyUnseen(): StampedeError {
  return new StampedeError(
    'ERR_STAMPEDE_BODY_UNSEEN',
    'idempotency: another layer has read the body, so two different requests would look equal; ' +
      'mount idempotency() before that layer, or after a parser that sets req.body (ctx.request.body), ' +
      'or use the fingerprint option',
  )
}

/** `stampede.idempotent`: the key is known with another input. */
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

/** The message of whatever was thrown: anything can be. */
export function messageOf(error: unknown): string {
  try {
    const { message } = Object(error)
    return (typeof message === 'string' ? message : String(error)).slice(0, 500)
  } catch {
    return 'a value without a message was thrown'
  }
}

/** A received value as a message shows it: short, with strings quoted, so that '5' and 5 differ. */
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
