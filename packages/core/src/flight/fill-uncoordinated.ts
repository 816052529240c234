// Fills without a lease. They are used if the store is unavailable, or if too many fills of other
// processes ended without a usable result. The origin runs once per key and process. At most
// `originConcurrency` of these runs happen at a time.

import { shareInProcess } from './commit.ts'
import { chooseRunner, fill } from './fill.ts'
import type { Flight } from './flight.ts'
import type { FreeSlot } from './origin-slots.ts'
import type { Caller, Shared } from './resolution.ts'
import type { Runtime } from './runtime.ts'
import { delayRefresh, withDigest } from './shared-failure.ts'
import { previousInL1, serveLate, withSoftTimeout } from './soft-timeout.ts'
import { isFillTraced, noteResult, traceFill } from './traced-fill.ts'

export async function fillUncoordinated(
  rt: Runtime,
  flight: Flight,
  refresher: Caller | undefined,
): Promise<Shared> {
  const freeSlot = rt.originSlots.take() ?? (await queueForSlot(rt, flight))
  if (freeSlot === undefined) return 'again'
  try {
    return await fillAlone(rt, flight, refresher)
  } finally {
    freeSlot()
  }
}

async function fillAlone(
  rt: Runtime,
  flight: Flight,
  refresher: Caller | undefined,
): Promise<Shared> {
  const { key, policy } = flight
  const inL1 = previousInL1(rt, key)
  const previous = inL1?.held
  const runner = chooseRunner(flight, previous, refresher)
  if (runner === undefined) return 'again'
  const since = rt.l1.sequence()
  flight.beginFill(rt)
  const keepSlot = () => rt.originSlots.takeAboveLimit(rt.clock, policy.originTimeoutMs)
  const run = async () => {
    const filled = await fill(rt, flight, runner, { fence: '', previous, since, keepSlot })
    const result = noteResult(flight, withDigest(flight, runner.caller, filled))
    return shareInProcess(rt, flight, result, since, previous)
  }
  const traced = isFillTraced() ? () => traceFill(flight, runner, '', run) : run
  return withSoftTimeout(rt, flight, inL1, traced)
}

/**
 * Serves the stale entry to waiters that accept it, and queues for a slot for the others. Resolves
 * with undefined if no waiter is left, or if the store may be available again. A refresh without
 * waiters does not queue. A later request that is served stale starts it again.
 */
function queueForSlot(rt: Runtime, flight: Flight): Promise<FreeSlot | undefined> {
  const { key } = flight
  flight.keepPrevious(previousInL1(rt, key))
  return new Promise((resolve) => {
    let leaveQueue = () => {}
    const stop = () => {
      leaveQueue()
      resolve(undefined)
    }
    flight.beginQueue(stop)
    serveLate(rt, flight)
    if (flight.waiters.size === 0) {
      delayRefresh(rt, key)
      stop()
      return
    }
    flight.stayQueued(rt)
    rt.events.emit({ type: 'fill.queued', key })
    leaveQueue = rt.originSlots.queue(resolve)
  })
}
