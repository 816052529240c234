// Stage: runs the origin under a lease and a deadline. The deadline is for everybody else: the leader's
// own client goes on waiting for its handler.

import type { HeldEntry } from '../entry/entry.ts'
import { messageOf, originTimeout } from '../errors.ts'
import { leftOf } from '../l1/validity.ts'
import type { HoldHooks } from '../lease/lease-keeper.ts'
import { shownKey } from '../ports/shown-key.ts'
import type { Position } from '../ports/store.ts'
import { publish } from '../stream/collapse.ts'
import { commit } from './commit.ts'
import type { Flight } from './flight.ts'
import type { Leave } from './origin-slots.ts'
import type { Caller, FillResult, Lead, LeasedFill, Shared } from './resolution.ts'
import type { Runtime } from './runtime.ts'
import { attributed } from './shared-failure.ts'
import { previousFrom, staysWaiting, withSoftTimeout } from './soft-timeout.ts'
import type { Waiter } from './waiters.ts'

export interface Runner {
  readonly caller: Caller
  /**
   * The waiter that this run answers. It is settled when the run ends, however late. Undefined: the
   * run is in the background.
   */
  readonly leader: Waiter | undefined
  /** Newcomers are served this entry meanwhile. */
  readonly serves?: HeldEntry
}

/** What a fill knows from its lookup. */
export interface FillTerms {
  /** Empty when there is no lease. */
  readonly fence: string
  readonly previous: HeldEntry | undefined
  /** L1's sequence when that was read. */
  readonly since: number
  /** Only without a lease. */
  readonly keepSlot: (() => Leave) | undefined
}

/** The first waiter, whose client has not left, or the refresher, as the one that runs the origin. */
export function chooseRunner(
  rt: Runtime,
  flight: Flight,
  previous: HeldEntry | undefined,
  refresher: Caller | undefined,
): Runner | undefined {
  flight.waiters.dropGone(rt)
  const leader = staysWaiting(flight, previous) ? undefined : flight.waiters.takeLeader()
  const caller = leader?.caller ?? flight.waiters.first()?.caller ?? refresher
  if (caller === undefined) return undefined
  return { caller, leader }
}

export function fillAndCommit(
  rt: Runtime,
  flight: Flight,
  leased: LeasedFill,
  runner: Runner,
): Promise<Shared> {
  const previous = previousFrom(rt, leased)
  return withSoftTimeout(rt, flight, previous, () => fillThenCommit(rt, flight, leased, runner))
}

async function fillThenCommit(
  rt: Runtime,
  flight: Flight,
  leased: LeasedFill,
  runner: Runner,
): Promise<Shared> {
  const { key, policy } = flight
  const { grant, since, previous } = leased
  rt.events.emit({ type: 'lease.granted', key, fence: grant.fence })
  const terms = { fence: grant.fence, previous, since, keepSlot: undefined }
  const startedAt = rt.clock.now()
  flight.beginFill(rt, runner.serves)
  const work = new Fill(rt, flight, runner, terms)
  const hold = rt.keeper.hold(grant, policy.leaseMs, work)
  const result = attributed(flight, runner.caller, await work.run())
  // From here on the lease is ended by the commit itself.
  hold.end()
  const shared = await commit(rt, flight, leased, result, startedAt)
  flight.renewToken()
  return shared
}

/** Resolves when the result is known. The leader's own client may wait longer for its response. */
export function fill(
  rt: Runtime,
  flight: Flight,
  runner: Runner,
  terms: FillTerms,
): Promise<FillResult> {
  return new Fill(rt, flight, runner, terms).run()
}

/** One run of the origin: a deadline around what the caller does. The caller sees it as its `Lead`. */
class Fill implements Lead, HoldHooks {
  readonly fence: string
  readonly asOf: Position
  readonly keepSlot: Lead['keepSlot']
  readonly #rt: Runtime
  readonly #flight: Flight
  readonly #runner: Runner
  readonly #terms: FillTerms
  #isLost = false
  #late: Error | undefined
  #abort: AbortController | undefined

  constructor(rt: Runtime, flight: Flight, runner: Runner, terms: FillTerms) {
    this.#rt = rt
    this.#flight = flight
    this.#runner = runner
    this.#terms = terms
    this.fence = terms.fence
    this.asOf = Math.max(rt.store.position, rt.marks.newest)
    this.keepSlot = terms.keepSlot
  }

  run(): Promise<FillResult> {
    const { key, policy } = this.#flight
    const { clock, events } = this.#rt
    const { caller, leader } = this.#runner
    const behind = leader === undefined
    events.emit({ type: 'fill.started', key, behind, fence: this.fence })
    return new Promise((resolve) => {
      const timer = clock.setTimer(policy.originTimeoutMs, () => {
        resolve(this.#timedOut(originTimeout(shownKey(key), policy.originTimeoutMs)))
      })
      const ended = (result: FillResult): void => {
        timer.cancel()
        resolve(result)
        leader?.settle({ type: 'led', result })
      }
      callerRun(caller, this, behind).then(ended, (error) => ended(failureOf(error)))
    })
  }

  get previous(): HeldEntry | undefined {
    const { previous, since } = this.#terms
    return previous && leftOf(this.#rt, this.#flight.key, since, previous)
  }

  get isLate(): boolean {
    return this.#late !== undefined
  }

  /** Made when it is read: hardly any origin does. */
  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      this.#abort = new AbortController()
      if (this.#late !== undefined) this.#abort.abort(this.#late)
    }
    return this.#abort.signal
  }

  /** A background run has no reader to set its pace, so a large body is not shown while it comes. */
  get publish(): Lead['publish'] {
    if (this.#runner.leader === undefined) return undefined
    // After a loss the commit is refused, and the waiters look up again.
    return (live) => !this.#isLost && publish(this.#rt, this.#flight, live)
  }

  lost(): void {
    this.#isLost = true
    this.#rt.events.emit({ type: 'lease.lost', key: this.#flight.key, fence: this.fence })
  }

  #timedOut(error: Error): FillResult {
    this.#late = error
    this.#abort?.abort(error)
    return { type: 'failure', failure: { status: 504, message: error.message }, error }
  }
}

/** Callers do not throw. One that does has failed, without an effect on the others. */
function callerRun(caller: Caller, lead: Lead, behind: boolean): Promise<FillResult> {
  try {
    return behind ? caller.refresh(lead) : caller.lead(lead)
  } catch (error) {
    return Promise.resolve(failureOf(error))
  }
}

function failureOf(error: unknown): FillResult {
  return { type: 'failure', failure: { status: 500, message: messageOf(error) }, error }
}
