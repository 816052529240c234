// Handles a request with an idempotency key. Key, scope and fingerprint are read, and an attempt
// begins. Then the handler runs under a lease, or the stored response is replayed.

import { bodyUnseen, callbackError, show } from '../errors.ts'
import type { IdempotencyOutcome } from '../events.ts'
import { fingerprint, fingerprintOfValue } from '../http/fingerprint.ts'
import { type KeyField, parseIdempotencyKey } from '../http/idempotency-key.ts'
import type { Reply, RequestBody } from '../ports/exchange.ts'
import type { Fingerprints } from '../ports/idempotency-store.ts'
import type {
  AttemptEnd,
  AttemptObserver,
  IdempotentExchange,
} from '../ports/idempotent-exchange.ts'
import { contextOf, type IdempotencyTrace, idempotencyTracing, trace } from '../tracing.ts'
import { type Attempt, HandlerAttempt } from './attempt.ts'
import { type Begun, beginAttempt, type Settled } from './begin.ts'
import type { IdempotencyRuleSet } from './options.ts'
import { type RefusalCode, type Refused, refuse, replyFor } from './replies.ts'
import { Running } from './running.ts'
import type { IdempotencyRuntime } from './runtime.ts'
import type { Claim } from './types.ts'

/** A promise only if the result is not available synchronously. */
type Maybe = void | Promise<void>

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
  if (!rules.methods.has(exchange.request.method)) return exchange.forward([])
  return new Journey(rt, rules, exchange, attach).start()
}

/** The reply for a transaction that did not commit. */
const LOST = {
  failed: 'idempotency-transaction-failed',
  ended: 'idempotency-transaction-ended',
  unknown: 'idempotency-outcome-unknown',
} as const

/** One request, with its steps in the order in which they run. */
class Journey {
  readonly #rt: IdempotencyRuntime
  readonly #rules: IdempotencyRuleSet
  readonly #exchange: IdempotentExchange
  readonly #attach: (attempt: Attempt) => void
  /** Set when the request has a valid key, a scope and a fingerprint. */
  #claim: Claim | undefined

  constructor(
    rt: IdempotencyRuntime,
    rules: IdempotencyRuleSet,
    exchange: IdempotentExchange,
    attach: (attempt: Attempt) => void,
  ) {
    this.#rt = rt
    this.#rules = rules
    this.#exchange = exchange
    this.#attach = attach
  }

  start(): Maybe {
    const { request, native } = this.#exchange
    const field = this.#readKey()
    const { lostLines } = request
    // The key itself may be among the lines that were cut off.
    if (lostLines === 'cut-head' || (lostLines !== undefined && field.type !== 'missing'))
      return this.#refuse('idempotency-request-ambiguous')
    if (field.type === 'key') {
      const scope = this.#rules.scope(native)
      return isThenable(scope)
        ? Promise.resolve(scope).then((known) => this.#readBody(field.key, known))
        : this.#readBody(field.key, scope)
    }
    if (field.type === 'invalid') return this.#refuse('idempotency-key-invalid', field.problem)
    if (field.type === 'duplicate') return this.#refuse('idempotency-key-duplicate')
    return this.#rules.required(native)
      ? this.#refuse('idempotency-key-missing')
      : this.#exchange.forward([])
  }

  /** The key in one of the configured fields. If two fields have a key, both must be equal. */
  #readKey(): KeyField {
    const { headers, strict } = this.#rules
    let found: KeyField = { type: 'missing' }
    for (const name of headers) {
      const field = parseIdempotencyKey(this.#exchange.lines(name), strict)
      if (field.type === 'missing') continue
      if (field.type !== 'key') return field
      if (found.type === 'key' && found.key !== field.key) return { type: 'duplicate' }
      found = field
    }
    return found
  }

  #readBody(name: string, scope: unknown): Maybe {
    const { attempts, hashes } = this.#rt
    const { native } = this.#exchange
    const key = hashes.requestKey(scope, name)
    if (key === undefined) {
      // A default scope for all users would replay the response of one user to another.
      const fix =
        'return a non-empty string or a number, and mount authentication before idempotency()'
      throw callbackError('idempotency.scope', `the function returned ${show(scope)}; ${fix}`)
    }
    // The middleware may be mounted twice, such as on the app and on a router. Then the second one
    // must not treat the request as a repeat of itself.
    const known = attempts.get(key)
    if (known?.type === 'running' && known.claim.native === native)
      return this.#exchange.forward([])
    const { fingerprint: mode, maxBodyBytes } = this.#rules
    const content =
      typeof mode === 'function' ? mode(native) : this.#exchange.readBody(maxBodyBytes)
    return isThenable(content)
      ? Promise.resolve(content).then((read) => this.#claimKey(key, name, read))
      : this.#claimKey(key, name, content)
  }

  #claimKey(key: string, name: string, content: unknown): Maybe {
    const { request, native } = this.#exchange
    const mode = this.#rules.fingerprint
    const fingerprints =
      typeof mode === 'function'
        ? this.#customPrints(content)
        : fingerprint(this.#rt.hashes, request, content as RequestBody, mode)
    if (fingerprints === 'unseen') throw bodyUnseen('idempotency', 'fingerprint')
    if (typeof fingerprints === 'string') return this.#refuse(`idempotency-request-${fingerprints}`)
    const context: IdempotencyTrace | undefined = idempotencyTracing.hasSubscribers
      ? contextOf(key, { kind: 'http' } as const, name)
      : undefined
    const claim = { key, name, fingerprints, policy: this.#rules, native, trace: context }
    this.#claim = claim
    const begin = () => {
      const begun = beginAttempt(this.#rt, claim)
      if (!(begun instanceof Promise)) return this.#proceed(begun)
      return begun.then((result) => this.#proceed(result))
    }
    return context === undefined ? begin() : trace(idempotencyTracing, context, begin)
  }

  #customPrints(value: unknown): Fingerprints {
    const prints = fingerprintOfValue(this.#rt.hashes, this.#exchange.request, value)
    if (prints !== undefined) return prints
    const problem = 'the function must return a value that JSON can represent'
    throw callbackError('idempotency.fingerprint', problem)
  }

  #proceed(begun: Begun): Maybe {
    const exchange = this.#exchange
    if (!(begun instanceof Running)) return this.#withoutAttempt(begun)
    this.#report(begun.begun.isRecovery ? 'recovered' : 'started')
    this.#attach(new HandlerAttempt(this.#rt, begun.claim.key, begun))
    // A trace lasts until the end of the attempt.
    const over = begun.claim.trace && begun.over()
    return exchange.run(begun.holdsAll ? this.#inTransaction(begun) : begun) ?? over
  }

  #withoutAttempt(settled: Settled): Maybe {
    const { key = '', trace } = this.#claim ?? {}
    if (settled.type === 'unavailable') {
      if (trace !== undefined) trace.error = settled.error
      // After close(), this process begins no new work.
      if (this.#rules.onStoreError === 'proceed' && !this.#rt.closed) {
        this.#report('unprotected')
        this.#attach(new HandlerAttempt(this.#rt, key))
        return this.#exchange.forward([['idempotency-status', 'unprotected']])
      }
    }
    this.#send(replyFor(settled, this.#rules.docsUrl, this.#exchange))
  }

  /** Gets the response of a handler in a transaction. The adapter sends it after the commit. */
  #inTransaction(running: Running): AttemptObserver {
    const { maxBodyBytes, graceMs, holdsAll } = running
    const onEnd = async (end: AttemptEnd): Promise<Reply | undefined> => {
      const { docsUrl } = this.#rules
      const isTooLarge = end.type === 'not-retained' && running.keepsBody
      const ended = await running.endTransaction(isTooLarge ? { type: 'unanswered' } : end)
      if (isTooLarge) return refuse('idempotency-response-too-large', docsUrl).reply
      if (ended === 'stale') return this.#replyOfOther(running.claim)
      return ended in LOST ? refuse(LOST[ended as keyof typeof LOST], docsUrl).reply : undefined
    }
    return { maxBodyBytes, graceMs, holdsAll, onEnd }
  }

  /** The reply if another attempt has written the record, and this one was rolled back. */
  async #replyOfOther(claim: Claim): Promise<Reply> {
    const { docsUrl } = this.#rules
    // Fields of the handler are set now, and go with its response.
    const exchange = { request: this.#exchange.request, isSet: () => false }
    const begun = await beginAttempt(this.#rt, claim)
    if (begun instanceof Running) await begun.endTransaction({ type: 'unanswered' })
    else if (begun.type !== 'busy' && begun.type !== 'unavailable')
      return replyFor(begun, docsUrl, exchange).reply
    return refuse('idempotency-outcome-unknown', docsUrl).reply
  }

  #refuse(code: RefusalCode, detail?: string): void {
    this.#send(refuse(code, this.#rules.docsUrl, { detail }))
  }

  #send({ outcome, reply }: Refused): void {
    this.#report(outcome)
    this.#exchange.send(reply)
  }

  #report(outcome: IdempotencyOutcome): void {
    const { key = '', name = '', trace } = this.#claim ?? {}
    if (trace !== undefined) trace.outcome = outcome
    this.#rt.events.emit({ type: 'idempotency.answered', key, outcome }, name)
  }
}

/**
 * Whether the value must be awaited. A promise for each value would cost more than most of these
 * steps. The thenable of an app may have a `then` that returns no promise.
 */
function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof (value as { then?: unknown } | null | undefined)?.then === 'function'
}
