// Stage: runs the origin under a lease and a deadline. The deadline is for everybody else: the leader's
// own client goes on waiting for its handler.

import type { HeldEntry } from '../entry/entry.ts'
import { messageOf, originTimeout } from '../errors.ts'
import { leftOf } from '../l1/validity.ts'
import { shownKey } from '../ports/shown-key.ts'
import type { Position } from '../ports/store.ts'
import { publish } from '../stream/collapse.ts'
import type { Live } from '../stream/live-body.ts'
import { commit } from './commit.ts'
import type { Flight } from './flight.ts'
import type { Caller, FillResult, Lead, LeasedFill, Shared } from './resolution.ts'
import type { Runtime } from './runtime.ts'
import { attributed } from './shared-failure.ts'
import { previousFrom, staysWaiting, withSoftTimeout } from './soft-timeout.ts'

export interface Runner {
  readonly caller: Caller
  /** Nobody waits for this run: the stale answer went out already. */
  readonly behind: boolean
  /** Newcomers are served this entry meanwhile. */
  readonly serves?: HeldEntry
  /** Told when the caller's own run ends, however late. */
  readonly onOwnEnd: (result: FillResult) => void
}

export interface Run extends Runner {
  readonly key: string
  readonly originTimeoutMs: number
  /** Empty when there is no lease. */
  readonly fence: string
  readonly previous: HeldEntry | undefined
  /** L1's sequence when that was read. */
  readonly since: number
  readonly publish: (live: Live) => boolean
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
  const onOwnEnd = (result: FillResult) => leader?.settle({ type: 'led', result })
  return { caller, behind: leader === undefined, onOwnEnd }
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
  const { leaseMs, originTimeoutMs } = policy
  rt.events.emit({ type: 'lease.granted', key, fence: grant.fence })
  let isLost = false
  const lost = () => {
    isLost = true
    rt.events.emit({ type: 'lease.lost', key, fence: grant.fence })
  }
  const hold = rt.keeper.hold(grant, leaseMs, { lost })
  const startedAt = rt.clock.now()
  flight.beginFill(rt, runner.serves)
  const { caller, behind, onOwnEnd } = runner
  // Named one by one, as in all that each fill makes: engines take ten times as long for a spread.
  const ran = await fill(rt, {
    caller,
    behind,
    onOwnEnd,
    key,
    originTimeoutMs,
    fence: grant.fence,
    previous,
    since,
    // What was lost will be refused: those who wait look again.
    publish: (live) => !isLost && publish(rt, flight, live),
  })
  const result = attributed(flight, runner.caller, ran)
  // From here on the lease is ended by the commit itself.
  hold.end()
  const shared = await commit(rt, flight, leased, result, startedAt)
  flight.renewToken()
  return shared
}

export function fill(rt: Runtime, run: Run): Promise<FillResult> {
  const { key, fence, originTimeoutMs, behind, caller } = run
  rt.events.emit({ type: 'fill.started', key, behind, fence })
  return new Promise((resolve) => {
    // Behind, nobody sets the pace: a body too large to be kept would outrun everybody.
    const lead = new OriginLead(rt, run, behind ? undefined : run.publish)
    const timer = rt.clock.setTimer(originTimeoutMs, () => {
      const error = originTimeout(shownKey(key), originTimeoutMs)
      lead.end(error)
      resolve({ type: 'failure', failure: { status: 504, message: error.message }, error })
    })
    void runSafely(() => (behind ? caller.refresh(lead) : caller.lead(lead))).then((result) => {
      timer.cancel()
      resolve(result)
      run.onOwnEnd(result)
    })
  })
}

/** A class: an object with getters of its own would have a shape of its own, too. */
class OriginLead implements Lead {
  readonly fence: string
  readonly asOf: Position
  readonly publish: Lead['publish']
  readonly #rt: Runtime
  readonly #run: Run
  #late: Error | undefined
  #abort: AbortController | undefined

  constructor(rt: Runtime, run: Run, publish: Lead['publish']) {
    this.#rt = rt
    this.#run = run
    this.fence = run.fence
    this.asOf = Math.max(rt.store.position, rt.marks.newest)
    this.publish = publish
  }

  get previous(): HeldEntry | undefined {
    const { key, since, previous } = this.#run
    return leftOf(this.#rt, key, since, previous)
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

  end(error: Error): void {
    this.#late = error
    this.#abort?.abort(error)
  }
}

/** Callers do not reject; one that does all the same has failed, and takes nobody with it. */
async function runSafely(run: () => Promise<FillResult>): Promise<FillResult> {
  try {
    return await run()
  } catch (error) {
    return { type: 'failure', failure: { status: 500, message: messageOf(error) }, error }
  }
}
