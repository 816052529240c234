// Runs the origin with a deadline: under a lease, or without one if the store is unavailable. The
// deadline ends the fill for the waiters. The client of the leader goes on waiting for its own
// handler.

import type { HeldEntry } from '../entry/entry.ts'
import { messageOf, originTimeout } from '../errors.ts'
import type { Emitted } from '../events.ts'
import { stillValid, validCopy } from '../l1/purges.ts'
import { delayRefresh } from '../l1/refresh-delay.ts'
import type { HeldLease } from '../lease/lease-keeper.ts'
import type { FreeSlot } from '../lease/slots.ts'
import { shownKey } from '../ports/key.ts'
import type { Grant, Position } from '../ports/store.ts'
import type { Runtime } from '../runtime.ts'
import { type EndFill, type FillEnd, noteEnd, traceFill } from '../traces.ts'
import { fillTracing, refreshTracing } from '../tracing.ts'
import type { Flight, Previous } from './flight.ts'
import { share } from './share.ts'
import type { Caller, FillResult, Lead, Lease, Shared } from './types.ts'
import type { Waiter } from './waiters.ts'

/**
 * Runs the origin for the first waiter whose client is still there, otherwise for the refresher.
 * Returns false if no caller is left. `chosen` and `behind` are callers that were chosen already: a
 * waiter that gets its own response, and a caller for a run in the background.
 */
export function fill(
  rt: Runtime,
  flight: Flight,
  lease: Lease,
  chosen?: Waiter,
  behind?: Caller,
): boolean {
  const { previous } = lease
  if (chosen === undefined && behind === undefined) flight.dropGone()
  const mayLead = behind === undefined && !(previous && flight.firstStays(previous))
  const leader = chosen ?? (mayLead ? flight.first : undefined)
  const caller = leader?.caller ?? behind ?? flight.first?.caller ?? flight.refresher
  if (caller === undefined) return false
  if (leader !== undefined) flight.takeOut(leader)
  const run = new Run(rt, flight, lease, caller, leader)
  if (fillTracing.hasSubscribers || refreshTracing.hasSubscribers) {
    traceFill(flight, caller, leader === undefined, lease, (endTrace) => run.start(endTrace))
  } else if (caller.scope === undefined) run.start()
  else caller.scope.runInAsyncScope(run.start, run)
  return true
}

/** The previous entry from L1. */
export function previousInL1(rt: Runtime, key: string): Previous | undefined {
  const item = rt.l1.get(key)
  if (item?.type !== 'copy') return undefined
  const held = validCopy(rt, item)
  return held && { held, since: item.begunAt, sequence: rt.l1.sequence }
}

/** One run of the origin, with its lease if it has one. It ends after `originTimeoutMs`. */
class Run implements Lead, HeldLease {
  at = 0
  place = -1
  order = 0
  endsAt = 0
  hasTimedOut = false
  onTimeout: Lead['onTimeout'] = undefined
  readonly fence: string
  readonly asOf: Position
  readonly keepSlot: (() => FreeSlot) | undefined
  readonly rt: Runtime
  readonly flight: Flight
  readonly lease: Lease
  startedAt = 0
  readonly #caller: Caller
  /** The waiter whose caller runs the origin. Undefined: the run is in the background. */
  #leader: Waiter | undefined
  #endTrace: EndFill | undefined
  #result: FillResult | undefined
  #timeout: Error | undefined
  #abort: AbortController | undefined
  #hasEnded = false

  constructor(
    rt: Runtime,
    flight: Flight,
    lease: Lease,
    caller: Caller,
    leader: Waiter | undefined,
  ) {
    this.rt = rt
    this.flight = flight
    this.lease = lease
    this.#caller = caller
    this.#leader = leader
    this.fence = lease.grant?.fence ?? ''
    this.asOf = rt.store.position
    this.keepSlot = lease.grant === undefined ? this.#keepSlot : undefined
  }

  start(endTrace?: EndFill): void {
    const rt = this.rt
    const { clock, events, deadlines, keeper, records } = rt
    const { key, policy } = this.flight
    const { grant, reason, servedMeanwhile, previous: held, since: sequence } = this.lease
    const behind = this.#leader === undefined
    this.#endTrace = endTrace
    if (grant !== undefined) {
      events.emit({ type: 'lease.granted', key, fence: grant.fence, reason })
    }
    this.startedAt = clock.now()
    const known = held && { held, since: this.startedAt, sequence }
    this.flight.beginFill(servedMeanwhile, grant === undefined ? previousInL1(rt, key) : known)
    this.endsAt = this.startedAt + policy.originTimeoutMs
    if (grant !== undefined && records !== undefined) keeper.hold(this, policy.leaseMs)
    else deadlines.set(this, this.endsAt)
    events.emit({ type: 'fill.started', key, behind, fence: this.fence })
    // Guards against a bug: a caller must not throw. If it does, its run counts as failed, so that
    // the waiters are settled.
    try {
      this.#caller.run(this, behind ? 'behind' : 'here')
    } catch (error) {
      this.end({ type: 'failure', failure: { status: 500, message: messageOf(error) }, error })
    }
  }

  end(result: FillResult): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    const { clock, counts, records } = this.rt
    counts.originMs += clock.now() - this.startedAt
    // With a store, the result is shared first, so that its commit is sent early. Without a store,
    // the leader is answered before the waiters.
    if (records === undefined) this.#answer(result)
    if (this.#timeout === undefined) this.#share(result)
    this.#answer(result)
  }

  get grant(): Grant {
    return this.lease.grant as Grant
  }

  get leaseMs(): number {
    return this.flight.policy.leaseMs
  }

  due(): void {
    const { clock, keeper } = this.rt
    if (clock.now() < this.endsAt) return void keeper.renew(this)
    const { key, policy } = this.flight
    const error = originTimeout(shownKey(key), policy.originTimeoutMs)
    this.#timeout = error
    this.hasTimedOut = true
    this.#abort?.abort(error)
    const failure = { status: 504, message: error.message }
    const result: FillResult = { type: 'failure', failure, error }
    this.#share(result)
    if (this.onTimeout === undefined) return
    this.onTimeout(result)
    this.#answer(result)
  }

  get previous(): HeldEntry | undefined {
    const { previous, since } = this.lease
    return previous && stillValid(this.rt, this.flight.key, since, previous)
  }

  /** The signal is created on first use, because hardly any origin uses it. */
  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      this.#abort = new AbortController()
      if (this.#timeout !== undefined) this.#abort.abort(this.#timeout)
    }
    return this.#abort.signal
  }

  lost(): void {
    this.rt.events.emit({ type: 'lease.lost', key: this.flight.key, fence: this.fence })
  }

  readonly #keepSlot = (): FreeSlot => {
    const { originSlots, clock } = this.rt
    return originSlots.takeAboveLimit(clock, this.flight.policy.originTimeoutMs)
  }

  /** The commit ends the lease, so the lease is no longer renewed. */
  #share(result: FillResult): void {
    const { deadlines, keeper, records } = this.rt
    if (records === undefined) deadlines.end(this)
    else keeper.end(this)
    this.#result = result
    share(this, result)
  }

  get like(): string | undefined {
    const like = this.#caller.requestDigest?.()
    const { failedDigest = like } = this.flight
    return failedDigest === like ? like : undefined
  }

  /** Emits the event that ends the fill, and sets the same facts on its trace. */
  emitEnd(event: FillEnd): void {
    const { key, fill } = this.flight
    const { clock, events } = this.rt
    // The object of the caller, because a copy would take half a kilobyte.
    const ended = event as { key?: string; elapsedMs?: number }
    ended.key = key
    ended.elapsedMs = clock.now() - this.startedAt
    // The reply to a commit may come in the context of another request.
    const { scope } = this.#caller
    if (scope === undefined) events.emit(event as Emitted)
    else scope.runInAsyncScope(events.emit, events, event as Emitted)
    if (fill !== undefined) noteEnd(fill, event)
  }

  /** Called when the result is shared. */
  done(shared: Shared): void {
    this.lease.freeSlot?.()
    this.#endTrace?.(this.#result)
    this.flight.advance(shared)
  }

  #answer(result: FillResult): void {
    const leader = this.#leader
    this.#leader = undefined
    leader?.answer({ type: 'led', result })
  }
}

/**
 * A fill without a lease, if the store is unavailable, or if too many fills of other processes
 * ended without a usable result. The origin runs once per key and process. At most
 * `originConcurrency` of these runs happen at a time.
 */
export function fillWithoutLease(rt: Runtime, flight: Flight): void {
  const { key } = flight
  const slots = (flight.first?.caller ?? flight.refresher)?.batch?.slots ?? rt.originSlots
  const freeSlot = slots.take()
  if (freeSlot !== undefined) return fillInSlot(rt, flight, freeSlot)
  // The stale entry is served to waiters that accept it, and the others queue for a slot. A refresh
  // without waiters does not queue. A later request that is served stale starts it again.
  flight.becomeLate('origin-queue', previousInL1(rt, key))
  if (flight.size === 0) {
    delayRefresh(rt, key)
    return flight.advance('again')
  }
  let leaveQueue = () => {}
  flight.beginWait('queued', () => {
    leaveQueue()
    flight.advance('again')
  })
  leaveQueue = slots.queue((slot) => {
    flight.lookUpAgain()
    fillInSlot(rt, flight, slot)
  })
  rt.events.emit({ type: 'fill.queued', key })
}

function fillInSlot(rt: Runtime, flight: Flight, freeSlot: FreeSlot): void {
  const previous = previousInL1(rt, flight.key)?.held
  const since = rt.l1.sequence
  const lease: Lease = { grant: undefined, freeSlot, since, previous, reason: 'absent' }
  if (fill(rt, flight, lease)) return
  freeSlot()
  flight.advance('again')
}
