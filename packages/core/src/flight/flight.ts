// A flight: the lookup and fill of one key in this process, as a state machine. Requests join it as
// waiters.
//
//   looking-up > waiting     another process fills; a wake-up or the end of the lease ends the wait
//              > queued      the store is unavailable, and no concurrency slot is free
//              > filling     this process runs the origin
//              > refreshing  like filling, but new requests are served the previous entry
//   queued     > filling
//   waiting, queued, filling, refreshing > looking-up  without a result for the waiters
//   any        > landed      every waiter is settled, or has moved to a newer flight

import type { HeldEntry } from '../entry/entry.ts'
import { newToken } from '../lease/token.ts'
import type { Policy } from './policy.ts'
import type { Caller, LateReason, Resolution } from './resolution.ts'
import { type FlightRuntime, Waiters } from './waiters.ts'

/**
 * The entry from before a wait or fill. It is served if the wait or fill takes too long
 * (`LateReason`).
 */
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
export type LookAgainReason = 'wake-up' | 'gap' | 'lost'

type State =
  | {
      readonly type: 'looking-up'
      /** The key is hit-for-miss: new requests do not join, but run the handler. */
      readonly isHitForMiss: boolean
      /** A wake-up, purge or gap since the lookup was sent may make the reply outdated. */
      isOutdated: boolean
    }
  | {
      readonly type: 'waiting'
      readonly end: (by: LookAgainReason) => void
      /** Set once the wait takes too long: the reason to serve the previous entry. */
      late: LateReason | undefined
    }
  | {
      readonly type: 'queued'
      /** Leaves the queue. Called if no waiter is left, or if the store may be available again. */
      readonly stop: () => void
      readonly late: LateReason
    }
  | {
      readonly type: 'filling'
      readonly since: number
      readonly isHitForMiss: boolean
      late: LateReason | undefined
    }
  | {
      readonly type: 'refreshing'
      readonly since: number
      /** New requests are served this entry at once, while it is valid. */
      readonly previous: HeldEntry
      late: LateReason | undefined
    }
  | { readonly type: 'landed' }

type StateName = State['type']

export class Flight {
  readonly key: string
  readonly policy: Policy
  readonly waiters: Waiters
  /** Time at which the first lookup of this flight began. */
  startedAt = 0
  #state: State
  #previous: Previous | undefined
  #token: string | undefined
  #failedDigest: string | undefined
  #unusableRuns = 0
  #hasLookedUp = false
  /** Whether a wake-up came since the last lookup: a fill of another process ended. */
  #isWoken = false

  /** `isHitForMiss`: the last response could not be shared. */
  constructor(
    key: string,
    policy: Policy,
    { isHitForMiss = false }: { readonly isHitForMiss?: boolean } = {},
  ) {
    this.key = key
    this.policy = policy
    this.waiters = new Waiters(key, () => this.#stopIfEmpty())
    this.#state = { type: 'looking-up', isHitForMiss, isOutdated: false }
  }

  get state(): StateName {
    return this.#state.type
  }

  /**
   * Token of the lease that this process asks for. A repeated lookup with the same token gets the
   * same lease.
   */
  get token(): string {
    this.#token ??= newToken()
    return this.#token
  }

  /**
   * Digest of the request whose run failed. Before all waiters share the failure, a waiter with
   * another digest runs the handler once more.
   */
  get failedDigest(): string | undefined {
    return this.#failedDigest
  }

  /** The entry to serve if the wait or fill takes too long. */
  get previous(): Previous | undefined {
    return this.#previous
  }

  // looking-up

  /** Call this when a lookup is sent. A later `requestLookup` makes the reply outdated. */
  beginLookup(rt: FlightRuntime): void {
    const state = this.#from('begin a lookup', 'looking-up')
    state.isOutdated = false
    // Frequent purges could make every reply outdated, and the lookups would never end. So `waitMs`
    // counts from the second lookup on.
    if (this.#hasLookedUp) this.waiters.startClocks(rt)
    this.#hasLookedUp = true
  }

  /** Call this when the reply has arrived. */
  endLookup(isHitForMiss: boolean): void {
    const { isOutdated } = this.#from('end a lookup', 'looking-up')
    this.#state = { type: 'looking-up', isHitForMiss, isOutdated }
  }

  /** Whether the reply to the last lookup may be outdated. */
  get isOutdated(): boolean {
    return this.#state.type === 'looking-up' && this.#state.isOutdated
  }

  /** Whether new requests run the handler instead of joining. */
  get isHitForMiss(): boolean {
    const state = this.#state
    return (state.type === 'looking-up' || state.type === 'filling') && state.isHitForMiss
  }

  // waiting, queued, filling, refreshing

  /** Call this if another process fills. `end` is called with the reason that ends the wait. */
  beginWait(rt: FlightRuntime, end: (by: LookAgainReason) => void): void {
    this.#from('wait', 'looking-up')
    this.#state = { type: 'waiting', end, late: undefined }
    this.waiters.beginWait(rt)
  }

  /**
   * Call this if no concurrency slot is free. `stop` is called if no waiter is left, or if the
   * store may be available again.
   */
  beginQueue(stop: () => void): void {
    this.#from('queue', 'looking-up')
    this.#state = { type: 'queued', stop, late: 'origin-queue' }
  }

  /**
   * Call this if some waiters were served a stale entry, and others remain. The flight stays
   * queued, and `waitMs` counts.
   */
  stayQueued(rt: FlightRuntime): void {
    this.#from('stay in the queue', 'queued')
    this.waiters.beginWait(rt)
  }

  /** Call this when the origin starts. New requests are served `previous`, if it is defined. */
  beginFill(rt: FlightRuntime, previous?: HeldEntry): void {
    const since = rt.clock.now()
    const rest = { since, late: undefined }
    if (previous === undefined) {
      this.#from('fill', 'looking-up', 'queued')
      this.#state = { type: 'filling', isHitForMiss: this.isHitForMiss, ...rest }
    } else {
      this.#from('refresh', 'looking-up')
      this.#state = { type: 'refreshing', previous, ...rest }
    }
    this.waiters.beginWait(rt)
  }

  /** Whether the origin runs, or its result is being committed. */
  get isFilling(): boolean {
    return this.#state.type === 'filling' || this.#state.type === 'refreshing'
  }

  /** Time at which the fill began. */
  get fillingSince(): number {
    return this.#from('tell when its fill began', 'filling', 'refreshing').since
  }

  /** The entry that new requests are served while the origin runs. */
  get servedMeanwhile(): HeldEntry | undefined {
    return this.#state.type === 'refreshing' ? this.#state.previous : undefined
  }

  /** Call this if the wait or fill takes too long. The previous entry may then be served. */
  becomeLate(why: LateReason): void {
    this.#from('be late', 'waiting', 'filling', 'refreshing').late = why
  }

  /** The reason to serve the previous entry. Undefined unless the wait or fill takes too long. */
  get late(): LateReason | undefined {
    return 'late' in this.#state ? this.#state.late : undefined
  }

  /** Returns to `looking-up`, from a wait or from a fill without a result for the waiters. */
  lookUpAgain(): void {
    if (this.isFilling) this.countUnusableFill()
    const { isHitForMiss } = this
    this.#from('look up', 'looking-up', 'waiting', 'queued', 'filling', 'refreshing')
    this.#state = { type: 'looking-up', isHitForMiss, isOutdated: false }
  }

  /** Ends the flight and removes it from the map in one step, so that no request joins it. */
  land(
    rt: FlightRuntime & { readonly flights: Map<string, Flight> },
    resolution?: Resolution,
  ): void {
    this.#from('land', 'looking-up', 'waiting', 'queued', 'filling', 'refreshing')
    if (rt.flights.get(this.key) === this) rt.flights.delete(this.key)
    if (resolution !== undefined) this.waiters.settleAll(resolution)
    this.#state = { type: 'landed' }
  }

  // Messages from the store

  /**
   * Makes the flight look up again: the reply of a lookup becomes outdated, and a wait ends. After
   * a `gap` the store may be available again, so a gap also ends the wait for a concurrency slot.
   */
  requestLookup(by: LookAgainReason): void {
    const state = this.#state
    if (state.type === 'looking-up') state.isOutdated = true
    else if (state.type === 'waiting') state.end(by)
    else if (state.type === 'queued' && by === 'gap') state.stop()
  }

  /** Call this when a fill of another process has ended. */
  wakeUp(): void {
    this.#isWoken = true
    this.requestLookup('wake-up')
  }

  /**
   * Call this after a purge of the key, or if purges may have been missed. Drops the previous
   * entry, because it may be the purged one.
   */
  onPurge(by: LookAgainReason): void {
    this.#previous = undefined
    this.requestLookup(by)
  }

  /** Whether a wake-up came since the last call of this method. */
  takeWakeUp(): boolean {
    const isWoken = this.#isWoken
    this.#isWoken = false
    return isWoken
  }

  /** Adds a request, which is settled together with the other waiters. */
  join(rt: FlightRuntime, caller: Caller, waitMs: number): Promise<Resolution> {
    this.#from('be joined', 'looking-up', 'waiting', 'queued', 'filling', 'refreshing')
    return this.waiters.join(rt, caller, waitMs)
  }

  /** Counts a fill of any process that ended without a usable result for the waiters. */
  countUnusableFill(): void {
    this.#isWoken = false
    this.waiters.countUnusableFill()
  }

  // State that the next lookup or fill needs

  /** Call this when the lease of the token has ended. The next lookup uses a new token. */
  renewToken(): void {
    this.#token = undefined
  }

  keepPrevious(previous: Previous | undefined): void {
    this.#previous = previous
  }

  /** Call this when a run has failed, with the digest of its request. */
  setFailedDigest(digest: string | undefined): void {
    this.#failedDigest = digest
  }

  /** Counts a run without a usable result, and returns the count. */
  countUnusableRun(): number {
    this.#unusableRuns += 1
    return this.#unusableRuns
  }

  #stopIfEmpty(): void {
    if (this.waiters.size === 0 && this.#state.type === 'queued') this.#state.stop()
  }

  /** The state, if it is one of `types`. Any other state is a bug in the calling code. */
  #from<T extends StateName>(action: string, ...types: T[]): Extract<State, { type: T }> {
    const state = this.#state
    if (types.some((type) => type === state.type)) return state as Extract<State, { type: T }>
    throw new Error(`the flight of ${this.key} cannot ${action}: it is ${state.type}`)
  }
}
