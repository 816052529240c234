// One key being resolved in this process, as a state machine. Requests for the key join as waiters.
//
//   looking-up > waiting     another process fills; a message or the end of its lease ends the wait
//              > queued      the store is away, and no slot for a run of the origin is free
//              > filling     this process runs the origin
//              > refreshing  as filling, and newcomers are served the previous entry meanwhile
//   queued     > filling
//   all four   > looking-up  without a result for the waiters
//   any        > landed      every waiter is settled, or has moved to a newer flight

import type { HeldEntry } from '../entry/entry.ts'
import { newToken } from '../lease/token.ts'
import type { Live } from '../stream/live-body.ts'
import type { Policy } from './policy.ts'
import type { Caller, Late, Resolution } from './resolution.ts'
import { type Surroundings, Waiters } from './waiters.ts'

/** An older entry, served if the work is late. */
export interface Previous {
  readonly held: HeldEntry
  /** When it was last known not to be purged. */
  readonly since: number
  /** Sequence of L1 when it was read. */
  readonly sequence: number
}

/** Why a flight looks again: a fill ended, messages may have been lost, or the store is away. */
export type Notice = 'wake-up' | 'gap' | 'lost'

type State =
  | {
      readonly type: 'looking-up'
      /** The lookup asks for an early refresh of this fresh entry. */
      readonly early: HeldEntry | undefined
      /** The key is marked hit-for-miss: new requests do not join, but run the handler. */
      readonly isPassing: boolean
      /** A notice came since the lookup was sent, so its reply may be outdated. */
      isOutdated: boolean
    }
  | {
      readonly type: 'waiting'
      readonly end: (by: Notice) => void
      late: Late | undefined
    }
  | {
      readonly type: 'queued'
      /** Leaves the queue: no waiter is left, or the store may be back. */
      readonly stop: () => void
      readonly late: Late
    }
  | {
      readonly type: 'filling'
      readonly since: number
      readonly isPassing: boolean
      late: Late | undefined
      /** The response on its way, if it may be shown while it comes. */
      live: Live | undefined
    }
  | {
      readonly type: 'refreshing'
      readonly since: number
      /** Served to newcomers at once, while it is valid. */
      readonly previous: HeldEntry
      late: Late | undefined
      live: Live | undefined
    }
  | { readonly type: 'landed' }

type StateName = State['type']

export class Flight {
  readonly key: string
  readonly policy: Policy
  readonly waiters: Waiters
  #state: State
  #previous: Previous | undefined
  #token: string | undefined
  #doubted: string | undefined
  #abandoned = 0
  #hasLookedUp = false
  /** A fill of another process has ended since the last lookup. */
  #isWoken = false

  /** `early`: a fresh entry that is to be refreshed early. `isPassing`: the key is hit-for-miss. */
  constructor(
    key: string,
    policy: Policy,
    start: { readonly early?: HeldEntry; readonly isPassing?: boolean } = {},
  ) {
    this.key = key
    this.policy = policy
    this.waiters = new Waiters(key, () => this.#stopIfEmpty())
    const { early, isPassing = false } = start
    this.#state = { type: 'looking-up', early, isPassing, isOutdated: false }
  }

  get state(): StateName {
    return this.#state.type
  }

  /** Token of the lease that this process asks for. A repeated request with it gets the same lease. */
  get token(): string {
    this.#token ??= newToken()
    return this.#token
  }

  /**
   * Digest of the request whose run failed. An unlike waiter runs the handler once more before the
   * failure is shared with all.
   */
  get doubted(): string | undefined {
    return this.#doubted
  }

  /** The entry to serve if the work is late. */
  get previous(): Previous | undefined {
    return this.#previous
  }

  // looking-up

  /** A lookup is sent: notices from now on make its reply outdated. Returns the entry of an early refresh. */
  beginLookup(rt: Surroundings): HeldEntry | undefined {
    const state = this.#from('begin a lookup', 'looking-up')
    state.isOutdated = false
    // Purges may outdate one reply after the other, so waiters do not wait for that without end.
    if (this.#hasLookedUp) this.waiters.startClocks(rt)
    this.#hasLookedUp = true
    return state.early
  }

  /** The reply is there. Later lookups of this flight ask for no early refresh. */
  endLookup(isPassing: boolean): void {
    const { isOutdated } = this.#from('end a lookup', 'looking-up')
    this.#state = { type: 'looking-up', early: undefined, isPassing, isOutdated }
  }

  /** Whether a reply to the last lookup may be outdated. */
  get isOutdated(): boolean {
    return this.#state.type === 'looking-up' && this.#state.isOutdated
  }

  /** New requests run the handler instead of joining. */
  get isPassing(): boolean {
    const state = this.#state
    return (state.type === 'looking-up' || state.type === 'filling') && state.isPassing
  }

  // waiting, queued, filling, refreshing

  /** Another process fills. `end` is called with the notice that ends the wait. */
  beginWait(rt: Surroundings, end: (by: Notice) => void): void {
    this.#from('wait', 'looking-up')
    this.#state = { type: 'waiting', end, late: undefined }
    this.waiters.startClocks(rt)
  }

  /** No slot is free. `stop` is called if no waiter is left, or if the store may be back. */
  beginQueue(stop: () => void): void {
    this.#from('queue', 'looking-up')
    this.#state = { type: 'queued', stop, late: 'origin-queue' }
  }

  /** The flight stays in the queue: its waiters' clocks run. */
  stayQueued(rt: Surroundings): void {
    this.#from('stay in the queue', 'queued')
    this.waiters.startClocks(rt)
  }

  /** The origin runs from now on. With `previous`, newcomers are served that meanwhile. */
  beginFill(rt: Surroundings, previous?: HeldEntry): void {
    const since = rt.clock.now()
    const rest = { since, late: undefined, live: undefined }
    if (previous === undefined) {
      this.#from('fill', 'looking-up', 'queued')
      this.#state = { type: 'filling', isPassing: this.isPassing, ...rest }
    } else {
      this.#from('refresh', 'looking-up')
      this.#state = { type: 'refreshing', previous, ...rest }
    }
    this.waiters.startClocks(rt)
  }

  /** The origin runs, or its result is being committed. */
  get isFilling(): boolean {
    return this.#state.type === 'filling' || this.#state.type === 'refreshing'
  }

  /** When the fill began. */
  get fillingSince(): number {
    return this.#from('tell since when it fills', 'filling', 'refreshing').since
  }

  /** Served to newcomers at once, while it is valid. */
  get servedMeanwhile(): HeldEntry | undefined {
    return this.#state.type === 'refreshing' ? this.#state.previous : undefined
  }

  /** The response on its way. */
  get live(): Live | undefined {
    const state = this.#state
    return state.type === 'filling' || state.type === 'refreshing' ? state.live : undefined
  }

  showLive(live: Live): void {
    this.#from('show a response', 'filling', 'refreshing').live = live
  }

  /** The work is late: the previous entry may be served from now on. */
  becomeLate(why: Late): void {
    this.#from('be late', 'waiting', 'filling', 'refreshing').late = why
  }

  get late(): Late | undefined {
    return 'late' in this.#state ? this.#state.late : undefined
  }

  /** Looks up again. A fill that ends so brought no result for the waiters. */
  lookUpAgain(): void {
    if (this.isFilling) this.countRefusal()
    const { isPassing } = this
    this.#from('look up', 'looking-up', 'waiting', 'queued', 'filling', 'refreshing')
    this.#state = { type: 'looking-up', early: undefined, isPassing, isOutdated: false }
  }

  /** Ends the flight: it leaves the map in the same step, so that no request joins it. */
  land(
    rt: Surroundings & { readonly flights: Map<string, Flight> },
    resolution?: Resolution,
  ): void {
    this.#from('land', 'looking-up', 'waiting', 'queued', 'filling', 'refreshing')
    if (rt.flights.get(this.key) === this) rt.flights.delete(this.key)
    if (resolution !== undefined) this.waiters.settleAll(rt, resolution)
    this.#state = { type: 'landed' }
  }

  // Notices from the store

  /** A reply under way may be outdated. Ends a wait, and a gap ends a queue: the store may be back. */
  notice(by: Notice): void {
    const state = this.#state
    if (state.type === 'looking-up') state.isOutdated = true
    else if (state.type === 'waiting') state.end(by)
    else if (state.type === 'queued' && by === 'gap') state.stop()
  }

  /** A fill of another process has ended. */
  wakeUp(): void {
    this.#isWoken = true
    this.notice('wake-up')
  }

  /** A purge, or purges that may have been missed. A purge by key leaves no mark, so the previous entry goes. */
  forget(by: Notice): void {
    this.#previous = undefined
    this.notice(by)
  }

  /** Whether a wake-up came since the last call. */
  takeWakeUp(): boolean {
    const isWoken = this.#isWoken
    this.#isWoken = false
    return isWoken
  }

  /** A request joins. It is settled together with the others. */
  join(rt: Surroundings, caller: Caller, waitMs: number): Promise<Resolution> {
    this.#from('be joined', 'looking-up', 'waiting', 'queued', 'filling', 'refreshing')
    return this.waiters.join(rt, caller, waitMs)
  }

  /** A fill ended, here or elsewhere, without a result for the waiters. */
  countRefusal(): void {
    this.#isWoken = false
    this.waiters.countRefusal()
  }

  // What earlier fills left behind

  /** The lease that came of the token has ended: the next claim has a name of its own. */
  renewToken(): void {
    this.#token = undefined
  }

  keepPrevious(previous: Previous | undefined): void {
    this.#previous = previous
  }

  /** The run of this request failed. */
  doubt(like: string): void {
    this.#doubted = like
  }

  /** Counts a run without a usable result. Returns how many there were. */
  countAbandoned(): number {
    this.#abandoned += 1
    return this.#abandoned
  }

  #stopIfEmpty(): void {
    if (this.waiters.size === 0 && this.#state.type === 'queued') this.#state.stop()
  }

  /** The state, if it is one of these. Anything else is a defect of the caller. */
  #from<T extends StateName>(action: string, ...types: T[]): Extract<State, { type: T }> {
    const state = this.#state
    if (types.some((type) => type === state.type)) return state as Extract<State, { type: T }>
    throw new Error(`the flight of ${this.key} cannot ${action}: it is ${state.type}`)
  }
}
