// The waiters of one flight, in order of arrival. Here the leader is chosen, waiters are settled,
// and `waitMs` is measured. A waiter whose client has left is dropped when the next leader is
// chosen (`dropGone`). A fill that is running goes on.

import type { Events } from '../events.ts'
import { type Clock, isOverdue, type Timer } from '../ports/clock.ts'
import { type FillTrace, type WaitTrace, waitTracing } from '../tracing.ts'
import type { Caller, Resolution } from './resolution.ts'
import { beginWait, endWait } from './traced-lookup.ts'

/** The parts of the runtime that a flight and its waiters need. */
export interface FlightRuntime {
  readonly clock: Clock
  readonly events: Events
}

export interface Waiter {
  readonly caller: Caller
  readonly settle: (resolution: Resolution) => void
}

interface TimedWaiter extends Waiter {
  readonly waitMs: number
  /** Time at which `waitMs` ends. Undefined while `waitMs` does not count yet. */
  endsAt: number | undefined
  /** Number of fills that ended without a usable result during this wait. */
  unusableFills: number
  /** Set while the wait is traced. */
  trace: WaitTrace | undefined
}

/**
 * After this many fills without a usable result, a waiter accepts an entry whose commit was
 * refused. It also no longer waits for fills of other processes. If purges come faster than fills
 * finish, every commit is refused. Without this limit, each fill would then serve only its leader.
 */
const MOST_UNUSABLE_FILLS = 2

export class Waiters {
  /** The newest traced run for these waiters. */
  fill: FillTrace | undefined
  readonly #key: string
  readonly #onEmpty: () => void
  readonly #all = new Set<TimedWaiter>()
  /**
   * Whether `waitMs` counts. It starts to count when the first lookup has ended without a result.
   */
  #isCounting = false
  #isWaiting = false
  /**
   * One timer for all waiters, set for the earliest `endsAt`. In a burst, a timer for each waiter
   * would be most of the cost of joining.
   */
  #timer: Timer | undefined
  #timerAt = 0
  /**
   * Whether waits end in order of arrival. False after a different `waitMs` or after `moveTo`.
   */
  #isInOrder = true
  /** The latest `endsAt`. */
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

  /** `waitMs` does not count during the first lookup, which has a time budget of its own. */
  join(rt: FlightRuntime, caller: Caller, waitMs: number): Promise<Resolution> {
    return new Promise((settle) => {
      const waiter = {
        caller,
        settle,
        waitMs,
        endsAt: undefined,
        unusableFills: 0,
        trace: undefined,
      }
      this.#all.add(waiter)
      if (this.#isCounting) this.#startClock(rt, waiter)
      if (this.#isWaiting && waitTracing.hasSubscribers) this.#beginTrace(waiter)
    })
  }

  startClocks(rt: FlightRuntime): void {
    this.#isCounting = true
    for (const waiter of this.#all) if (waiter.endsAt === undefined) this.#startClock(rt, waiter)
  }

  /** The waiters wait for a run from now on, and not only for a lookup. */
  beginWait(rt: FlightRuntime): void {
    this.startClocks(rt)
    this.#isWaiting = true
    if (waitTracing.hasSubscribers) for (const waiter of this.#all) this.#beginTrace(waiter)
  }

  /** Removes and returns the first waiter that may lead. Its `waitMs` no longer applies. */
  takeLeader(may: (caller: Caller) => boolean = () => true): Waiter | undefined {
    for (const waiter of this.#all) {
      if (!may(waiter.caller)) continue
      this.#all.delete(waiter)
      this.#stopTimerIfEmpty()
      this.#endTrace(waiter, undefined)
      return waiter
    }
    return undefined
  }

  /** Settles each waiter for which `resolutionFor` returns a resolution. */
  settleEach(resolutionFor: (waiter: Waiter) => Resolution | undefined): void {
    for (const waiter of this.#all) {
      const resolution = resolutionFor(waiter)
      if (resolution !== undefined) this.#settle(waiter, resolution)
    }
  }

  settleAll(resolution: Resolution): void {
    const all = [...this.#all]
    this.#all.clear()
    this.#stopTimerIfEmpty()
    for (const waiter of all) this.#endTrace(waiter, resolution)
    this.#onEmpty()
    settleInTurns(all, resolution, 0)
  }

  /**
   * Ends the wait of each request whose client has left. Called before a leader is chosen, so that
   * no such request leads.
   */
  dropGone(): void {
    this.settleEach(({ caller }) => (caller.isGone?.() ? { type: 'gone' } : undefined))
  }

  /** Counts a fill of any process that ended without a usable result for the waiters. */
  countUnusableFill(): void {
    for (const waiter of this.#all) waiter.unusableFills += 1
  }

  /** Whether the first waiter has reached `MOST_UNUSABLE_FILLS`. */
  get isFirstAtLimit(): boolean {
    const [first] = this.#all
    return first !== undefined && first.unusableFills >= MOST_UNUSABLE_FILLS
  }

  /**
   * Gives an entry whose commit was refused to each waiter that has reached `MOST_UNUSABLE_FILLS`.
   * The run that made the entry began after these waiters came. So the entry is as current as that
   * of a run of their own.
   */
  settleAtLimit(resolution: Resolution): void {
    for (const waiter of this.#all) {
      if (waiter.unusableFills >= MOST_UNUSABLE_FILLS) this.#settle(waiter, resolution)
    }
  }

  /** Moves all waiters to another flight, each with the rest of its `waitMs`. */
  moveTo(rt: FlightRuntime, others: Waiters): void {
    const now = rt.clock.now()
    for (const waiter of this.#all) {
      others.#all.add(waiter)
      if (waiter.endsAt !== undefined) others.#expectEnd(rt, waiter.endsAt, now)
    }
    others.#isInOrder = false
    this.#all.clear()
    this.#stopTimerIfEmpty()
  }

  #startClock(rt: FlightRuntime, waiter: TimedWaiter): void {
    const now = rt.clock.now()
    waiter.endsAt = now + waiter.waitMs
    this.#expectEnd(rt, waiter.endsAt, now)
  }

  #expectEnd(rt: FlightRuntime, endsAt: number, now: number): void {
    if (endsAt < this.#latest) this.#isInOrder = false
    else this.#latest = endsAt
    this.#setTimer(rt, endsAt, now)
  }

  #setTimer(rt: FlightRuntime, endsAt: number, now: number): void {
    const isLate = this.#timer !== undefined && isOverdue(this.#timerAt, now)
    if (this.#timer !== undefined && this.#timerAt <= endsAt && !isLate) return
    this.#timer?.cancel()
    this.#timerAt = isLate ? now : endsAt
    this.#timer = rt.clock.setTimer(this.#timerAt - now, () => this.#timeOutDue(rt))
  }

  /**
   * Ends each wait whose `waitMs` has passed. No wait may be due, because the waiter for which the
   * timer was set may have been settled.
   */
  #timeOutDue(rt: FlightRuntime): void {
    this.#timer = undefined
    const now = rt.clock.now()
    for (const waiter of this.#all) {
      if (waiter.endsAt === undefined) continue
      if (waiter.endsAt <= now) {
        this.#timeOut(rt, waiter)
        continue
      }
      this.#setTimer(rt, waiter.endsAt, now)
      // All further waiters end later. Thousands may wait, so the timer must not visit all of them.
      if (this.#isInOrder) return
    }
  }

  #timeOut(rt: FlightRuntime, waiter: TimedWaiter): void {
    this.#remove(waiter)
    rt.events.emit({ type: 'wait.timed-out', key: this.#key })
    const resolution = { type: 'timed-out', previous: undefined } as const
    this.#endTrace(waiter, resolution)
    waiter.settle(resolution)
  }

  #settle(waiter: TimedWaiter, resolution: Resolution): void {
    this.#endTrace(waiter, resolution)
    waiter.settle(resolution)
    this.#remove(waiter)
  }

  #beginTrace(waiter: TimedWaiter): void {
    waiter.trace ??= beginWait(this.#key, waiter.caller)
  }

  #endTrace({ trace }: TimedWaiter, resolution: Resolution | undefined): void {
    if (trace === undefined) return
    if (this.fill !== undefined) trace.fill = this.fill
    endWait(trace, resolution)
  }

  #remove(waiter: TimedWaiter): void {
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

/**
 * Limit of waiters that are settled in one turn of the event loop. Each of them writes a response.
 * Without the limit, a burst would block other work.
 */
const MOST_PER_TURN = 100

function settleInTurns(waiters: readonly Waiter[], resolution: Resolution, from: number): void {
  const end = Math.min(from + MOST_PER_TURN, waiters.length)
  for (let i = from; i < end; i++) waiters[i]?.settle(resolution)
  if (end < waiters.length) setImmediate(settleInTurns, waiters, resolution, end)
}
