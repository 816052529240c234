// A running attempt of this process: renewal of its lease, the signal when the lease is lost, and
// the end of the attempt.

import { leaseLost } from '../errors.ts'
import type { Deadline } from '../lease/deadlines.ts'
import { driftMs, type Hold, type HoldHooks } from '../lease/lease-keeper.ts'
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

/** How long an uncertain record is kept for an operator: a week. */
export const KEEP_UNCERTAIN_MS: number = 7 * 24 * 3600 * 1000
/** Longest wait for the store at the end of an attempt, for stores without a time budget. */
const FINISH_WITHIN_MS = 1_000
const NOT_OURS = 'another attempt has it, or the store lost its record'
const LATE = 'it was not renewed in time'

/**
 * A copy without references to larger buffers, because the result may stay in memory for replays.
 */
function ownOutcome(outcome: Outcome): Outcome {
  return outcome.as === 'completed' ? { as: 'completed', kept: ownKept(outcome.kept) } : outcome
}

export class Running {
  readonly claim: Claim
  readonly begun: Begun
  readonly #rt: IdempotencyRuntime
  readonly #hold: Hold
  /** Created when the handler first reads the signal. */
  #abort: AbortController | undefined
  #whyLost: string | undefined
  #leaseEndsAt = 0
  /** End of `maxHoldMs`. `Infinity` once the handler has responded. */
  #holdEndsAt: number
  #deadline: Deadline | undefined
  #isOver = false

  /** `sentAt`: the moment at which the command was sent. The lease counts from it. */
  constructor(rt: IdempotencyRuntime, claim: Claim, begun: Begun, sentAt: number) {
    this.#rt = rt
    this.claim = claim
    this.begun = begun
    const { leaseMs, maxHoldMs } = claim.policy
    const now = rt.clock.now()
    this.#holdEndsAt = now + maxHoldMs
    const hooks: HoldHooks = {
      renewed: (sentAt) => this.#watch(sentAt),
      lost: () => this.#lose(NOT_OURS),
    }
    this.#hold = rt.keeper.hold(begun.grant, leaseMs, hooks, Math.max(0, sentAt + leaseMs - now))
    rt.running.set(claim.key, this)
    if (claim.trace !== undefined) claim.trace.fence = BigInt(begun.grant.fence)
    this.#watch(sentAt)
  }

  get maxBodyBytes(): number {
    return this.#rt.store.maxBodyBytes ?? Number.POSITIVE_INFINITY
  }

  /** Aborted if the lease is lost or was not renewed in time. Then another attempt may begin. */
  get signal(): AbortSignal {
    this.#abort ??= new AbortController()
    if (this.isLost) this.#abort.abort(leaseLost(this.#whyLost ?? LATE))
    return this.#abort.signal
  }

  get isLost(): boolean {
    // The clock is checked too, because timers fire late after a suspension or a blocked event
    // loop.
    if (this.#rt.clock.now() >= this.#leaseEndsAt) this.#lose(LATE)
    return this.#whyLost !== undefined
  }

  /**
   * Whether the handler may start. If the lease is already lost, the attempt is released, since
   * another attempt may run.
   */
  mayStart(): boolean | Promise<boolean> {
    return this.isLost ? this.#release() : true
  }

  async #release(): Promise<false> {
    await this.finish({ as: 'released' })
    return false
  }

  /** Stops renewing the lease, because the outcome is unknown. */
  abandon(why: string): void {
    this.#lose(why)
    this.#stop()
  }

  /**
   * Asks the store whether this attempt still holds its lease, because an operator may have settled
   * the record.
   */
  async verify(): Promise<void> {
    const renewal = this.#rt.store.renew([this.begun.grant], this.claim.policy.leaseMs)
    const replies = await renewal.catch(() => undefined)
    if (replies?.[0] === false) this.#lose(NOT_OURS)
  }

  /**
   * Ends the attempt. Returns false if another attempt has taken over, so that the result does not
   * count. Never rejects, and takes a bounded time. With a memory store, the result is no promise.
   */
  finish(outcome: Outcome): boolean | Promise<boolean> {
    this.#holdEndsAt = Infinity
    const own = ownOutcome(outcome)
    const local = this.#rt.local()
    const since = this.#rt.replays.sequence()
    if (local !== undefined) return this.#finished(own, this.#finishNow(local, own), since)
    return this.#send(own).then((reply) => this.#finished(own, reply, since))
  }

  #finished(outcome: Outcome, reply: FinishReply | undefined, since: number): boolean {
    if (reply !== undefined) return this.#accept(outcome, reply, since)
    // A newer attempt in this process has taken over, so this result does not count.
    if (this.#isTakenOver()) return this.#accept(outcome, 'stale', since)
    this.#finishLater(outcome)
    return true
  }

  /** Keeps the result in `unstored`. The lease is renewed until the store has the result. */
  #finishLater(outcome: Outcome): void {
    const { key, policy, fingerprints } = this.claim
    const kept = outcome.as === 'completed' ? outcome.kept : undefined
    // `retry` must not reference the outcome or its frame. Otherwise a second copy of the body
    // would stay in memory.
    const bare = outcome.as === 'completed' ? undefined : outcome
    const retry = async (left: Kept | undefined) => {
      const ending = bare ?? { as: 'completed', kept: left as Kept }
      const since = this.#rt.replays.sequence()
      const reply = await this.#send(ending)
      if (reply !== undefined) this.#accept(ending, reply, since)
      return reply !== undefined
    }
    const giveUp = () => this.#stop()
    this.#rt.unstored.add(key, { kept, fingerprints, retry, giveUp }, policy.retentionMs)
    this.#removeFromRunning()
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

  /** Ends the attempt in a memory store. Undefined if the store threw. */
  #finishNow(local: LocalIdempotency, outcome: Outcome): FinishReply | undefined {
    const { key, fingerprints } = this.claim
    // With encryption keys, the result is encrypted in memory too.
    const isLazy = outcome.as === 'completed' && !this.#rt.seal.hasKeys
    const finish = isLazy
      ? { as: outcome.as, frame: new LazyKept(key, outcome.kept), keepMs: this.#keepMs(outcome) }
      : this.#encode(outcome)
    try {
      return local.finishNow(this.begun.grant, finish, fingerprints)
    } catch (error) {
      return this.#reportFailure(error)
    }
  }

  /** Sends the end of the attempt to the store. Undefined if the store did not reply in time. */
  #send(outcome: Outcome): Promise<FinishReply | undefined> {
    const { store, clock, deadlines } = this.#rt
    const { grant } = this.begun
    const finish = this.#encode(outcome)
    return new Promise((resolve) => {
      const timeout = deadlines.set(() => resolve(undefined), clock.now() + FINISH_WITHIN_MS)
      const done = (reply: FinishReply | undefined): void => {
        deadlines.end(timeout)
        resolve(reply)
      }
      const command = (async () => store.finish(grant, finish, this.claim.fingerprints))()
      command.then(done, (error: unknown) => done(this.#reportFailure(error)))
    })
  }

  #reportFailure(error: unknown): undefined {
    const { key, name } = this.claim
    this.#rt.events.emit({ type: 'store.failed', key, operation: 'finish', error }, name)
  }

  #accept(outcome: Outcome, reply: FinishReply, since: number): boolean {
    const { key, policy, fingerprints } = this.claim
    if (reply === 'stale') this.#lose('another attempt has taken over')
    else if (outcome.as === 'completed')
      this.#rt.replays.add(key, { kept: outcome.kept, fingerprints }, policy.retentionMs, since)
    this.#stop()
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
    const { key, name, trace } = this.claim
    this.#rt.events.emit({ type: 'idempotency.finished', key, as, reply }, name)
    if (trace !== undefined) trace.ended = as
  }

  /**
   * Sets the deadline at which this process treats its lease as ended, without a reply of the
   * store.
   */
  #watch(from: number): void {
    const { leaseMs, maxHoldMs } = this.claim.policy
    this.#leaseEndsAt = from + leaseMs - driftMs(leaseMs)
    const endsInMs = Math.min(this.#leaseEndsAt, this.#holdEndsAt) - this.#rt.clock.now()
    this.#rt.deadlines.end(this.#deadline)
    const end = () => {
      if (this.#rt.clock.now() >= this.#holdEndsAt)
        this.abandon(`it took longer than maxHoldMs (${maxHoldMs})`)
      else if (!this.isLost) this.#watch(from)
    }
    if (endsInMs <= 0) end()
    else this.#deadline = this.#rt.deadlines.set(end, this.#rt.clock.now() + endsInMs)
  }

  #lose(why: string): void {
    if (this.#isOver || this.#whyLost !== undefined) return
    this.#whyLost = why
    this.#abort?.abort(leaseLost(why))
    this.#removeFromRunning()
    const { key, name } = this.claim
    this.#rt.events.emit({ type: 'lease.lost', key, fence: this.begun.grant.fence }, name)
  }

  /** After this, repeats of the request get the state of their key from the store. */
  #removeFromRunning(): void {
    const { key } = this.claim
    if (this.#rt.running.get(key) !== this) return
    this.#rt.running.delete(key)
    this.#rt.waiters.wake(key)
  }

  #stop(): void {
    this.#isOver = true
    this.#hold.end()
    this.#rt.deadlines.end(this.#deadline)
    this.#removeFromRunning()
  }
}
