// A flight: the lookup and fill of one key in this process, as a state machine. Requests join it as
// waiters, in order of arrival.
//
//   looking-up > waiting   another process fills; a wake-up or the end of the lease ends the wait
//              > queued    the store is unavailable, and no concurrency slot is free
//              > filling   this process runs the origin
//   waiting, queued, filling > looking-up  without a result for the waiters
//   any        > landed    every waiter is settled, or has moved to a newer flight

import { type HeldEntry, mayServeOnError } from '../entry/entry.ts'
import type { LateReason } from '../events.ts'
import { isConfirmed, stillValid, type Validity } from '../l1/purges.ts'
import type { Deadline } from '../lease/deadlines.ts'
import { newToken } from '../lease/lease-keeper.ts'
import type { Caller, Found, Policy, Resolution, Shared } from './types.ts'
import { Waiters, type WaitersRuntime } from './waiters.ts'

/** The parts of the runtime that a flight needs. */
export type FlightRuntime = Validity & WaitersRuntime

/** The entry from before a wait or fill. It is served if that takes too long (`LateReason`). */
export interface Previous {
  readonly held: HeldEntry
  /** A time at which the entry was known not to be purged. */
  readonly since: number
  /** Sequence number of L1's last purge before the entry was read. */
  readonly sequence: number
}

/**
 * Why a flight looks up again. `wake-up`: a fill ended or a purge came. `gap`: messages may have
 * been missed. `lost`: the store is unavailable.
 */
export type Interruption = 'wake-up' | 'gap' | 'lost'

type State =
  | { readonly type: 'looking-up' }
  | { readonly type: 'waiting' | 'queued'; readonly stop: (by: Interruption) => void }
  /** New requests are served `servedMeanwhile` at once, while it is valid. */
  | {
      readonly type: 'filling'
      readonly since: number
      readonly servedMeanwhile: HeldEntry | undefined
    }
  | { readonly type: 'landed' }

const LOOKING_UP: State = { type: 'looking-up' }

type Failed = Extract<Resolution, { type: 'failed' }>

export abstract class Flight extends Waiters {
  readonly policy: Policy
  /** Runs the origin if no waiter does, because its request was served a stale entry. */
  readonly refresher: Caller | undefined
  readonly startedAt: number
  declare protected readonly rt: FlightRuntime
  #state: State = LOOKING_UP
  /** Whether a message came since the lookup was sent that may make the reply outdated. */
  isOutdated = false
  /** Whether the last response could not be shared, so that new requests do not join. */
  isHitForMiss: boolean
  /** Whether a run of this flight had a response that could not be shared. */
  hasPassed = false
  /**
   * Digest of the request whose run failed. Before all waiters share the failure, a waiter with
   * another digest runs the handler once more.
   */
  failedDigest: string | undefined
  /** The entry to serve if the wait or fill takes too long. */
  protected previous: Previous | undefined
  #late: LateReason | undefined
  #softTimeout: Deadline | undefined
  #token: string | undefined
  #unusableRuns = 0
  /** Whether a wake-up came since the last lookup: a fill of another process ended. */
  #isWoken = false
  #hasLookedUp = false
  #onLanded: (() => void) | undefined

  constructor(
    rt: FlightRuntime,
    key: string,
    policy: Policy,
    refresher?: Caller,
    isHitForMiss = false,
  ) {
    super(rt, key)
    this.policy = policy
    this.refresher = refresher
    this.startedAt = rt.clock.now()
    this.isHitForMiss = isHitForMiss
  }

  /**
   * Token of the lease that this process asks for. A repeated lookup with the same token gets the
   * same lease.
   */
  get token(): string {
    this.#token ??= newToken()
    return this.#token
  }

  /** The digest of the request that leads, if another request has failed. */
  get like(): string | undefined {
    return this.failedDigest && (this.first?.caller ?? this.refresher)?.requestDigest?.()
  }

  /** For operators. `refreshing`: new requests are served the previous entry meanwhile. */
  get state(): State['type'] | 'refreshing' {
    return this.servedMeanwhile === undefined ? this.#state.type : 'refreshing'
  }

  /** Time at which the fill began, while the origin runs or its result is being committed. */
  get fillingSince(): number | undefined {
    return this.#state.type === 'filling' ? this.#state.since : undefined
  }

  /** The entry that new requests are served while the origin runs. */
  get servedMeanwhile(): HeldEntry | undefined {
    return this.#state.type === 'filling' ? this.#state.servedMeanwhile : undefined
  }

  // Steps, in engine.ts

  /** Acts on the reply to a lookup. Undefined: the store is unavailable. `since`: see `Lease`. */
  abstract act(found: Found | undefined, since: number): void

  /** Goes on after a step: with a result for the waiters, or without one. */
  abstract advance(shared: Shared): void

  // Transitions

  /** A lookup is sent. A later `interrupt` makes its reply outdated. */
  beginLookup(): void {
    this.#enter(LOOKING_UP, 'looking-up')
    // Frequent purges could make every reply outdated, and the lookups would never end. So `waitMs`
    // counts from the second lookup on.
    if (this.#hasLookedUp) this.startClocks()
    this.#hasLookedUp = true
  }

  /** The reply has arrived. Returns whether a wake-up came since the lookup before it. */
  endLookup(isHitForMiss: boolean): boolean {
    const isWoken = this.#isWoken
    this.#isWoken = false
    this.isHitForMiss = isHitForMiss
    return isWoken
  }

  /**
   * Another process fills (`waiting`), or no concurrency slot is free (`queued`). `stop` ends that.
   * A message may call it again. It is also called when the last waiter of a queued flight has
   * gone.
   */
  beginWait(type: 'waiting' | 'queued', stop: (by: Interruption) => void): void {
    this.#enter({ type, stop }, 'looking-up')
    if (type === 'waiting') this.#expectLate()
    this.startClocks(true)
  }

  /** `previous` is the entry from before the fill. */
  beginFill(servedMeanwhile?: HeldEntry, previous?: Previous): void {
    const since = this.rt.clock.now()
    this.#enter({ type: 'filling', since, servedMeanwhile }, 'looking-up')
    this.previous = previous
    if (previous !== undefined) this.#expectLate()
    this.startClocks(true)
  }

  /** Returns to `looking-up`, from a wait or from a fill without a result for the waiters. */
  lookUpAgain(): void {
    if (this.#state.type === 'filling') {
      this.countUnusableFill()
      this.renewToken()
    }
    this.#enter(LOOKING_UP)
    this.#endLate()
  }

  /** Ends the flight and removes it from the map in one step, so that no request joins it. */
  land(flights: Map<string, Flight>, resolution?: Resolution): void {
    if (flights.get(this.key) === this) flights.delete(this.key)
    this.#endLate()
    if (resolution !== undefined) this.settleAll(resolution)
    this.#enter({ type: 'landed' })
    this.#onLanded?.()
  }

  /** Resolves when the flight has landed. */
  landed(): Promise<void> {
    return new Promise((resolve) => {
      this.#onLanded = resolve
    })
  }

  // Messages from the store

  /**
   * Makes the flight look up again: the reply of a lookup becomes outdated, and a wait ends. After
   * a `gap` the store may be available again, so a gap also ends the wait for a concurrency slot.
   */
  interrupt(by: Interruption): void {
    const state = this.#state
    if (state.type === 'looking-up') this.isOutdated = true
    else if (state.type === 'waiting' || (state.type === 'queued' && by === 'gap')) state.stop(by)
  }

  /** A fill of another process has ended. */
  wakeUp(): void {
    this.#isWoken = true
    this.interrupt('wake-up')
  }

  /**
   * The key was purged, or purges may have been missed. Drops the previous entry, because it may be
   * the purged one.
   */
  onPurge(by: Interruption): void {
    this.previous = undefined
    this.interrupt(by)
  }

  override countUnusableFill(): void {
    this.#isWoken = false
    super.countUnusableFill()
  }

  // State that the next lookup or fill needs

  /** The lease of the token has ended. The next lookup uses a new token. */
  renewToken(): void {
    this.#token = undefined
  }

  /** Counts a run without a usable result, and returns the count. */
  countUnusableRun(): number {
    this.#unusableRuns += 1
    return this.#unusableRuns
  }

  /**
   * Settles the waiters whose requests are like the failed one. For others, the flight looks up
   * again. With `isForAll`, it only returns the failure, and the caller settles all.
   *
   * A store of an earlier version ignores `like`, and returns the failure of an unlike request
   * again. Then all waiters share it. Otherwise each further lookup would get the same reply.
   */
  shareFailure(failed: Failed, isForAll = false): Failed | 'again' {
    const { like } = failed.failure
    // A call of `getOrSet` has no digest, and is like any other.
    const isLike = (caller: Caller) => (caller.requestDigest?.() ?? like) === like
    const first = this.first?.caller
    const isRepeated = first !== undefined && this.failedDigest === like && !isLike(first)
    if (like === undefined || isForAll || isRepeated) return failed
    this.settleEach(({ caller }) => (isLike(caller) ? failed : undefined))
    if (this.size === 0) return failed
    this.failedDigest = like
    return 'again'
  }

  // The previous entry, for waiters of a wait or fill that takes too long

  /** Serves the previous entry to the waiters that accept it, and to those that come later. */
  becomeLate(why: LateReason, previous: Previous | undefined): void {
    this.#late = why
    this.previous = previous
    this.settleEach(({ caller }) => this.lateFor(caller))
  }

  /** The previous entry for this caller, if the fill or wait takes too long and it accepts it. */
  lateFor(caller: Caller): Resolution | undefined {
    const why = this.#late
    const { previous, rt } = this
    if (why === undefined || previous === undefined) return undefined
    if (!isConfirmed(rt, previous.since)) return undefined
    const held = stillValid(rt, this.key, previous.sequence, previous.held)
    if (held === undefined || !mayServeOnError(held, rt.clock.now())) return undefined
    if (!caller.acceptsStale?.(held)) return undefined
    rt.events.emit({ type: 'stale.served', key: this.key, why })
    return { type: 'late', previous: held, why }
  }

  /**
   * Whether the origin runs in the background, so that the first waiter waits instead of leading.
   * This is so if `softTimeoutMs` is set and that waiter accepts the previous entry. It is then
   * served the entry when the run takes too long, which a leader could not be.
   */
  firstStays(previous: HeldEntry): boolean {
    if (this.policy.softTimeoutMs === undefined) return false
    return this.first?.caller.acceptsStale?.(previous) ?? false
  }

  /** From now on, the previous entry may be served after `softTimeoutMs`. */
  #expectLate(): void {
    const { softTimeoutMs } = this.policy
    if (softTimeoutMs === undefined || this.previous === undefined) return
    const { clock, deadlines } = this.rt
    const at = clock.now() + softTimeoutMs
    this.#softTimeout = deadlines.set(() => this.becomeLate('soft-timeout', this.previous), at)
  }

  #endLate(): void {
    this.#late = undefined
    this.rt.deadlines.end(this.#softTimeout)
  }

  protected override onEmpty(): void {
    if (this.#state.type === 'queued') this.#state.stop('wake-up')
  }

  /** Enters a state, from the state `from` if it is given. Anything else is a bug in the engine. */
  #enter(next: State, from?: State['type']): void {
    const { type } = this.#state
    if (type === 'landed' || type !== (from ?? type))
      throw new Error(`the flight of ${this.key} cannot be ${next.type}: it is ${type}`)
    this.#state = next
    this.isOutdated = false
  }
}
