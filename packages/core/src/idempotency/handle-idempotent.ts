// The journey of a request with an idempotency key: key, scope, fingerprint; obtain (this process, the store,
// waiting); then run the handler under a lease, or replay what it answered.

import { bodyUnseen, callbackError, closedError, show } from '../errors.ts'
import type { IdempotencyOutcome } from '../events.ts'
import { type KeyField, parseIdempotencyKey } from '../http/idempotency-key.ts'
import type { Fingerprints } from '../ports/idempotency-store.ts'
import type { IdempotentExchange } from '../ports/idempotent-exchange.ts'
import { type Attempt, type Directed, direct } from './attempt.ts'
import type { Claim } from './claim.ts'
import { customFingerprint, fingerprint, type NotSeen } from './fingerprint.ts'
import { keptFrom } from './given-answer.ts'
import { type IdempotencyRuleSet, type Reconcile, scopeText } from './idempotency-options.ts'
import { type RefusalCode, type Refused, refuse } from './idempotency-problems.ts'
import type { IdempotencyRuntime } from './idempotency-runtime.ts'
import type { Kept } from './kept-response.ts'
import { type Obtained, obtain } from './obtain.ts'
import { replyFor, type Settled } from './replay.ts'
import type { Running } from './running.ts'
import { settleAnswer } from './settle-answer.ts'
import { whenKnown } from './when-known.ts'

/** A promise only where there is something to wait for. */
type Maybe = void | Promise<void>

interface Journey<Native> {
  readonly rt: IdempotencyRuntime
  readonly rules: IdempotencyRuleSet<Native>
  readonly exchange: IdempotentExchange<Native>
  /** Hands the attempt to the handler. */
  readonly attach: (attempt: Attempt) => void
  /** Of the record; empty before it is known. */
  key: string
  /** As the client wrote it. */
  name: string
}

/** Rejects, and throws, only with what the user's own callbacks threw, or when the body cannot be seen. */
export function handleIdempotent<Native>(
  rt: IdempotencyRuntime,
  rules: IdempotencyRuleSet<Native>,
  exchange: IdempotentExchange<Native>,
  attach: (attempt: Attempt) => void,
): Maybe {
  if (!rules.methods.has(exchange.request.method)) return exchange.bypass([])
  const journey = { rt, rules, exchange, attach, key: '', name: '' }
  const field = readKey(rules, exchange)
  if (field.type === 'key') return identify(journey, field.key)
  if (field.type === 'missing') {
    if (!rules.required(exchange.native)) return exchange.bypass([])
    return turnAway(journey, 'idempotency-key-missing')
  }
  const code = field.type === 'duplicate' ? 'idempotency-key-duplicate' : 'idempotency-key-invalid'
  const detail = field.type === 'invalid' ? { detail: field.problem } : {}
  answer(journey, refuse(code, rules.docsUrl, detail))
}

/** One key under any of its names; under two of them it must be the same. */
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
  return whenKnown(rules.scope(exchange.native), (said) => inScope(journey, rawKey, said))
}

function inScope<Native>(journey: Journey<Native>, rawKey: string, said: unknown): Maybe {
  const { rt, exchange } = journey
  const scope = scopeText(said)
  if (scope === undefined) {
    // A shared bucket would answer one user with what another was told.
    throw callbackError(
      'idempotency.scope',
      `the function returned ${show(said)}; return a non-empty string or a number, and mount authentication before idempotency()`,
    )
  }
  const key = rt.names.recordKey('http', scope, rawKey)
  // Mounted twice, on the app and on a router say: to itself a request is no duplicate.
  if (rt.running.get(key)?.claim.native === exchange.native) return exchange.bypass([])
  return whenKnown(readFingerprints(journey), (seen) => compare(journey, key, rawKey, seen))
}

function compare<Native>(
  journey: Journey<Native>,
  key: string,
  name: string,
  fingerprints: Fingerprints | NotSeen,
): Maybe {
  if (fingerprints === 'unseen') throw bodyUnseen()
  if (typeof fingerprints === 'string') {
    return turnAway(journey, `idempotency-request-${fingerprints}`)
  }
  journey.key = key
  journey.name = name
  const { native } = journey.exchange
  return claim(journey, { key, name, fingerprints, policy: journey.rules.policy, native })
}

function readFingerprints<Native>({
  rt,
  rules,
  exchange,
}: Journey<Native>): Fingerprints | NotSeen | Promise<Fingerprints | NotSeen> {
  const { request, native } = exchange
  const mode = rules.fingerprint
  if (typeof mode !== 'function') {
    const body = exchange.readBody(rules.maxRequestBytes)
    return whenKnown(body, (seen) => fingerprint(rt.names, request, seen, mode))
  }
  return whenKnown(mode(native), (value) => {
    const own = customFingerprint(rt.names, request, value)
    if (own !== undefined) return own
    throw callbackError(
      'idempotency.fingerprint',
      'the function must return a value that JSON can represent',
    )
  })
}

function claim<Native>(journey: Journey<Native>, claim: Claim): Maybe {
  const { rt } = journey
  let obtained: Obtained | Promise<Obtained>
  try {
    if (rt.closed) throw closedError()
    obtained = obtain(rt, claim)
  } catch (error) {
    return withoutStore(journey, claim, error)
  }
  if (!(obtained instanceof Promise)) return goOn(journey, obtained)
  return obtained.then(
    (late) => goOn(journey, late),
    (error) => withoutStore(journey, claim, error),
  )
}

function withoutStore<Native>(journey: Journey<Native>, claim: Claim, error: unknown): Maybe {
  const { rt, rules, exchange } = journey
  rt.events.emit({ type: 'store.failed', key: claim.key, operation: 'begin', error }, claim.name)
  // A process that is being stopped has no business with new work.
  if (rules.onStoreError === 'reject' || rt.closed) {
    return turnAway(journey, 'idempotency-store-unavailable')
  }
  report(journey, 'unprotected')
  journey.attach(direct(rt, claim.key, undefined).attempt)
  return exchange.bypass([['idempotency-status', 'unprotected']])
}

function goOn<Native>(journey: Journey<Native>, obtained: Obtained): Maybe {
  return obtained.type === 'run' ? run(journey, obtained.running) : replay(journey, obtained)
}

function replay<Native>(journey: Journey<Native>, obtained: Settled): void {
  answer(journey, replyFor(obtained, journey.rules.docsUrl, journey.exchange))
}

function run<Native>(journey: Journey<Native>, running: Running): Maybe {
  const directed = direct(journey.rt, journey.key, running)
  const { reconcile } = journey.rules
  if (!running.begun.isRecovery || reconcile === undefined) return start(journey, directed, running)
  return recover(journey, directed, running, reconcile)
}

async function recover<Native>(
  journey: Journey<Native>,
  directed: Directed,
  running: Running,
  ask: Reconcile<Native>,
): Promise<void> {
  const found = await reconcile(journey, directed, running, ask)
  if (found === 'uncertain') {
    await running.finish({ as: 'uncertain' })
    return replay(journey, { type: 'uncertain' })
  }
  if (found !== 'takeover') {
    await running.finish({ as: 'completed', kept: found })
    return replay(journey, { type: 'done', kept: found, from: 'store' })
  }
  if (!(await running.mayStart())) return replay(journey, { type: 'busy' })
  return start(journey, directed, running)
}

function start<Native>(journey: Journey<Native>, directed: Directed, running: Running): Maybe {
  const { rules, exchange } = journey
  report(journey, running.begun.isRecovery ? 'recovered' : 'started')
  journey.attach(directed.attempt)
  return exchange.run({
    maxBodyBytes: rules.maxBodyBytes,
    patienceMs: rules.policy.maxHoldMs,
    onEnd(end) {
      const outcome = settleAnswer(end, directed.said)
      if (outcome === undefined) return running.abandon('the handler did not respond')
      const told = running.finish(outcome)
      return told instanceof Promise ? told.then(() => {}) : undefined
    },
  })
}

/** One that fails leaves everything as it was: the lease runs out, and the next request asks again. */
async function reconcile<Native>(
  { exchange }: Journey<Native>,
  { attempt }: Directed,
  running: Running,
  ask: Reconcile<Native>,
): Promise<'takeover' | 'uncertain' | Kept> {
  try {
    const found = await ask(attempt, exchange.native)
    if (found === 'takeover' || found === 'uncertain') return found
    return keptFrom('idempotency.onLeaseExpired', found)
  } catch (error) {
    running.abandon('onLeaseExpired failed')
    throw error
  }
}

function turnAway<Native>(journey: Journey<Native>, code: RefusalCode): void {
  answer(journey, refuse(code, journey.rules.docsUrl))
}

function answer<Native>(journey: Journey<Native>, { outcome, reply }: Refused): void {
  report(journey, outcome)
  journey.exchange.send(reply)
}

function report<Native>({ rt, key, name }: Journey<Native>, outcome: IdempotencyOutcome): void {
  rt.events.emit({ type: 'idempotency.answered', key, outcome }, name)
}
