// Handles a request with an idempotency key. Key, scope and fingerprint are read, and an attempt
// begins. Then the handler runs under a lease, or the stored response is replayed.

import { bodyUnseen, callbackError, closedError, show } from '../errors.ts'
import type { IdempotencyOutcome } from '../events.ts'
import { type KeyField, parseIdempotencyKey } from '../http/idempotency-key.ts'
import type { Fingerprints } from '../ports/idempotency-store.ts'
import type { IdempotentExchange } from '../ports/idempotent-exchange.ts'
import { contextOf, type IdempotencyTrace, idempotencyTracing, trace } from '../tracing.ts'
import { type Attempt, createAttempt, outcomeOf } from './attempt.ts'
import type { Claim } from './attempts.ts'
import { type Begun, beginAttempt, type Settled } from './begin.ts'
import { fingerprint, fingerprintOfValue, type NoFingerprint } from './fingerprint.ts'
import { type IdempotencyRuleSet, scopeText } from './options.ts'
import { type RefusalCode, type Refused, refuse, replyFor } from './problems.ts'
import type { Running } from './running.ts'
import type { IdempotencyRuntime } from './runtime.ts'

/** A promise only if the result is not available synchronously. */
type Maybe = void | Promise<void>

interface Journey<Native> {
  readonly rt: IdempotencyRuntime
  readonly rules: IdempotencyRuleSet<Native>
  readonly exchange: IdempotentExchange<Native>
  /** Makes the attempt object available to the handler. */
  readonly attach: (attempt: Attempt) => void
  /** Key of the record. Empty until it is known. */
  key: string
  /** The key as the client wrote it. Empty until it is known. */
  name: string
  /** Set if the request is traced and its key is known. */
  trace: IdempotencyTrace | undefined
}

/**
 * Handles one request. Throws or rejects only with an error of a callback option, or with
 * `ERR_STAMPEDE_BODY_UNSEEN`.
 */
export function handleIdempotent<Native>(
  rt: IdempotencyRuntime,
  rules: IdempotencyRuleSet<Native>,
  exchange: IdempotentExchange<Native>,
  attach: (attempt: Attempt) => void,
): Maybe {
  if (!rules.methods.has(exchange.request.method)) return exchange.forward([])
  const journey = { rt, rules, exchange, attach, key: '', name: '', trace: undefined }
  const { lostLines } = exchange.request
  const field = readKey(rules, exchange)
  // The key itself may be among the lines that were cut off.
  if (lostLines === 'cut-head' || (lostLines !== undefined && field.type !== 'missing'))
    return rejectRequest(journey, 'idempotency-request-ambiguous')
  if (field.type === 'key') return identify(journey, field.key)
  if (field.type === 'missing') {
    if (!rules.required(exchange.native)) return exchange.forward([])
    return rejectRequest(journey, 'idempotency-key-missing')
  }
  const code = field.type === 'duplicate' ? 'idempotency-key-duplicate' : 'idempotency-key-invalid'
  const detail = field.type === 'invalid' ? { detail: field.problem } : {}
  send(journey, refuse(code, rules.docsUrl, detail))
}

/** The key in one of the configured fields. If two fields have a key, both must be equal. */
function readKey<Native>(
  rules: IdempotencyRuleSet<Native>,
  exchange: IdempotentExchange<Native>,
): KeyField {
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

function identify<Native>(journey: Journey<Native>, rawKey: string): Maybe {
  const { rules, exchange } = journey
  return whenKnown(rules.scope(exchange.native), (scope) => inScope(journey, rawKey, scope))
}

function inScope<Native>(journey: Journey<Native>, rawKey: string, returned: unknown): Maybe {
  const { rt, exchange } = journey
  const scope = scopeText(returned)
  if (scope === undefined) {
    // A default scope for all users would replay the response of one user to another.
    throw callbackError(
      'idempotency.scope',
      `the function returned ${show(returned)}; return a non-empty string or a number, and mount authentication before idempotency()`,
    )
  }
  const key = rt.hashes.recordKey('http', scope, rawKey)
  // The middleware may be mounted twice, such as on the app and on a router. Then the second one
  // must not treat the request as a repeat of itself.
  const known = rt.attempts.get(key)
  if (known?.type === 'running' && known.claim.native === exchange.native)
    return exchange.forward([])
  return whenKnown(readFingerprints(journey), (prints) => compare(journey, key, rawKey, prints))
}

function compare<Native>(
  journey: Journey<Native>,
  key: string,
  name: string,
  fingerprints: Fingerprints | NoFingerprint,
): Maybe {
  if (fingerprints === 'unseen') throw bodyUnseen()
  if (typeof fingerprints === 'string') {
    return rejectRequest(journey, `idempotency-request-${fingerprints}`)
  }
  journey.key = key
  journey.name = name
  const { native } = journey.exchange
  const { policy } = journey.rules
  if (idempotencyTracing.hasSubscribers) {
    const trace: IdempotencyTrace = contextOf(key, { kind: 'http' } as const, name)
    journey.trace = trace
    return claimTraced(journey, { key, name, fingerprints, policy, native, trace }, trace)
  }
  return claim(journey, { key, name, fingerprints, policy, native })
}

/** A function of its own: without a subscriber, no closure is created. */
function claimTraced<Native>(
  journey: Journey<Native>,
  traced: Claim,
  context: IdempotencyTrace,
): Maybe {
  return trace(
    idempotencyTracing,
    context,
    () => claim(journey, traced),
    () => {},
  )
}

function readFingerprints<Native>({
  rt,
  rules,
  exchange,
}: Journey<Native>): Fingerprints | NoFingerprint | Promise<Fingerprints | NoFingerprint> {
  const { request, native } = exchange
  const mode = rules.fingerprint
  if (typeof mode !== 'function') {
    const body = exchange.readBody(rules.maxRequestBytes)
    return whenKnown(body, (read) => fingerprint(rt.hashes, request, read, mode))
  }
  return whenKnown(mode(native), (value) => {
    const prints = fingerprintOfValue(rt.hashes, request, value)
    if (prints !== undefined) return prints
    throw callbackError(
      'idempotency.fingerprint',
      'the function must return a value that JSON can represent',
    )
  })
}

function claim<Native>(journey: Journey<Native>, claim: Claim): Maybe {
  const { rt } = journey
  let begun: Begun | Promise<Begun>
  try {
    if (rt.closed) throw closedError()
    begun = beginAttempt(rt, claim)
  } catch (error) {
    return withoutStore(journey, claim, error)
  }
  if (!(begun instanceof Promise)) return proceed(journey, begun)
  return begun.then(
    (result) => proceed(journey, result),
    (error) => withoutStore(journey, claim, error),
  )
}

function withoutStore<Native>(journey: Journey<Native>, claim: Claim, error: unknown): Maybe {
  const { rt, rules, exchange } = journey
  rt.events.emit({ type: 'store.failed', key: claim.key, operation: 'begin', error }, claim.name)
  if (claim.trace !== undefined) claim.trace.error = error
  // After close(), this process begins no new work.
  if (rules.onStoreError === 'reject' || rt.closed) {
    return rejectRequest(journey, 'idempotency-store-unavailable')
  }
  report(journey, 'unprotected')
  journey.attach(createAttempt(rt, claim.key, undefined).attempt)
  return exchange.forward([['idempotency-status', 'unprotected']])
}

function proceed<Native>(journey: Journey<Native>, begun: Begun): Maybe {
  return begun.type === 'running' ? start(journey, begun) : replay(journey, begun)
}

function replay<Native>(journey: Journey<Native>, settled: Settled): void {
  send(journey, replyFor(settled, journey.rules.docsUrl, journey.exchange))
}

function start<Native>(journey: Journey<Native>, running: Running): Maybe {
  const { rt, rules, exchange, key } = journey
  const directed = createAttempt(rt, key, running)
  report(journey, running.begun.isRecovery ? 'recovered' : 'started')
  journey.attach(directed.attempt)
  return exchange.run({
    maxBodyBytes: Math.min(rules.maxBodyBytes, running.maxBodyBytes),
    graceMs: rules.policy.maxHoldMs,
    onEnd(end) {
      const outcome = outcomeOf(end, directed.decisions)
      if (outcome === undefined) return running.abandon('the handler did not respond')
      return running.finish(outcome)
    },
  })
}

function rejectRequest<Native>(journey: Journey<Native>, code: RefusalCode): void {
  send(journey, refuse(code, journey.rules.docsUrl))
}

function send<Native>(journey: Journey<Native>, { outcome, reply }: Refused): void {
  report(journey, outcome)
  journey.exchange.send(reply)
}

function report<Native>(journey: Journey<Native>, outcome: IdempotencyOutcome): void {
  const { rt, key, name, trace } = journey
  if (trace !== undefined) trace.outcome = outcome
  rt.events.emit({ type: 'idempotency.answered', key, outcome }, name)
}

/**
 * Calls the next function at once with a value, or later with the value of a promise. A promise per
 * call would cost more than most of these functions.
 */
export function whenKnown<T, R>(
  value: T | Promise<T>,
  next: (value: T) => R | Promise<R>,
): R | Promise<R> {
  // `Promise.resolve` wraps a thenable of the app, whose then() need not return a promise.
  return isThenable(value) ? Promise.resolve(value).then(next) : next(value)
}

function isThenable<T>(value: T | Promise<T>): value is Promise<T> {
  return typeof (value as { then?: unknown } | null | undefined)?.then === 'function'
}
