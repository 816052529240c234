// The waiters of one flight, in order of arrival: who leads, who is settled, and how long each waits.
// A client that leaves is dropped when the next leader is chosen (`dropGone`). The fill goes on.

import type { Events } from '../events.ts'
import { type Clock, MOST_LATE_MS, type Timer } from '../ports/clock.ts'
import type { Caller, Resolution } from './resolution.ts'

/** The collaborators that a flight and its waiters need. */
export interface Surroundings {
  readonly clock: Clock
  readonly events: Events
}

export interface Waiter {
  readonly caller: Caller
  readonly settle: (resolution: Resolution) => void
}

interface Waiting extends Waiter {
  readonly waitMs: number
  /** When its `waitMs` is over. Undefined until the first lookup has ended. */
  endsAt: number | undefined
  /** Fills that it waited for and that brought no result for it. */
  refusals: number
}

/** If purges come faster than a fill takes, every fill is void, and serves one request only. */
const MOST_REFUSALS = 2

export class Waiters {
  readonly #key: string
  readonly #onEmpty: () => void
  readonly #all = new Set<Waiting>()
  /** Their clocks run: the first lookup has ended without a result. */
  #isCounting = false
  /** For the first `endsAt` among them. One for all: in a burst, a timer of each is most of joining. */
  #timer: Timer | undefined
  #timerAt = 0
  /** They end in the order in which they joined: none moved here, and their `waitMs` are alike. */
  #isInOrder = true
  #latest = 0

  constructor(key: string, onEmpty: () => void) {
    this.#key = key
    this.#onEmpty = onEmpty
  }

  get size(): number {
    return this.#all.size
  }

  [Symbol.iterator](): Iterator<Waiter> {
    return this.#all.values()
  }

  first(): Waiter | undefined {
    return this.#all.values().next().value
  }

  /** `waitMs` does not count during the first lookup: that has a budget of its own. */
  join(rt: Surroundings, caller: Caller, waitMs: number): Promise<Resolution> {
    return new Promise((settle) => {
      const waiter = { caller, settle, waitMs, endsAt: undefined, refusals: 0 }
      this.#all.add(waiter)
      if (this.#isCounting) this.#startClock(rt, waiter)
    })
  }

  startClocks(rt: Surroundings): void {
    this.#isCounting = true
    for (const waiter of this.#all) if (waiter.endsAt === undefined) this.#startClock(rt, waiter)
  }

  /** Removes and returns the first that `may` lead. Its `waitMs` no longer applies. */
  takeLeader(may: (caller: Caller) => boolean = () => true): Waiter | undefined {
    for (const waiter of this.#all) {
      if (!may(waiter.caller)) continue
      this.#all.delete(waiter)
      this.#stopTimerIfEmpty()
      return waiter
    }
    return undefined
  }

  /** Settles each waiter that `resolutionFor` has a resolution for. */
  settleEach(rt: Surroundings, resolutionFor: (waiter: Waiter) => Resolution | undefined): void {
    for (const waiter of this.#all) {
      const resolution = resolutionFor(waiter)
      if (resolution !== undefined) this.#settle(rt, waiter, resolution)
    }
  }

  settleAll(rt: Surroundings, resolution: Resolution): void {
    const all = [...this.#all]
    this.#all.clear()
    this.#stopTimerIfEmpty()
    for (let i = 0; i < all.length; i++) this.#countHit(rt, resolution)
    this.#onEmpty()
    settleInTurns(all, resolution, 0)
  }

  /** Ends the wait of each client that has left. Called before a leader is chosen, so that none of them leads. */
  dropGone(rt: Surroundings): void {
    this.settleEach(rt, ({ caller }) => (caller.isGone?.() ? { type: 'gone' } : undefined))
  }

  /** A fill ended, here or elsewhere, without a result for them. */
  countRefusal(): void {
    for (const waiter of this.#all) waiter.refusals += 1
  }

  /** The first one has waited for too many fills to wait for another process once more. */
  get isPastRefusals(): boolean {
    const [first] = this.#all
    return first !== undefined && first.refusals >= MOST_REFUSALS
  }

  /**
   * Gives a result that cannot be stored to those that have waited for too many fills. The run
   * began after they asked, as a run of their own would have.
   */
  settlePastRefusals(rt: Surroundings, resolution: Resolution): void {
    for (const waiter of this.#all) {
      if (waiter.refusals >= MOST_REFUSALS) this.#settle(rt, waiter, resolution)
    }
  }

  /** All of them wait among others from now on, each with the rest of its own `waitMs`. */
  moveTo(rt: Surroundings, others: Waiters): void {
    const now = rt.clock.now()
    for (const waiter of this.#all) {
      others.#all.add(waiter)
      if (waiter.endsAt !== undefined) others.#expectEnd(rt, waiter.endsAt, now)
    }
    others.#isInOrder = false
    this.#all.clear()
    this.#stopTimerIfEmpty()
  }

  #startClock(rt: Surroundings, waiter: Waiting): void {
    const now = rt.clock.now()
    waiter.endsAt = now + waiter.waitMs
    this.#expectEnd(rt, waiter.endsAt, now)
  }

  #expectEnd(rt: Surroundings, endsAt: number, now: number): void {
    if (endsAt < this.#latest) this.#isInOrder = false
    else this.#latest = endsAt
    this.#setTimer(rt, endsAt, now)
  }

  #setTimer(rt: Surroundings, endsAt: number, now: number): void {
    const isLate = this.#timer !== undefined && this.#timerAt < now - MOST_LATE_MS
    if (this.#timer !== undefined && this.#timerAt <= endsAt && !isLate) return
    this.#timer?.cancel()
    this.#timerAt = isLate ? now : endsAt
    this.#timer = rt.clock.setTimer(this.#timerAt - now, () => this.#timeOutDue(rt))
  }

  /** Ends each wait whose `waitMs` is over. The timer may have been set for a waiter that has left. */
  #timeOutDue(rt: Surroundings): void {
    this.#timer = undefined
    const now = rt.clock.now()
    for (const waiter of this.#all) {
      if (waiter.endsAt === undefined) continue
      if (waiter.endsAt <= now) {
        this.#timeOut(rt, waiter)
        continue
      }
      this.#setTimer(rt, waiter.endsAt, now)
      // Thousands may wait, and each millisecond some of them end.
      if (this.#isInOrder) return
    }
  }

  #timeOut(rt: Surroundings, waiter: Waiting): void {
    this.#remove(waiter)
    rt.events.emit({ type: 'wait.timed-out', key: this.#key })
    waiter.settle({ type: 'timed-out', previous: undefined })
  }

  #settle(rt: Surroundings, waiter: Waiting, resolution: Resolution): void {
    this.#countHit(rt, resolution)
    waiter.settle(resolution)
    this.#remove(waiter)
  }

  /** An entry of the store is a hit for each waiter. The result of a fill is not. */
  #countHit(rt: Surroundings, resolution: Resolution): void {
    if (resolution.type !== 'hit' || resolution.from === 'fill') return
    rt.events.hit(this.#key, resolution.from, resolution.stale)
  }

  #remove(waiter: Waiting): void {
    this.#all.delete(waiter)
    this.#stopTimerIfEmpty()
    if (this.#all.size === 0) this.#onEmpty()
  }

  #stopTimerIfEmpty(): void {
    if (this.#all.size > 0) return
    this.#timer?.cancel()
    this.#timer = undefined
  }
}

/** Waiters settled in one turn of the event loop. Each writes a response; other work runs between the turns. */
const MOST_IN_A_TURN = 100

function settleInTurns(waiters: readonly Waiter[], resolution: Resolution, from: number): void {
  const end = Math.min(from + MOST_IN_A_TURN, waiters.length)
  for (let i = from; i < end; i++) waiters[i]?.settle(resolution)
  if (end < waiters.length) setImmediate(settleInTurns, waiters, resolution, end)
}
