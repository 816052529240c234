// One attempt of this process: its lease with the renewal, the signal that reports its loss, and
// its end.

import { leaseLost } from '../errors.ts'
import type { Deadline } from '../lease/deadlines.ts'
import { driftMs } from '../lease/drift.ts'
import type { Hold, HoldHooks } from '../lease/lease-keeper.ts'
import type {
  BeginReply,
  Finish,
  FinishReply,
  LocalIdempotency,
} from '../ports/idempotency-store.ts'
import type { Claim } from './claim.ts'
import type { IdempotencyRuntime } from './idempotency-runtime.ts'
import { encodeKept, type Kept, LazyKept, ownKept } from './kept-response.ts'

export type Begun = BeginReply & { readonly status: 'begun' }

/** How an attempt ended. `completed` is final. */
export type Outcome =
  | { readonly as: 'completed'; readonly kept: Kept }
  | { readonly as: 'released' }
  | { readonly as: 'uncertain' }

/** An uncertain record waits for an operator: a week. */
export const KEEP_UNCERTAIN_MS: number = 7 * 24 * 3600 * 1000
/** A client waits no longer than this for the store, also if the store has no budget of its own. */
const FINISH_WITHIN_MS = 1_000
const NOT_OURS = 'another attempt has it, or the store lost it'
const LATE = 'it was not renewed in time'

/** It is held by several, for as long as it may be replayed. */
function ownOutcome(outcome: Outcome): Outcome {
  return outcome.as === 'completed' ? { as: 'completed', kept: ownKept(outcome.kept) } : outcome
}

export class Running {
  readonly claim: Claim
  readonly begun: Begun
  readonly #rt: IdempotencyRuntime
  readonly #hold: Hold
  /** Made when the handler asks for the signal. */
  #abort: AbortController | undefined
  #whyLost: string | undefined
  #leaseEndsAt = 0
  /** When `maxHoldMs` is over. Once the handler has answered, it no longer counts. */
  #longestUntil: number
  #deadline: Deadline | undefined
  #isOver = false

  /** `sentAt`: when the command was sent. The lease counts from then. */
  constructor(rt: IdempotencyRuntime, claim: Claim, begun: Begun, sentAt: number) {
    this.#rt = rt
    this.claim = claim
    this.begun = begun
    const { leaseMs, maxHoldMs } = claim.policy
    const now = rt.clock.now()
    this.#longestUntil = now + maxHoldMs
    const hooks: HoldHooks = {
      renewed: (sentAt) => this.#watch(sentAt),
      lost: () => this.#lost(NOT_OURS),
    }
    this.#hold = rt.keeper.hold(begun.grant, leaseMs, hooks, Math.max(0, sentAt + leaseMs - now))
    rt.running.set(claim.key, this)
    this.#watch(sentAt)
  }

  /** Aborted if the lease is lost or was not renewed in time: another attempt may begin. */
  get signal(): AbortSignal {
    this.#abort ??= new AbortController()
    if (this.isLost) this.#abort.abort(leaseLost(this.#whyLost ?? LATE))
    return this.#abort.signal
  }

  get isLost(): boolean {
    // Timers are late after a suspended machine or a blocked event loop. The clock is not.
    if (this.#rt.clock.now() >= this.#leaseEndsAt) this.#lost(LATE)
    return this.#whyLost !== undefined
  }

  /**
   * Whether the work may begin. If the lease is already lost, the attempt is released, since
   * another may run.
   */
  mayStart(): boolean | Promise<boolean> {
    return this.isLost ? this.#release() : true
  }

  async #release(): Promise<false> {
    await this.finish({ as: 'released' })
    return false
  }

  /** Lets the lease run out: the outcome is unknown. */
  abandon(why: string): void {
    this.#lost(why)
    this.#over()
  }

  /** Asks the store whether the lease is still ours: an operator may have settled the key. */
  async verify(): Promise<void> {
    const asked = this.#rt.store.renew([this.begun.grant], this.claim.policy.leaseMs)
    const replies = await asked.catch(() => undefined)
    if (replies?.[0] === false) this.#lost(NOT_OURS)
  }

  /**
   * False if another attempt has the key by now, so the result does not count. Never rejects;
   * bounded in time. A store in this process may reply at once.
   */
  finish(outcome: Outcome): boolean | Promise<boolean> {
    this.#longestUntil = Infinity
    const own = ownOutcome(outcome)
    const local = this.#rt.local()
    if (local === undefined) return this.#tell(own).then((reply) => this.#finished(own, reply))
    return this.#finished(own, this.#tellNow(local, own))
  }

  #finished(outcome: Outcome, reply: FinishReply | undefined): boolean {
    if (reply !== undefined) return this.#accept(outcome, reply)
    // A newer attempt of this process decides.
    if (this.#isTakenOver()) return this.#accept(outcome, 'stale')
    this.#finishLater(outcome)
    return true
  }

  /** The lease is renewed until the result is stored. */
  #finishLater(outcome: Outcome): void {
    const { key, policy, fingerprints } = this.claim
    const kept = outcome.as === 'completed' ? outcome.kept : undefined
    // `retry` holds neither the outcome nor its frame: each would be another copy of the body.
    const bare = outcome.as === 'completed' ? undefined : outcome
    const retry = async (left: Kept | undefined) => {
      const ending = bare ?? { as: 'completed', kept: left as Kept }
      const late = await this.#tell(ending)
      if (late !== undefined) this.#accept(ending, late)
      return late !== undefined
    }
    const giveUp = () => this.#over()
    this.#rt.unstored.add(key, { kept, fingerprints, retry, giveUp }, policy.retentionMs)
    this.#notRunning()
    this.#report(outcome, 'late')
  }

  #encode(outcome: Outcome): Finish {
    const { key } = this.claim
    const keepMs = this.#keepMs(outcome)
    if (outcome.as !== 'completed') return { as: outcome.as, keepMs }
    const frame = this.#rt.seal.seal(key, encodeKept(key, outcome.kept))
    return { as: 'completed', frame, keepMs }
  }

  #keepMs({ as }: Outcome): number {
    return as === 'uncertain' ? KEEP_UNCERTAIN_MS : this.claim.policy.retentionMs
  }

  /** Undefined if the store did not take it. */
  #tellNow(local: LocalIdempotency, outcome: Outcome): FinishReply | undefined {
    const { key, fingerprints } = this.claim
    // What is sealed is sealed in memory too.
    const isLazy = outcome.as === 'completed' && !this.#rt.seal.hasKeys
    const finish = isLazy
      ? { as: outcome.as, frame: new LazyKept(key, outcome.kept), keepMs: this.#keepMs(outcome) }
      : this.#encode(outcome)
    try {
      return local.finishNow(this.begun.grant, finish, fingerprints)
    } catch (error) {
      return this.#untold(error)
    }
  }

  /** Undefined if the store did not reply. */
  #tell(outcome: Outcome): Promise<FinishReply | undefined> {
    const { store, clock, deadlines } = this.#rt
    const { grant } = this.begun
    const finish = this.#encode(outcome)
    return new Promise((resolve) => {
      const late = deadlines.add(clock.now() + FINISH_WITHIN_MS, () => resolve(undefined))
      const told = (reply: FinishReply | undefined): void => {
        deadlines.end(late)
        resolve(reply)
      }
      const telling = (async () => store.finish(grant, finish, this.claim.fingerprints))()
      telling.then(told, (error: unknown) => told(this.#untold(error)))
    })
  }

  #untold(error: unknown): undefined {
    const { key, name } = this.claim
    this.#rt.events.emit({ type: 'store.failed', key, operation: 'finish', error }, name)
  }

  #accept(outcome: Outcome, reply: FinishReply): boolean {
    const { key, policy, fingerprints } = this.claim
    if (reply === 'stale') this.#lost('another attempt has taken over')
    else if (outcome.as === 'completed')
      this.#rt.replays.add(key, { kept: outcome.kept, fingerprints }, policy.retentionMs)
    this.#over()
    this.#report(outcome, reply)
    return reply !== 'stale'
  }

  /** Whether another attempt of this process runs or has completed. */
  #isTakenOver(): boolean {
    const { running, replays } = this.#rt
    const { key } = this.claim
    const latest = running.get(key) ?? this
    return latest !== this || replays.get(key) !== undefined
  }

  #report({ as }: Outcome, reply: FinishReply | 'late'): void {
    const { key, name } = this.claim
    this.#rt.events.emit({ type: 'idempotency.finished', key, as, reply }, name)
  }

  /** Our own clock ends the lease; no reply is needed. */
  #watch(from: number): void {
    const { leaseMs, maxHoldMs } = this.claim.policy
    this.#leaseEndsAt = from + leaseMs - driftMs(leaseMs)
    const endsInMs = Math.min(this.#leaseEndsAt, this.#longestUntil) - this.#rt.clock.now()
    this.#rt.deadlines.end(this.#deadline)
    const end = () => {
      if (this.#rt.clock.now() >= this.#longestUntil)
        this.abandon(`it took longer than maxHoldMs (${maxHoldMs})`)
      else if (!this.isLost) this.#watch(from)
    }
    if (endsInMs <= 0) end()
    else this.#deadline = this.#rt.deadlines.add(this.#rt.clock.now() + endsInMs, end)
  }

  #lost(why: string): void {
    if (this.#isOver || this.#whyLost !== undefined) return
    this.#whyLost = why
    this.#abort?.abort(leaseLost(why))
    this.#notRunning()
    const { key, name } = this.claim
    this.#rt.events.emit({ type: 'lease.lost', key, fence: this.begun.grant.fence }, name)
  }

  /** Duplicates ask the store again. */
  #notRunning(): void {
    const { key } = this.claim
    if (this.#rt.running.get(key) !== this) return
    this.#rt.running.delete(key)
    this.#rt.waiters.wake(key)
  }

  #over(): void {
    this.#isOver = true
    this.#hold.end()
    this.#rt.deadlines.end(this.#deadline)
    this.#notRunning()
  }
}
