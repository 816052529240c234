// A running attempt of this process: renewal of its lease, the signal when the lease is lost, and
// the end of the attempt.

import type { StoredValue } from '../entry/entry.ts'
import { leaseLost } from '../errors.ts'
import { headerValue } from '../http/headers.ts'
import type { Deadline } from '../lease/deadlines.ts'
import { type Hold, type HoldHooks, LeaseKeeper } from '../lease/lease-keeper.ts'
import type { BeginReply, Finish, FinishReply, LazyFinish } from '../ports/idempotency-store.ts'
import type { AttemptEnd, AttemptObserver } from '../ports/idempotent-exchange.ts'
import { isFinal, type Kept, LazyKept, ownKept, replayableHeaders } from './kept-response.ts'
import type { IdempotencyRuntime } from './runtime.ts'
import type { Claim, RunningAttempt, Unfinished } from './types.ts'

export type Begun = BeginReply & { readonly status: 'begun' }

/** How an attempt ended. `completed` is final. */
export type Outcome =
  | { readonly as: 'completed'; readonly kept: Kept }
  | { readonly as: 'released' | 'uncertain'; readonly kept?: undefined }

/** The decisions of the handler. Without a `verdict`, its response decides how the attempt ends. */
export interface Decisions {
  readonly verdict: 'keep' | 'release' | 'uncertain' | undefined
  readonly keepsBody: boolean
}

/** The end of a job that returned. Without `stored`, its value cannot be replayed. */
export interface JobEnd {
  readonly type: 'returned'
  readonly stored: StoredValue | undefined
}

/** How a transaction ended. Without a result to keep, it is rolled back in any case. */
export type TransactionEnd = FinishReply | 'rolled-back'

/** How long an uncertain record is kept for an operator: a week. */
export const KEEP_UNCERTAIN_MS: number = 7 * 24 * 3600 * 1000
/** Longest wait for the store at the end of an attempt, for stores without a time budget. */
const FINISH_WITHIN_MS = 1_000
const NOT_OURS = 'another attempt has it, or the store lost its record'
const LATE = 'it was not renewed in time'

/** As a `Deadline`, its time is the end of its lease or of its hold time. */
export class Running
  implements RunningAttempt, Unfinished, HoldHooks, Deadline, Decisions, AttemptObserver
{
  readonly type = 'running'
  readonly claim: Claim
  readonly begun: Begun
  readonly holdsAll: boolean
  readonly maxBodyBytes: number
  readonly graceMs: number
  verdict: Decisions['verdict'] = undefined
  keepsBody = true
  at = 0
  place = -1
  order = 0
  readonly #rt: IdempotencyRuntime
  /** Undefined in a transaction, which has no lease. Only the hold time bounds it. */
  readonly #hold: Hold | undefined
  /** Created when the handler first reads the signal. */
  #abort: AbortController | undefined
  #whyLost: string | undefined
  #leaseEndsAt = 0
  /** End of the hold time. `Infinity` once the handler has responded. */
  #holdEndsAt: number
  #as: Outcome['as'] = 'completed'
  #isOver = false
  /** Whether the store did not confirm the end in time, so that it is sent again. */
  #isLate = false
  #onOver: (() => void) | undefined
  #transactionEnd: Promise<TransactionEnd> | undefined

  /** `sentAt`: the moment at which the command was sent. The lease counts from it. */
  constructor(rt: IdempotencyRuntime, claim: Claim, begun: Begun, sentAt: number) {
    this.#rt = rt
    this.claim = claim
    this.begun = begun
    const { leaseMs, maxHoldMs, maxBodyBytes } = claim.policy
    const now = rt.clock.now()
    this.maxBodyBytes = Math.min(maxBodyBytes, rt.store.maxBodyBytes ?? Infinity)
    this.graceMs = maxHoldMs
    this.holdsAll = begun.transaction !== undefined
    this.#holdEndsAt = now + maxHoldMs
    const forMs = Math.max(0, sentAt + leaseMs - now)
    this.#hold = this.holdsAll ? undefined : rt.keeper.hold(begun.grant, leaseMs, this, forMs)
    rt.attempts.set(claim.key, this)
    if (claim.trace !== undefined) claim.trace.fence = BigInt(begun.grant.fence)
    this.renewed(sentAt)
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

  /** The lease counts from `sentAt`. At its end, no reply of the store is needed. */
  renewed(sentAt: number): void {
    const { leaseMs } = this.claim.policy
    this.#leaseEndsAt = this.holdsAll ? Infinity : sentAt + leaseMs - LeaseKeeper.driftMs(leaseMs)
    const endsAt = Math.min(this.#leaseEndsAt, this.#holdEndsAt)
    if (endsAt <= this.#rt.clock.now()) this.due()
    else this.#rt.deadlines.set(this, endsAt)
  }

  due(): void {
    if (this.#rt.clock.now() >= this.#holdEndsAt)
      this.abandon(`it took longer than the hold time (${this.claim.policy.maxHoldMs} ms)`)
    else if (!this.isLost)
      this.#rt.deadlines.set(this, Math.min(this.#leaseEndsAt, this.#holdEndsAt))
  }

  lost(): void {
    this.#lose(NOT_OURS)
  }

  abandon(why: string): Promise<unknown> | undefined {
    this.#lose(why)
    if (this.holdsAll) return this.#transactionEnd ?? this.endTransaction({ type: 'unanswered' })
    this.stop()
    return undefined
  }

  async verify(): Promise<void> {
    const renewal = this.#rt.store.renew([this.begun.grant], this.claim.policy.leaseMs)
    const replies = await renewal.catch(() => undefined)
    if (replies?.[0] === false) this.lost()
  }

  /** If the outcome is unknown, the lease expires, and `onLeaseExpired` decides. */
  onEnd(end: AttemptEnd | JobEnd): void | Promise<void> {
    const outcome = outcomeOf(end, this)
    if (outcome !== undefined) return this.finish(outcome)
    this.abandon('the handler did not respond')
    this.#onOver?.()
  }

  /** Resolves when the end of the attempt was reported. Call it before the handler runs. */
  over(): Promise<void> {
    return new Promise((resolve) => {
      this.#onOver = resolve
    })
  }

  /**
   * Ends the attempt. Never rejects, and takes a bounded time. With a memory store, the result is
   * no promise.
   */
  finish({ as, kept }: Outcome): void | Promise<void> {
    this.#holdEndsAt = Infinity
    this.#as = as
    // A copy without references to larger buffers, because it may stay in memory for replays.
    const ended = this.retry(kept && ownKept(kept))
    if (typeof ended !== 'boolean') return ended as Promise<unknown> as Promise<void>
  }

  /** Sends the end to the store. If no reply comes in time, the end counts as not stored. */
  retry(kept: Kept | undefined): boolean | Promise<boolean> {
    const { store, clock, deadlines, attempts } = this.#rt
    const since = attempts.sequence
    let reply: FinishReply | Promise<FinishReply>
    try {
      reply = store.finish(this.begun.grant, this.#finishWith(kept), this.claim.fingerprints)
    } catch (error) {
      return this.#ended(kept, this.#failed(error), since)
    }
    if (typeof reply === 'string') return this.#ended(kept, reply, since)
    const replied = reply
    return new Promise((resolve) => {
      const timeout = deadlines.set(() => settle(undefined), clock.now() + FINISH_WITHIN_MS)
      let isSettled = false
      const settle = (reply: FinishReply | undefined): void => {
        if (isSettled) return
        isSettled = true
        deadlines.end(timeout)
        resolve(this.#ended(kept, reply, since))
      }
      replied.then(settle, (error) => settle(this.#failed(error)))
    })
  }

  /**
   * Commits the transaction of the attempt with its result, or rolls it back. Never rejects. After
   * `abandon`, the result is `unknown`, because the handler may respond as if it had committed.
   */
  endTransaction(end: AttemptEnd | JobEnd): Promise<TransactionEnd> {
    if (this.#transactionEnd !== undefined) return this.#transactionEnd.then(() => 'unknown')
    this.#transactionEnd = this.#endTransaction(outcomeOf(end, this))
    return this.#transactionEnd
  }

  async #endTransaction(outcome: Outcome | undefined): Promise<TransactionEnd> {
    const { store, attempts, deadlines } = this.#rt
    deadlines.end(this)
    const since = attempts.sequence
    this.begun.transaction?.seal()
    // Nothing is uncertain: without a commit, the writes of the handler are gone.
    this.#as = outcome?.kept === undefined ? 'released' : 'completed'
    const kept = outcome?.kept && ownKept(outcome.kept)
    let reply: FinishReply = 'unknown'
    try {
      reply = await store.finish(this.begun.grant, this.#finishWith(kept), this.claim.fingerprints)
    } catch (error) {
      this.#failed(error)
    }
    this.#ended(kept, reply, since)
    return kept === undefined ? 'rolled-back' : reply
  }

  #finishWith(kept: Kept | undefined): Finish | LazyFinish {
    const { encodesLater, seal } = this.#rt
    const { key, policy } = this.claim
    const keepMs = this.#as === 'uncertain' ? KEEP_UNCERTAIN_MS : policy.retentionMs
    if (kept === undefined) return { as: this.#as as 'released' | 'uncertain', keepMs }
    // With encryption keys, the result is encrypted in memory too.
    const isLazy = encodesLater && !seal.hasKeys
    const frame = isLazy ? new LazyKept(key, kept) : seal.encode(key, kept)
    return { as: 'completed', frame, keepMs }
  }

  /** Returns whether the store has the end now. Undefined: it did not reply, or failed. */
  #ended(kept: Kept | undefined, replied: FinishReply | undefined, since: number): boolean {
    const { key, name, policy, fingerprints, trace } = this.claim
    const { attempts, events } = this.#rt
    let reply: FinishReply | 'late' | undefined = replied
    if (reply === undefined) {
      if (this.#isLate) return false
      const latest = attempts.get(key) ?? this
      const isReplaced = latest.type === 'done' || (latest.type === 'running' && latest !== this)
      // A newer attempt in this process runs or has completed, so this result does not count.
      reply = isReplaced ? 'stale' : 'late'
    }
    if (reply === 'late') {
      this.#isLate = true
      attempts.addUnstored(key, this, { kept, fingerprints }, policy.retentionMs)
    } else {
      if (reply === 'stale' && !this.holdsAll) this.#lose('another attempt has taken over')
      this.stop()
      if ((reply === 'finished' || reply === 'resurrected') && kept !== undefined)
        attempts.addDone(key, { kept, fingerprints }, policy.retentionMs, since)
    }
    events.emit({ type: 'idempotency.finished', key, as: this.#as, reply }, name)
    if (trace !== undefined) trace.ended = this.#as
    this.#onOver?.()
    return reply !== 'late'
  }

  #failed(error: unknown): undefined {
    const { key, name } = this.claim
    this.#rt.events.emit({ type: 'store.failed', key, operation: 'finish', error }, name)
  }

  #lose(why: string): void {
    if (this.#isOver || this.#whyLost !== undefined) return
    this.#whyLost = why
    this.#abort?.abort(leaseLost(why))
    const { key, name } = this.claim
    // After this, repeats of the request get the state of their key from the store.
    this.#rt.attempts.remove(key, this)
    this.#rt.events.emit({ type: 'lease.lost', key, fence: this.begun.grant.fence }, name)
  }

  stop(): void {
    this.#isOver = true
    this.#hold?.end()
    this.#rt.deadlines.end(this)
    this.#rt.attempts.remove(this.claim.key, this)
  }
}

/** Undefined if the outcome is unknown. */
export function outcomeOf(end: AttemptEnd | JobEnd, decisions: Decisions): Outcome | undefined {
  const { verdict, keepsBody } = decisions
  if (verdict === 'uncertain') return { as: 'uncertain' }
  if (verdict === 'release') return { as: 'released' }
  if (end.type === 'unanswered') return undefined
  if (end.type === 'failed') return { as: verdict === 'keep' ? 'uncertain' : 'released' }
  if (end.type === 'returned') {
    const { stored } = end
    const isKept = stored !== undefined && keepsBody
    return { as: 'completed', kept: isKept ? { type: 'value', stored } : UNKNOWN_VALUE }
  }
  const { status, headers } = end.head
  if (verdict !== 'keep' && !isFinal(status)) return { as: 'released' }
  if (end.type === 'not-retained' || !keepsBody) {
    const location = headerValue(headers, 'location')
    return { as: 'completed', kept: { type: 'not-retained', status, location } }
  }
  const { body, kind } = end
  const kept = {
    type: 'response',
    status,
    headers: replayableHeaders(headers),
    body,
    kind,
  } as const
  return { as: 'completed', kept }
}

/** The result of a job whose value cannot be replayed. */
const UNKNOWN_VALUE: Kept = { type: 'not-retained', status: 200, location: undefined }
