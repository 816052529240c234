// One key being resolved in this process: everybody who asks for it meanwhile joins and is settled
// together. A flight leaves the map only if the slot is still its own.

import type { HeldEntry } from '../entry/entry.ts'
import type { Events } from '../events.ts'
import { newToken } from '../lease/token.ts'
import type { Clock, Timer } from '../ports/clock.ts'
import type { Live } from '../stream/live-body.ts'
import type { Policy } from './policy.ts'
import type { Caller, Late, Resolution } from './resolution.ts'

/** The collaborators that a flight itself needs. */
export interface Surroundings {
  readonly clock: Clock
  readonly events: Events
}

export interface Waiter {
  readonly caller: Caller
  readonly settle: (resolution: Resolution) => void
  readonly waitMs: number
  /** Runs while another fills. */
  timer: Timer | undefined
  /** The flight it waits in now. */
  flight: Flight
  /** Fills that it waited for, and that came to nothing. */
  inVain: number
}

/** Where purges come faster than it can be made, every fill would be void, and answer one request. */
const MOST_IN_VAIN = 2

/** What may stand in for what is late, and since when it is known that it was not purged. */
export interface Spare {
  readonly held: HeldEntry
  readonly since: number
  /** That of L1 when it was read. */
  readonly sequence: number
}

export class Flight {
  readonly key: string
  readonly policy: Policy
  /** In order of arrival; the first still waiting leads. */
  readonly waiters: Set<Waiter> = new Set()
  /** Set while a refresh runs behind: whoever comes is answered with it at once, as long as it may be. */
  copy: HeldEntry | undefined
  /** Fresh, and drawn to be refreshed before its time: the next look-up asks for that. */
  early: HeldEntry | undefined
  /** Set while an answer is on its way that may be shown as it comes. */
  live: Live | undefined
  spare: Spare | undefined
  /** Set while what is awaited is late: whoever takes the spare is answered with it at once. */
  late: Late | undefined
  /** Fills without a usable result, not counting those whose client left. See MOST_ABANDONED. */
  abandoned = 0
  /** The origin is being run, or has just ended; a purge now means that newcomers need a flight of their own. */
  filling = false
  /** When that began. */
  fillingSince = 0
  /** Names this process's claim to the key until a lease came of it: asked again, it gives the same lease. */
  token: string = newToken()
  /** The key is marked hit-for-miss: new requests do not join, but run the handler. */
  isPassing = false
  /**
   * Digest of the request whose run failed. An unlike waiter runs the handler once more before the
   * failure is shared with all.
   */
  doubted: string | undefined
  /** Another fills: the clocks of those who wait are running. */
  counting = false
  /** Woken, purged or possibly uninformed since the last lookup was sent. */
  recheck = false
  /** Another's fill has ended since the last lookup. */
  woken = false
  wake: (by: 'wake-up' | 'gap' | 'lost') => void = () => {}

  /** Nobody waits here any more. */
  deserted: () => void = () => {}

  constructor(key: string, policy: Policy, early?: HeldEntry) {
    this.key = key
    this.policy = policy
    this.early = early
  }

  /** `waitMs` counts while another fills, not while the store is asked: that has a budget of its own. */
  join(rt: Surroundings, caller: Caller, waitMs: number): Promise<Resolution> {
    return new Promise((resolve) => {
      const state = { timer: undefined, flight: this, inVain: 0 }
      const waiter: Waiter = { caller, waitMs, settle: resolve, ...state }
      this.waiters.add(waiter)
      if (this.counting) startClock(rt, waiter)
    })
  }

  /** The origin is run from now on. */
  beginFill(rt: Surroundings): void {
    this.filling = true
    this.fillingSince = rt.clock.now()
    this.startClocks(rt)
  }

  /** From now on everybody here waits for another. */
  startClocks(rt: Surroundings): void {
    this.counting = true
    for (const waiter of this.waiters) if (waiter.timer === undefined) startClock(rt, waiter)
  }

  /** Removes and returns the first waiter that `may` lead. Its `waitMs` no longer applies. */
  takeLeader(may: (caller: Caller) => boolean = () => true): Waiter | undefined {
    for (const waiter of this.waiters) {
      if (!may(waiter.caller)) continue
      this.waiters.delete(waiter)
      waiter.timer?.cancel()
      return waiter
    }
    return undefined
  }

  first(): Waiter | undefined {
    return this.waiters.values().next().value
  }

  /** Waits no more: there is something for this one alone. */
  release(waiter: Waiter, resolution: Resolution): void {
    waiter.timer?.cancel()
    waiter.settle(resolution)
    this.remove(waiter)
  }

  remove(waiter: Waiter): void {
    this.waiters.delete(waiter)
    if (this.waiters.size === 0) this.deserted()
  }

  /** Releases waiters whose client has left, so that none of them leads. */
  dropGone(): void {
    for (const waiter of this.waiters) {
      if (waiter.caller.isGone?.()) this.release(waiter, { type: 'gone' })
    }
  }

  settleAll(resolution: Resolution): void {
    const waiters = [...this.waiters]
    this.waiters.clear()
    for (const waiter of waiters) waiter.timer?.cancel()
    this.deserted()
    settleInTurns(waiters, resolution, 0)
  }

  /** A fill ended, here or elsewhere, and there is nothing. */
  waitedInVain(): void {
    this.woken = false
    for (const waiter of this.waiters) waiter.inVain += 1
  }

  /** Somebody has waited in vain too often to wait for another process once more. */
  get isLongAwaited(): boolean {
    return (this.first()?.inVain ?? 0) >= MOST_IN_VAIN
  }

  /**
   * For what nobody may keep. Who has waited in vain too often gets it: it was begun after they asked, as a run of their own
   * would have been, which nobody would take from them either.
   */
  settleLongAwaited(resolution: Resolution): void {
    for (const waiter of this.waiters) {
      if (waiter.inVain >= MOST_IN_VAIN) this.release(waiter, resolution)
    }
  }

  /** Over: nobody can join any more, and everybody is told. */
  land(flights: Map<string, Flight>, resolution: Resolution): void {
    this.leave(flights)
    this.settleAll(resolution)
  }

  /** Everybody waits in another flight from now on, each with the rest of its own `waitMs`. */
  moveTo(other: Flight): void {
    for (const waiter of this.waiters) {
      waiter.flight = other
      other.waiters.add(waiter)
    }
    this.waiters.clear()
  }

  leave(flights: Map<string, Flight>): void {
    if (flights.get(this.key) === this) flights.delete(this.key)
  }
}

/** Of those who wait for one key. Each is an answer to write; in between others have their turn of the event loop. */
const MOST_IN_A_TURN = 100

function settleInTurns(waiters: readonly Waiter[], resolution: Resolution, from: number): void {
  const end = Math.min(from + MOST_IN_A_TURN, waiters.length)
  for (let i = from; i < end; i++) waiters[i]?.settle(resolution)
  if (end < waiters.length) setImmediate(settleInTurns, waiters, resolution, end)
}

function startClock(rt: Surroundings, waiter: Waiter): void {
  waiter.timer = rt.clock.setTimer(waiter.waitMs, () => {
    waiter.flight.remove(waiter)
    rt.events.emit({ type: 'wait.timed-out', key: waiter.flight.key })
    waiter.settle({ type: 'timed-out', previous: undefined })
  })
}
