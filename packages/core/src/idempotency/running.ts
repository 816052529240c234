// One attempt of this process: its lease with the renewal, the signal that reports its loss, and
// its end.

import { leaseLost } from '../errors.ts'
import { driftMs } from '../lease/drift.ts'
import type { Hold, HoldHooks } from '../lease/lease-keeper.ts'
import type { Timer } from '../ports/clock.ts'
import type { Grant } from '../ports/grant.ts'
import type { BeginReply, Fingerprints, Finish, FinishReply } from '../ports/idempotency-store.ts'
import type { Claim } from './claim.ts'
import type { IdempotencyRuntime } from './idempotency-runtime.ts'
import { encodeKept, type Kept } from './kept-response.ts'

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

export class Running {
  readonly grant: Grant
  readonly attempt: number
  /** The key as the client or the job wrote it. */
  readonly name: string
  readonly isRecovery: boolean
  readonly steps: ReadonlyMap<string, Uint8Array>
  readonly #rt: IdempotencyRuntime
  readonly #claim: Claim
  readonly #abort = new AbortController()
  readonly #hold: Hold
  readonly #longest: Timer
  #leaseEndsAt = 0
  #leaseEnd: Timer | undefined
  #isOver = false

  /** `sentAt`: when the command was sent. The lease counts from then. */
  constructor(rt: IdempotencyRuntime, claim: Claim, begun: Begun, sentAt: number) {
    this.#rt = rt
    this.#claim = claim
    this.grant = begun.grant
    this.attempt = begun.attempt
    this.name = claim.name
    this.isRecovery = begun.isRecovery
    this.steps = begun.steps
    const { leaseMs, maxHoldMs } = claim.policy
    const hooks: HoldHooks = {
      renewed: (sentAt) => this.#watch(sentAt),
      lost: () => this.#lost(NOT_OURS),
    }
    const leftMs = Math.max(0, sentAt + leaseMs - rt.clock.now())
    this.#hold = rt.keeper.hold(this.grant, leaseMs, hooks, leftMs)
    this.#longest = rt.clock.setTimer(maxHoldMs, () => this.abandon(`maxHoldMs (${maxHoldMs})`))
    rt.running.set(claim.key, this)
    this.#watch(sentAt)
  }

  get fingerprints(): Fingerprints {
    return this.#claim.fingerprints
  }

  /** Aborted if the lease is lost or was not renewed in time: another attempt may begin. */
  get signal(): AbortSignal {
    // Timers are late after a suspended machine or a blocked event loop. The clock is not.
    if (this.#rt.clock.now() >= this.#leaseEndsAt) this.#lost(LATE)
    return this.#abort.signal
  }

  /**
   * Whether the work may begin. If the lease is already lost, the attempt is released, since
   * another may run.
   */
  async mayStart(): Promise<boolean> {
    if (!this.signal.aborted) return true
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
    const asked = this.#rt.store.renew([this.grant], this.#claim.policy.leaseMs)
    const replies = await asked.catch(() => undefined)
    if (replies?.[0] === false) this.#lost(NOT_OURS)
  }

  /**
   * False if another attempt has the key by now, so the result does not count. Never rejects;
   * bounded in time.
   */
  async finish(outcome: Outcome): Promise<boolean> {
    this.#longest.cancel()
    const reply = await this.#tell(this.#encode(outcome))
    if (reply !== undefined) return this.#accept(outcome, reply)
    // A newer attempt of this process decides.
    if (this.#isTakenOver()) return this.#accept(outcome, 'stale')
    this.#finishLater(outcome)
    return true
  }

  /** The lease is renewed until the result is stored. */
  #finishLater(outcome: Outcome): void {
    const { key, policy, fingerprints } = this.#claim
    const kept = outcome.as === 'completed' ? outcome.kept : undefined
    // `retry` holds neither the outcome nor its frame: each would be another copy of the body.
    const bare = outcome.as === 'completed' ? undefined : outcome
    const retry = async (left: Kept | undefined) => {
      const ending = bare ?? { as: 'completed', kept: left as Kept }
      const late = await this.#tell(this.#encode(ending))
      if (late !== undefined) this.#accept(ending, late)
      return late !== undefined
    }
    const giveUp = () => this.#over()
    this.#rt.unstored.add(key, { kept, fingerprints, retry, giveUp }, policy.retentionMs)
    this.#notRunning()
    this.#report(outcome, 'late')
  }

  #encode(outcome: Outcome): Finish {
    const keepMs = outcome.as === 'uncertain' ? KEEP_UNCERTAIN_MS : this.#claim.policy.retentionMs
    if (outcome.as !== 'completed') return { as: outcome.as, keepMs }
    const { key } = this.#claim
    const frame = this.#rt.seal.seal(key, encodeKept(key, outcome.kept))
    return { as: 'completed', frame, keepMs }
  }

  /** Undefined if the store did not reply. */
  async #tell(finish: Finish): Promise<FinishReply | undefined> {
    const { store, clock, events } = this.#rt
    const { key, name, fingerprints } = this.#claim
    return new Promise((resolve) => {
      const timer = clock.setTimer(FINISH_WITHIN_MS, () => resolve(undefined))
      const telling = (async () => store.finish(this.grant, finish, fingerprints))()
      telling
        .then(resolve, (error: unknown) => {
          events.emit({ type: 'store.failed', key, operation: 'finish', error }, name)
          resolve(undefined)
        })
        .finally(() => timer.cancel())
    })
  }

  #accept(outcome: Outcome, reply: FinishReply): boolean {
    const { key, policy, fingerprints } = this.#claim
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
    const { key } = this.#claim
    const latest = running.get(key) ?? this
    return latest !== this || replays.get(key) !== undefined
  }

  #report({ as }: Outcome, reply: FinishReply | 'late'): void {
    const { key, name } = this.#claim
    this.#rt.events.emit({ type: 'idempotency.finished', key, as, reply }, name)
  }

  /** Our own clock ends the lease; no reply is needed. */
  #watch(from: number): void {
    const { leaseMs } = this.#claim.policy
    this.#leaseEndsAt = from + leaseMs - driftMs(leaseMs)
    const endsInMs = this.#leaseEndsAt - this.#rt.clock.now()
    this.#leaseEnd?.cancel()
    const end = () => this.#lost(LATE)
    if (endsInMs <= 0) end()
    else this.#leaseEnd = this.#rt.clock.setTimer(endsInMs, end)
  }

  #lost(why: string): void {
    if (this.#isOver || this.#abort.signal.aborted) return
    this.#abort.abort(leaseLost(why))
    this.#notRunning()
    const { key, name } = this.#claim
    this.#rt.events.emit({ type: 'lease.lost', key, fence: this.grant.fence }, name)
  }

  /** Duplicates ask the store again. */
  #notRunning(): void {
    const { key } = this.#claim
    if (this.#rt.running.get(key) !== this) return
    this.#rt.running.delete(key)
    this.#rt.waiters.wake(key)
  }

  #over(): void {
    this.#isOver = true
    this.#hold.end()
    this.#longest.cancel()
    this.#leaseEnd?.cancel()
    this.#notRunning()
  }
}
