// A running attempt of this process: renewal of its lease, the signal when the lease is lost, and
// the end of the attempt.

import type { StoredValue } from '../entry/entry.ts'
import { leaseLost } from '../errors.ts'
import { type HeldLease, LeaseKeeper } from '../lease/lease-keeper.ts'
import type { Grant } from '../ports/grant.ts'
import type { BeginReply, Finish, FinishReply, LazyFinish } from '../ports/idempotency-store.ts'
import type { AttemptEnd, AttemptObserver } from '../ports/idempotent-exchange.ts'
import {
  bytesOf,
  isFinal,
  type Kept,
  keptWithoutBody,
  ownKept,
  replayableHeaders,
} from './kept-response.ts'
import type { IdempotencyRuntime } from './runtime.ts'
import type { Claim, LocalAttempt } from './types.ts'

export type Begun = BeginReply & { readonly status: 'begun' }

/** How an attempt ended. `completed` is final. */
export type Outcome =
  | { readonly as: 'completed'; readonly kept: Kept }
  | { readonly as: 'released' | 'uncertain'; readonly kept?: undefined }

/** The decisions of the handler. Without a `verdict`, its response decides how the attempt ends. */
export interface Decisions {
  readonly verdict: 'keep' | 'release' | 'uncertain' | undefined
  readonly keepsBody: boolean
  /** Whether the handler runs in a transaction. Nothing is uncertain then. */
  readonly holdsAll: boolean
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

/** As a deadline, it is due at its next renewal, and at the end of its lease and its hold time. */
export class Running implements LocalAttempt, HeldLease, Decisions, AttemptObserver {
  type: LocalAttempt['type'] = 'running'
  claim: Claim
  readonly begun: Begun
  readonly grant: Grant
  readonly leaseMs: number
  readonly holdsAll: boolean
  readonly maxBodyBytes: number
  readonly graceMs: number
  verdict: Decisions['verdict'] = undefined
  keepsBody = true
  kept: Kept | undefined
  isStored = false
  until = 0
  bytes = 0
  at = 0
  place = -1
  order = 0
  readonly #rt: IdempotencyRuntime
  /** Created when the handler first reads the signal. */
  #abort: AbortController | undefined
  #whyLost: string | undefined
  #leaseEndsAt = Infinity
  /** End of the hold time. `Infinity` once the handler has responded. */
  #holdEndsAt: number
  #as: Outcome['as'] = 'completed'
  #isOver = false
  #onOver: (() => void) | undefined
  #transactionEnd: Promise<TransactionEnd> | undefined
  #transactionReply: FinishReply = 'unknown'

  /** `sentAt`: the moment at which the command was sent. The lease counts from it. */
  constructor(rt: IdempotencyRuntime, claim: Claim, begun: Begun, sentAt: number) {
    this.#rt = rt
    this.claim = claim
    this.begun = begun
    this.grant = begun.grant
    const { leaseMs, maxBodyBytes } = claim.policy
    const now = rt.clock.now()
    this.leaseMs = leaseMs
    this.maxBodyBytes = Math.min(maxBodyBytes, rt.store.maxBodyBytes ?? Infinity)
    // An attempt that hangs does not hold its key for ever.
    this.graceMs = Math.max(20 * leaseMs, 600_000)
    this.holdsAll = begun.transaction !== undefined
    this.#holdEndsAt = now + this.graceMs
    rt.attempts.set(claim.key, this)
    if (claim.trace !== undefined) claim.trace.fence = BigInt(begun.grant.fence)
    // A transaction has no lease. Only the hold time bounds it.
    if (this.holdsAll) rt.deadlines.set(this, this.#holdEndsAt)
    else {
      this.renewed(sentAt)
      rt.keeper.hold(this, Math.max(0, sentAt + leaseMs - now))
    }
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
    this.#leaseEndsAt = sentAt + this.leaseMs - LeaseKeeper.driftMs(this.leaseMs)
  }

  get endsAt(): number {
    const isLost = this.#whyLost !== undefined
    return isLost ? this.#holdEndsAt : Math.min(this.#leaseEndsAt, this.#holdEndsAt)
  }

  due(): void {
    const now = this.#rt.clock.now()
    if (now >= this.#holdEndsAt)
      this.abandon(`it took longer than the hold time (${this.graceMs} ms)`)
    else {
      if (now >= this.#leaseEndsAt) this.#lose(LATE)
      // The store accepts a late renewal if no other attempt took over.
      void this.#rt.keeper.renew(this)
    }
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

  /**
   * Stores the result of a step. If the store is unavailable, the attempt continues and an event
   * reports it. `stale`: another attempt has taken over.
   */
  async keepStep(name: string, frame: Uint8Array): Promise<'kept' | 'stale' | undefined> {
    const { store } = this.#rt
    return store
      .keepStep(this.grant, name, frame)
      .catch((error) => this.#failed('keep-step', error))
  }

  async verify(): Promise<void> {
    const renewal = this.#rt.store.renew([this.grant], this.leaseMs)
    const replies = await renewal.catch(() => undefined)
    if (replies?.[0] === false) this.lost()
  }

  /**
   * Ends the attempt. Never rejects, and takes a bounded time. With a memory store, the result is
   * no promise. If the outcome is unknown, the lease expires, and `onLeaseExpired` decides.
   */
  onEnd(end: AttemptEnd | JobEnd): Promise<undefined> | undefined {
    const outcome = outcomeOf(end, this)
    if (outcome === undefined) {
      this.abandon('the handler did not respond')
      this.#onOver?.()
      return undefined
    }
    const { as, kept } = outcome
    this.#holdEndsAt = Infinity
    this.#as = as
    // A copy without references to larger buffers, because it may stay in memory for replays.
    this.kept = kept && ownKept(kept)
    return this.sendEnd()
  }

  /** Resolves when the end of the attempt was reported. Call it before the handler runs. */
  over(): Promise<void> {
    return new Promise((resolve) => {
      this.#onOver = resolve
    })
  }

  /**
   * Commits the transaction of the attempt with its result, or rolls it back. Never rejects. After
   * `abandon`, the result is `unknown`, because the handler may respond as if it had committed.
   */
  endTransaction(end: AttemptEnd | JobEnd): Promise<TransactionEnd> {
    if (this.#transactionEnd !== undefined) return this.#transactionEnd.then(() => 'unknown')
    this.#rt.deadlines.end(this)
    this.begun.transaction?.seal()
    this.#transactionEnd = Promise.resolve(this.onEnd(end)).then(() =>
      this.#as === 'released' ? 'rolled-back' : this.#transactionReply,
    )
    return this.#transactionEnd
  }

  /** If no reply comes in time, the end counts as not stored. A transaction has no such limit. */
  sendEnd(): Promise<undefined> | undefined {
    const { store, clock, deadlines, attempts } = this.#rt
    const { kept } = this
    const since = attempts.sequence
    let replied: FinishReply | undefined | Promise<FinishReply>
    try {
      replied = store.finish(this.grant, this.#finish(), this.claim.fingerprints)
    } catch (error) {
      replied = this.#failed('finish', error)
    }
    if (typeof replied !== 'object') return this.#ended(kept, replied, since)
    const reply = replied
    return new Promise((resolve) => {
      const limitMs = this.holdsAll ? Infinity : FINISH_WITHIN_MS
      const limit = deadlines.set(() => settle(undefined), clock.now() + limitMs)
      let isSettled = false
      const settle = (reply: FinishReply | undefined): void => {
        if (isSettled) return
        isSettled = true
        deadlines.end(limit)
        resolve(this.#ended(kept, reply, since))
      }
      reply.then(settle, (error) => settle(this.#failed('finish', error)))
    })
  }

  #finish(): Finish | LazyFinish {
    const { encodesLater, seal } = this.#rt
    const { kept } = this
    const { key, policy } = this.claim
    const keepMs = this.#as === 'uncertain' ? KEEP_UNCERTAIN_MS : policy.retentionMs
    if (kept === undefined) return { as: this.#as as 'released' | 'uncertain', keepMs }
    // With encryption keys, the result is encrypted in memory too.
    const isLazy = encodesLater && !seal.hasKeys
    const frame = isLazy
      ? { bytes: bytesOf(kept), encode: () => seal.encode(key, kept) }
      : seal.encode(key, kept)
    return { as: 'completed', frame, keepMs }
  }

  /** Without `replied`, the store did not reply, or failed. */
  #ended(kept: Kept | undefined, replied: FinishReply | undefined, since: number): undefined {
    const { key, name, policy, trace } = this.claim
    const { attempts, events } = this.#rt
    let reply: FinishReply | 'late' | undefined = replied
    if (this.holdsAll) {
      reply ??= 'unknown'
      this.#transactionReply = reply
    } else if (reply === undefined) {
      if (this.type === 'unstored') return undefined
      const latest = attempts.get(key) ?? this
      const isReplaced = latest.type === 'done' || (latest.type === 'running' && latest !== this)
      // A newer attempt in this process runs or has completed, so this result does not count.
      reply = isReplaced ? 'stale' : 'late'
    }
    if (reply === 'late') attempts.addUnstored(this, policy.retentionMs)
    else {
      this.isStored = true
      if (reply === 'stale' && !this.holdsAll) this.#lose('another attempt has taken over')
      this.stop()
      if ((reply === 'finished' || reply === 'resurrected') && kept !== undefined)
        attempts.addDone(this.claim, kept, policy.retentionMs, since)
    }
    events.emit({ type: 'idempotency.finished', key, as: this.#as, reply }, name)
    if (trace !== undefined) trace.ended = this.#as
    this.#onOver?.()
  }

  #failed(operation: string, error: unknown): undefined {
    const { key, name } = this.claim
    this.#rt.events.emit({ type: 'store.failed', key, operation, error }, name)
  }

  #lose(why: string): void {
    if (this.#isOver || this.#whyLost !== undefined) return
    this.#whyLost = why
    this.#abort?.abort(leaseLost(why))
    const { key, name } = this.claim
    // After this, repeats of the request get the state of their key from the store.
    if (this.type === 'running') this.#rt.attempts.remove(key, this)
    this.#rt.events.emit({ type: 'lease.lost', key, fence: this.grant.fence }, name)
  }

  stop(): void {
    this.#isOver = true
    this.#rt.keeper.end(this)
    this.#rt.attempts.remove(this.claim.key, this)
  }
}

/** Undefined if the outcome is unknown. */
export function outcomeOf(end: AttemptEnd | JobEnd, decisions: Decisions): Outcome | undefined {
  const { verdict, keepsBody, holdsAll } = decisions
  // Without a commit, the writes of the handler are gone.
  if (holdsAll && (end.type === 'unanswered' || end.type === 'failed')) return { as: 'released' }
  if (verdict === 'uncertain') return { as: 'uncertain' }
  if (verdict === 'release') return { as: 'released' }
  if (end.type === 'unanswered') return undefined
  if (end.type === 'failed') return { as: verdict === 'keep' ? 'uncertain' : 'released' }
  if (end.type === 'returned') {
    const { stored } = end
    const isKept = stored !== undefined && keepsBody
    return { as: 'completed', kept: isKept ? { type: 'value', stored } : keptWithoutBody() }
  }
  const { status, headers } = end.head
  if (verdict !== 'keep' && !isFinal(status)) return { as: 'released' }
  if (end.type === 'not-retained' || !keepsBody)
    return { as: 'completed', kept: keptWithoutBody(end.head) }
  const { body, kind } = end
  const replayed = replayableHeaders(headers)
  return { as: 'completed', kept: { type: 'response', status, headers: replayed, body, kind } }
}
