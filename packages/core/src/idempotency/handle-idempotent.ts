// Handles a request with an idempotency key. Key, scope and fingerprint are read, and an attempt
// begins. Then the handler runs under a lease, or the stored response is replayed.

import { bodyUnseen, callbackError, show } from '../errors.ts'
import type { IdempotencyOutcome } from '../events.ts'
import { fingerprint, fingerprintOfValue } from '../http/fingerprint.ts'
import { type KeyField, parseIdempotencyKey } from '../http/idempotency-key.ts'
import type { Reply, RequestBody } from '../ports/exchange.ts'
import type {
  AttemptEnd,
  AttemptObserver,
  IdempotentExchange,
} from '../ports/idempotent-exchange.ts'
import { contextOf, type IdempotencyTrace, idempotencyTracing, trace } from '../tracing.ts'
import { type Attempt, HandlerAttempt } from './attempt.ts'
import { type Begun, beginAttempt } from './begin.ts'
import type { IdempotencyRuleSet } from './options.ts'
import { type RefusalCode, type Refused, refuse, replyFor } from './replies.ts'
import { Running } from './running.ts'
import type { IdempotencyRuntime } from './runtime.ts'
import type { Claim } from './types.ts'

/** A promise only if the result is not available synchronously. */
type Maybe = void | Promise<void>

/** One request with a method that the options name. */
interface Visit {
  readonly rt: IdempotencyRuntime
  readonly rules: IdempotencyRuleSet
  readonly exchange: IdempotentExchange
  readonly attach: (attempt: Attempt) => void
  /** Set when the request has a valid key, a scope and a fingerprint. */
  claim: Claim | undefined
}

/**
 * Handles one request. `attach` makes the attempt object available to the handler. Throws or
 * rejects only with an error of a callback option, or with `ERR_STAMPEDE_BODY_UNSEEN`.
 */
export function handleIdempotent(
  rt: IdempotencyRuntime,
  rules: IdempotencyRuleSet,
  exchange: IdempotentExchange,
  attach: (attempt: Attempt) => void,
): Maybe {
  const { request, native } = exchange
  if (!rules.methods.has(request.method)) return exchange.forward([])
  const visit: Visit = { rt, rules, exchange, attach, claim: undefined }
  const field = readKey(visit)
  const { lostLines } = request
  // The key itself may be among the lines that were cut off.
  if (lostLines === 'cut-head' || (lostLines !== undefined && field.type !== 'missing'))
    return refuseWith(visit, 'idempotency-request-ambiguous')
  if (field.type === 'key') {
    const scope = rules.scope(native)
    return isThenable(scope)
      ? Promise.resolve(scope).then(readBody.bind(undefined, visit, field.key))
      : readBody(visit, field.key, scope)
  }
  if (field.type === 'invalid') return refuseWith(visit, 'idempotency-key-invalid', field.problem)
  if (field.type === 'duplicate') return refuseWith(visit, 'idempotency-key-duplicate')
  return rules.required(native)
    ? refuseWith(visit, 'idempotency-key-missing')
    : exchange.forward([])
}

/** The key in one of the configured fields. If two fields have a key, both must be equal. */
function readKey({ rules, exchange }: Visit): KeyField {
  let found: KeyField = { type: 'missing' }
  for (const name of rules.headers) {
    const field = parseIdempotencyKey(exchange.lines(name), rules.strict)
    if (field.type === 'missing') continue
    if (field.type !== 'key') return field
    if (found.type === 'key' && found.key !== field.key) return { type: 'duplicate' }
    found = field
  }
  return found
}

function readBody(visit: Visit, name: string, scope: unknown): Maybe {
  const { rt, rules, exchange } = visit
  const { native } = exchange
  const key = rt.hashes.requestKey(scope, name)
  if (key === undefined) {
    // A default scope for all users would replay the response of one user to another.
    const fix =
      'return a non-empty string or a number, and mount authentication before idempotency()'
    throw callbackError('idempotency.scope', `the function returned ${show(scope)}; ${fix}`)
  }
  // The middleware may be mounted twice, such as on the app and on a router. Then the second one
  // must not treat the request as a repeat of itself.
  const known = rt.attempts.get(key)
  if (known?.type === 'running' && known.claim.native === native) return exchange.forward([])
  const { fingerprint: mode, maxBodyBytes } = rules
  const content = typeof mode === 'function' ? mode(native) : exchange.readBody(maxBodyBytes)
  return isThenable(content)
    ? Promise.resolve(content).then(claimKey.bind(undefined, visit, key, name))
    : claimKey(visit, key, name, content)
}

function claimKey(visit: Visit, key: string, name: string, content: unknown): Maybe {
  const { rt, rules, exchange } = visit
  const { request, native } = exchange
  const mode = rules.fingerprint
  const fingerprints =
    typeof mode === 'function'
      ? fingerprintOfValue(rt.hashes, request, content)
      : fingerprint(rt.hashes, request, content as RequestBody, mode)
  if (fingerprints === undefined) {
    const problem = 'the function must return a value that JSON can represent'
    throw callbackError('idempotency.fingerprint', problem)
  }
  if (fingerprints === 'unseen') throw bodyUnseen('idempotency', 'fingerprint')
  if (typeof fingerprints === 'string')
    return refuseWith(visit, `idempotency-request-${fingerprints}`)
  const context: IdempotencyTrace | undefined = idempotencyTracing.hasSubscribers
    ? contextOf(key, { kind: 'http' } as const, name)
    : undefined
  const claim = { key, name, fingerprints, policy: rules, native, trace: context }
  visit.claim = claim
  const begin = () => {
    const begun = beginAttempt(rt, claim)
    return begun instanceof Promise
      ? begun.then(proceed.bind(undefined, visit, claim))
      : proceed(visit, claim, begun)
  }
  return context === undefined ? begin() : trace(idempotencyTracing, context, begin)
}

function proceed(visit: Visit, claim: Claim, begun: Begun): Maybe {
  const { rt, rules, exchange, attach } = visit
  if (begun instanceof Running) {
    report(visit, begun.begun.isRecovery ? 'recovered' : 'started')
    attach(new HandlerAttempt(rt, claim.key, begun))
    // A trace lasts until the end of the attempt.
    const over = claim.trace && begun.over()
    return exchange.run(begun.holdsAll ? transactionOf(visit, begun) : begun) ?? over
  }
  if (begun.type === 'unavailable' && claim.trace !== undefined) claim.trace.error = begun.error
  // After close(), this process begins no new work.
  const runs = begun.type === 'unavailable' && rules.onStoreError === 'proceed' && !rt.closed
  if (!runs) return send(visit, replyFor(begun, rules.docsUrl, exchange))
  report(visit, 'unprotected')
  attach(new HandlerAttempt(rt, claim.key))
  return exchange.forward([['idempotency-status', 'unprotected']])
}

/** The reply for a transaction that did not commit. */
const LOST = {
  failed: 'idempotency-transaction-failed',
  ended: 'idempotency-transaction-ended',
  unknown: 'idempotency-outcome-unknown',
} as const

/** Observes a handler in a transaction. The adapter sends its response after the commit. */
function transactionOf(visit: Visit, running: Running): AttemptObserver {
  const { maxBodyBytes, graceMs, holdsAll } = running
  const onEnd = async (end: AttemptEnd): Promise<Reply | undefined> => {
    const { docsUrl } = visit.rules
    const isTooLarge = end.type === 'not-retained' && running.keepsBody
    const ended = await running.endTransaction(isTooLarge ? { type: 'unanswered' } : end)
    if (isTooLarge) return refuse('idempotency-response-too-large', docsUrl).reply
    if (ended === 'stale') return replyOfOther(visit, running.claim)
    return ended in LOST ? refuse(LOST[ended as keyof typeof LOST], docsUrl).reply : undefined
  }
  return { maxBodyBytes, graceMs, holdsAll, onEnd }
}

/** The reply if another attempt has written the record, and this one was rolled back. */
async function replyOfOther({ rt, rules, exchange }: Visit, claim: Claim): Promise<Reply> {
  const begun = await beginAttempt(rt, claim)
  if (begun instanceof Running) await begun.endTransaction({ type: 'unanswered' })
  else if (begun.type !== 'busy' && begun.type !== 'unavailable')
    // Fields of the handler are set now, and go with its response.
    return replyFor(begun, rules.docsUrl, { request: exchange.request, isSet: () => false }).reply
  return refuse('idempotency-outcome-unknown', rules.docsUrl).reply
}

function refuseWith(visit: Visit, code: RefusalCode, detail?: string): void {
  send(visit, refuse(code, visit.rules.docsUrl, { detail }))
}

function send(visit: Visit, { outcome, reply }: Refused): void {
  report(visit, outcome)
  visit.exchange.send(reply)
}

function report({ rt, claim }: Visit, outcome: IdempotencyOutcome): void {
  const { key = '', name = '', trace } = claim ?? {}
  if (trace !== undefined) trace.outcome = outcome
  rt.events.emit({ type: 'idempotency.answered', key, outcome }, name)
}

/**
 * Whether the value must be awaited. A promise for each value would cost more than most of these
 * steps. The thenable of an app may have a `then` that returns no promise.
 */
function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof (value as { then?: unknown } | null | undefined)?.then === 'function'
}
