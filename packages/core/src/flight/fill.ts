// Runs the origin with a deadline, and usually under a lease. The deadline ends the fill for the
// waiters. The client of the leader goes on waiting for its own handler.

import type { HeldEntry } from '../entry/entry.ts'
import { messageOf, originTimeout } from '../errors.ts'
import { stillValid } from '../l1/validity.ts'
import type { HoldHooks } from '../lease/lease-keeper.ts'
import { shownKey } from '../ports/shown-key.ts'
import type { Position } from '../ports/store.ts'
import { commit } from './commit.ts'
import type { Flight } from './flight.ts'
import type { FreeSlot } from './origin-slots.ts'
import type { Caller, FillResult, Lead, LeasedFill, Shared } from './resolution.ts'
import type { Runtime } from './runtime.ts'
import { withDigest } from './shared-failure.ts'
import { firstWaiterStays, previousFrom, withSoftTimeout } from './soft-timeout.ts'
import { isFillTraced, noteResult, traceFill } from './traced-fill.ts'
import type { Waiter } from './waiters.ts'

/** The caller that runs the origin. */
export interface Runner {
  readonly caller: Caller
  /**
   * The waiter whose caller runs the origin. It is settled when the run ends, also after the
   * deadline. Undefined if the run is in the background.
   */
  readonly leader: Waiter | undefined
  /** The entry that new requests are served during the fill. */
  readonly servedMeanwhile?: HeldEntry
}

/** The lease of a fill and the entry from before it, both from the lookup of the fill. */
export interface FillTerms {
  /** Empty if there is no lease. */
  readonly fence: string
  readonly previous: HeldEntry | undefined
  /** Sequence number of L1's last purge before `previous` was read. */
  readonly since: number
  /** Defined only without a lease. See `Lead`. */
  readonly keepSlot: (() => FreeSlot) | undefined
}

/**
 * Chooses the caller that runs the origin: the first waiter whose client is still there, otherwise
 * the refresher.
 */
export function chooseRunner(
  flight: Flight,
  previous: HeldEntry | undefined,
  refresher: Caller | undefined,
): Runner | undefined {
  flight.waiters.dropGone()
  const leader = firstWaiterStays(flight, previous) ? undefined : flight.waiters.takeLeader()
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
  const fill = () => fillThenCommit(rt, flight, leased, runner)
  const { fence } = leased.grant
  const run = isFillTraced() ? () => traceFill(flight, runner, fence, fill) : fill
  return withSoftTimeout(rt, flight, previous, run)
}

async function fillThenCommit(
  rt: Runtime,
  flight: Flight,
  leased: LeasedFill,
  runner: Runner,
): Promise<Shared> {
  const { key, policy } = flight
  const { grant, since, previous, reason } = leased
  rt.events.emit({ type: 'lease.granted', key, fence: grant.fence, reason })
  const terms = { fence: grant.fence, previous, since, keepSlot: undefined }
  const startedAt = rt.clock.now()
  flight.beginFill(rt, runner.servedMeanwhile)
  const work = new Fill(rt, flight, runner, terms)
  const hold = rt.keeper.hold(grant, policy.leaseMs, work)
  const result = noteResult(flight, withDigest(flight, runner.caller, await work.run()))
  // The commit ends the lease, so the lease is no longer renewed.
  hold.end()
  const shared = await commit(rt, flight, leased, result, startedAt)
  flight.renewToken()
  return shared
}

/** Resolves with the result. The leader's own client may wait longer for its response. */
export function fill(
  rt: Runtime,
  flight: Flight,
  runner: Runner,
  terms: FillTerms,
): Promise<FillResult> {
  return new Fill(rt, flight, runner, terms).run()
}

/** One run of the origin with a deadline. The caller gets this object as its `Lead`. */
class Fill implements Lead, HoldHooks {
  readonly fence: string
  readonly asOf: Position
  readonly keepSlot: Lead['keepSlot']
  readonly #rt: Runtime
  readonly #flight: Flight
  readonly #runner: Runner
  readonly #terms: FillTerms
  #timeout: Error | undefined
  #abort: AbortController | undefined

  constructor(rt: Runtime, flight: Flight, runner: Runner, terms: FillTerms) {
    this.#rt = rt
    this.#flight = flight
    this.#runner = runner
    this.#terms = terms
    this.fence = terms.fence
    this.asOf = rt.store.position
    this.keepSlot = terms.keepSlot
  }

  run(): Promise<FillResult> {
    const { key, policy } = this.#flight
    const { clock, counts, events } = this.#rt
    const { caller, leader } = this.#runner
    const inBackground = leader === undefined
    events.emit({ type: 'fill.started', key, behind: inBackground, fence: this.fence })
    return new Promise((resolve) => {
      const timer = clock.setTimer(policy.originTimeoutMs, () => {
        resolve(this.#timedOut(originTimeout(shownKey(key), policy.originTimeoutMs)))
      })
      const startedAt = clock.now()
      const ended = (result: FillResult): void => {
        timer.cancel()
        counts.originMs += clock.now() - startedAt
        resolve(result)
        leader?.settle({ type: 'led', result })
      }
      runCaller(caller, this, inBackground).then(ended, (error) => ended(failureOf(error)))
    })
  }

  get previous(): HeldEntry | undefined {
    const { previous, since } = this.#terms
    return previous && stillValid(this.#rt, this.#flight.key, since, previous)
  }

  get hasTimedOut(): boolean {
    return this.#timeout !== undefined
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
    this.#rt.events.emit({ type: 'lease.lost', key: this.#flight.key, fence: this.fence })
  }

  #timedOut(error: Error): FillResult {
    this.#timeout = error
    this.#abort?.abort(error)
    return { type: 'failure', failure: { status: 504, message: error.message }, error }
  }
}

/**
 * Guards against a bug: a caller must not throw or reject. If it does, its run counts as failed, so
 * that the waiters are settled.
 */
function runCaller(caller: Caller, lead: Lead, inBackground: boolean): Promise<FillResult> {
  try {
    return inBackground ? caller.refresh(lead) : caller.lead(lead)
  } catch (error) {
    return Promise.resolve(failureOf(error))
  }
}

function failureOf(error: unknown): FillResult {
  return { type: 'failure', failure: { status: 500, message: messageOf(error) }, error }
}
