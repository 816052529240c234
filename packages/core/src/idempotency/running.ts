// One attempt at work in this process: its lease with the renewal, the signal that tells of its loss, and its end.

import type { Hold, HoldHooks } from '../cache/lease-keeper.ts'
import { leaseLost } from '../errors.ts'
import { headerValue } from '../http/headers.ts'
import type { Timer } from '../ports/clock.ts'
import type { Grant } from '../ports/grant.ts'
import type { BeginReply, Fingerprints, Finish, FinishReply } from '../ports/idempotency-store.ts'
import type { IdempotencyRuntime } from './idempotency-runtime.ts'
import { encodeKept, type Kept } from './kept-response.ts'
import type { Claim } from './obtain.ts'

export type Begun = BeginReply & { readonly status: 'begun' }

/** What an attempt came to. `completed` is immutable from then on. */
export type Outcome =
  | { readonly as: 'completed'; readonly kept: Kept }
  | { readonly as: 'released' }
  | { readonly as: 'uncertain' }

/** An uncertain record waits for a human: over a weekend and some. */
export const KEEP_UNCERTAIN_MS: number = 7 * 24 * 3600 * 1000
/** A store has its own budget; one that has none does not keep a client for longer. */
const FINISH_WITHIN_MS = 1_000
/** 1 % for clocks that run at different speeds, and 2 ms for rounding. */
const driftMs = (leaseMs: number): number => leaseMs * 0.01 + 2
const NOT_OURS = 'another attempt has it, or the store lost it'

/** That it was done must not be forgotten for want of room. */
function withoutBody({ kept }: Outcome & { readonly as: 'completed' }): Outcome {
  const isResponse = kept.type === 'response'
  const status = kept.type === 'value' ? 200 : kept.status
  const location = isResponse ? headerValue(kept.headers, 'location') : undefined
  return { as: 'completed', kept: { type: 'not-retained', status, location } }
}

export class Running {
  readonly grant: Grant
  readonly attempt: number
  readonly isRecovery: boolean
  readonly steps: ReadonlyMap<string, Uint8Array>
  readonly #rt: IdempotencyRuntime
  readonly #claim: Claim
  readonly #abort = new AbortController()
  readonly #hold: Hold
  readonly #longest: Timer
  #leaseEnd: Timer | undefined
  #isOver = false

  /** `sentAt`: before the store was asked, from when the lease counts. */
  constructor(rt: IdempotencyRuntime, claim: Claim, begun: Begun, sentAt: number) {
    this.#rt = rt
    this.#claim = claim
    this.grant = begun.grant
    this.attempt = begun.attempt
    this.isRecovery = begun.isRecovery
    this.steps = begun.steps
    const { leaseMs, maxHoldMs } = claim.policy
    const hooks: HoldHooks = {
      renewed: ({ monotonic }) => this.#watch(monotonic),
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

  /** Aborted when the lease is lost, or was not renewed in time: another attempt may begin. */
  get signal(): AbortSignal {
    return this.#abort.signal
  }

  /** Whether work may begin. An attempt that has lost its lease by then is handed back: another may be at it. */
  async mayStart(): Promise<boolean> {
    if (!this.signal.aborted) return true
    await this.finish({ as: 'released' })
    return false
  }

  /** Lets the lease run out: nobody here knows what came of it. */
  abandon(why: string): void {
    this.#lost(why)
    this.#over()
  }

  /** Asks whether it is still ours: somebody may have settled it. */
  async verify(): Promise<void> {
    const asked = this.#rt.store.renew([this.grant], this.#claim.policy.leaseMs)
    const replies = await asked.catch(() => undefined)
    if (replies?.[0] === false) this.#lost(NOT_OURS)
  }

  /** `false` when nothing here may be relied on: the attempt is another's by now. Never rejects; bounded. */
  async finish(outcome: Outcome): Promise<boolean> {
    this.#longest.cancel()
    const reply = await this.#tell(this.#encode(outcome))
    if (reply !== undefined) return this.#accept(outcome, reply)
    // What came after it is what counts.
    if (this.#isTakenOver()) return this.#accept(outcome, 'stale')
    this.#finishLater(outcome)
    return true
  }

  /** The lease goes on being renewed until the store knows. */
  #finishLater(whole: Outcome): void {
    const fits = whole.as !== 'completed' || this.#rt.unstored.fits(whole.kept)
    const outcome = fits ? whole : withoutBody(whole)
    const finish = this.#encode(outcome)
    const { key, policy, fingerprints } = this.#claim
    const kept = outcome.as === 'completed' ? outcome.kept : undefined
    this.#rt.unstored.add(
      key,
      {
        kept,
        fingerprints,
        retry: async () => {
          const late = await this.#tell(finish)
          if (late !== undefined) this.#accept(outcome, late)
          return late !== undefined
        },
        giveUp: () => this.#over(),
      },
      policy.retentionMs,
    )
    this.#notRunning()
    this.#report(outcome, 'late')
  }

  #encode(outcome: Outcome): Finish {
    const keepMs = outcome.as === 'uncertain' ? KEEP_UNCERTAIN_MS : this.#claim.policy.retentionMs
    if (outcome.as !== 'completed') return { as: outcome.as, keepMs }
    const frame = this.#rt.seal.seal(this.#claim.key, encodeKept(outcome.kept))
    return { as: 'completed', frame, keepMs }
  }

  /** Undefined: the store did not say. */
  async #tell(finish: Finish): Promise<FinishReply | undefined> {
    const { store, clock, events } = this.#rt
    const { key, fingerprints } = this.#claim
    return new Promise((resolve) => {
      const timer = clock.setTimer(FINISH_WITHIN_MS, () => resolve(undefined))
      const telling = (async () => store.finish(this.grant, finish, fingerprints))()
      telling
        .then(resolve, (error: unknown) => {
          events.emit({ type: 'store.failed', key, operation: 'finish', error })
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

  /** By an attempt of this process, which is at work or has completed. */
  #isTakenOver(): boolean {
    const { running, replays } = this.#rt
    const { key } = this.#claim
    const latest = running.get(key) ?? this
    return latest !== this || replays.get(key) !== undefined
  }

  #report({ as }: Outcome, reply: FinishReply | 'late'): void {
    const { key } = this.#claim
    this.#rt.events.emit({ type: 'idempotency.finished', key, as, reply })
  }

  /** Our own clock says when the lease is over; no reply is needed for that. */
  #watch(from: number): void {
    const { leaseMs } = this.#claim.policy
    const endsInMs = from + leaseMs - driftMs(leaseMs) - this.#rt.clock.now()
    this.#leaseEnd?.cancel()
    const end = () => this.#lost('it was not renewed in time')
    if (endsInMs <= 0) end()
    else this.#leaseEnd = this.#rt.clock.setTimer(endsInMs, end)
  }

  #lost(why: string): void {
    if (this.#isOver || this.#abort.signal.aborted) return
    this.#abort.abort(leaseLost(why))
    this.#notRunning()
    this.#rt.events.emit({ type: 'lease.lost', key: this.#claim.key, fence: this.grant.fence })
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
