// The requests and calls of this process that wait for the result of a flight, in order of arrival.
// Here waiters are settled, and `waitMs` is measured. The wait for the holder in another process is
// in engine.ts. A waiter whose client has left is dropped when the next
// leader is chosen (`dropGone`). A fill that is running goes on.

import type { Events } from '../events.ts'
import type { L1 } from '../l1/l1.ts'
import type { Deadline, Deadlines } from '../lease/deadlines.ts'
import type { Clock } from '../ports/clock.ts'
import { beginWait, type EndWait } from '../traces.ts'
import { type FillTrace, waitTracing } from '../tracing.ts'
import type { Caller, Resolution } from './types.ts'

/**
 * After this many fills without a usable result, a waiter accepts an entry whose commit was
 * refused. It also no longer waits for fills of other processes. If purges come faster than fills
 * finish, every commit is refused. Without this limit, each fill would then serve only its leader.
 */
const MOST_UNUSABLE_FILLS = 2

/**
 * Limit of waiters that are settled in one turn of the event loop. Each of them writes a response.
 * Without the limit, a burst would block other work.
 */
const MOST_PER_TURN = 100

/** A request or call that waits for the result of a flight. Its deadline is the end of `waitMs`. */
export class Waiter implements Deadline {
  at = 0
  place = -1
  order = 0
  readonly caller: Caller
  readonly waitMs: number
  group: Waiters
  /** Number of fills that ended without a usable result during this wait. */
  unusableFills = 0
  /** Set while the wait is traced. */
  endWait: EndWait | undefined

  constructor(group: Waiters, caller: Caller, waitMs: number) {
    this.group = group
    this.caller = caller
    this.waitMs = waitMs
  }

  due(): void {
    this.group.timeOut(this)
  }

  answer(resolution: Resolution): void {
    const { caller } = this
    caller.endLookup?.(resolution)
    caller.answer(resolution)
  }
}

/** The parts of the runtime that waiters need. */
export interface WaitersRuntime {
  readonly clock: Pick<Clock, 'now'>
  readonly events: Events
  readonly deadlines: Deadlines
  readonly l1: Pick<L1, 'sequence'>
}

export abstract class Waiters {
  readonly key: string
  /** The newest traced run for these waiters. */
  fill: FillTrace | undefined
  protected readonly rt: WaitersRuntime
  readonly #all = new Set<Waiter>()
  #isWaiting = false
  /** Whether `waitMs` counts: since the first lookup has ended or had to queue in this process. */
  #isCounting = false

  constructor(rt: WaitersRuntime, key: string) {
    this.rt = rt
    this.key = key
  }

  /** Called when the last waiter is settled. */
  protected abstract onEmpty(): void

  /** Whether a purge after `since`, a number from `L1.sequence`, outdated the entry. */
  protected abstract isPurged(resolution: Resolution, since: number): boolean

  /** Makes waiters look up again whose resolution is outdated. */
  protected abstract resume(waiters: readonly Waiter[], outdated: Resolution): void

  get size(): number {
    return this.#all.size
  }

  get first(): Waiter | undefined {
    return this.#all.values().next().value
  }

  /** `waitMs` does not count while the first lookup is under way. That has a budget of its own. */
  join(caller: Caller, waitMs: number): void {
    const waiter = new Waiter(this, caller, waitMs)
    this.#all.add(waiter)
    if (this.#isCounting) this.#startClock(waiter)
    if (!this.#isWaiting) return
    caller.batch?.waits(caller)
    if (waitTracing.hasSubscribers) waiter.endWait = beginWait(this.key, caller)
  }

  /**
   * From now on, `waitMs` counts. `forRun`: the waiters wait for a run, and not only for a lookup.
   */
  startClocks(forRun = false): void {
    this.#isCounting = true
    this.#isWaiting ||= forRun
    // An iterator would be an object for each fill, and a leader mostly has no waiters.
    if (this.#all.size > 0) this.#startClocks(forRun)
  }

  #startClocks(forRun: boolean): void {
    for (const waiter of this.#all) {
      if (waiter.at === 0) this.#startClock(waiter)
      if (!forRun) continue
      waiter.caller.batch?.waits(waiter.caller)
      if (waitTracing.hasSubscribers) waiter.endWait ??= beginWait(this.key, waiter.caller)
    }
  }

  /**
   * Removes a waiter, whose `waitMs` no longer applies. Without a resolution, it leads from now on.
   */
  takeOut(waiter: Waiter, resolution?: Resolution): void {
    this.#all.delete(waiter)
    this.rt.deadlines.end(waiter)
    waiter.endWait?.(this.fill, resolution)
    waiter.endWait = undefined
  }

  /** The first waiter for which `may` returns true. */
  firstThat(may: (caller: Caller) => boolean): Waiter | undefined {
    for (const waiter of this.#all) if (may(waiter.caller)) return waiter
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
    if (this.#all.size === 0) return
    if (this.#all.size <= MOST_PER_TURN) {
      for (const waiter of this.#all) this.#settle(waiter, resolution)
      return
    }
    const all = [...this.#all]
    for (const waiter of all) this.takeOut(waiter, resolution)
    this.onEmpty()
    this.#answerInTurns(all, resolution, this.rt.l1.sequence, 0)
  }

  /** If a purge comes between two turns, the entry is outdated for the rest of the waiters. */
  #answerInTurns(
    waiters: readonly Waiter[],
    resolution: Resolution,
    since: number,
    from: number,
  ): void {
    const end = Math.min(from + MOST_PER_TURN, waiters.length)
    for (let i = from; i < end; i++) waiters[i]?.answer(resolution)
    if (end === waiters.length) return
    setImmediate(() => {
      if (this.isPurged(resolution, since)) this.resume(waiters.slice(end), resolution)
      else this.#answerInTurns(waiters, resolution, since, end)
    })
  }

  /**
   * Ends the wait of each request whose client has left. Called before a leader is chosen, so that
   * no such request leads.
   */
  dropGone(): void {
    for (const waiter of this.#all) {
      if (waiter.caller.isGone?.()) this.#settle(waiter, { type: 'gone' })
    }
  }

  /** Counts a fill of any process that ended without a usable result for the waiters. */
  countUnusableFill(): void {
    for (const waiter of this.#all) waiter.unusableFills += 1
  }

  /** Whether the first waiter has reached `MOST_UNUSABLE_FILLS`. */
  get isFirstAtLimit(): boolean {
    return (this.first?.unusableFills ?? 0) >= MOST_UNUSABLE_FILLS
  }

  /**
   * Gives an entry whose commit was refused to each waiter that has reached `MOST_UNUSABLE_FILLS`.
   * The run that made the entry began after these waiters came. So the entry is as current as that
   * of a run of their own.
   */
  settleAtLimit(resolution: Resolution): void {
    this.settleEach(({ unusableFills }) =>
      unusableFills >= MOST_UNUSABLE_FILLS ? resolution : undefined,
    )
  }

  /** Moves all waiters to another flight, each with the rest of its `waitMs`. */
  moveTo(other: Waiters): void {
    other.takeIn(this.#all)
    this.#all.clear()
  }

  /** Adds waiters of another flight, each with the rest of its `waitMs`. */
  takeIn(waiters: Iterable<Waiter>): void {
    for (const waiter of waiters) {
      waiter.group = this
      this.#all.add(waiter)
      if (waiter.at > 0) this.rt.deadlines.set(waiter, waiter.at)
    }
    if (this.#isCounting) this.startClocks(this.#isWaiting)
  }

  timeOut(waiter: Waiter): void {
    this.rt.events.emit({ type: 'wait.timed-out', key: this.key })
    this.#settle(waiter, { type: 'timed-out' })
  }

  #startClock(waiter: Waiter): void {
    // From now on, a timer or message may answer the caller, in another async context.
    waiter.caller.captureContext?.()
    this.rt.deadlines.set(waiter, this.rt.clock.now() + waiter.waitMs)
  }

  #settle(waiter: Waiter, resolution: Resolution): void {
    this.takeOut(waiter, resolution)
    if (this.#all.size === 0) this.onEmpty()
    waiter.answer(resolution)
  }
}
