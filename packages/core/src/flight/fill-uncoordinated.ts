// Stage: a fill without a lease, because the store is away. There is still one origin call per key
// and process. At most originConcurrency of them run at a time, and L1 keeps the response for a
// moment.

import { keepToOurselves, quiet } from './commit.ts'
import { chooseRunner, fill } from './fill.ts'
import type { Flight } from './flight.ts'
import type { Leave } from './origin-slots.ts'
import type { Caller, Shared } from './resolution.ts'
import type { Runtime } from './runtime.ts'
import { attributed } from './shared-failure.ts'
import { previousInL1, serveLate, withSoftTimeout } from './soft-timeout.ts'

export async function fillUncoordinated(
  rt: Runtime,
  flight: Flight,
  refresher: Caller | undefined,
): Promise<Shared> {
  const leave = rt.places.enter() ?? (await queueForSlot(rt, flight))
  if (leave === undefined) return 'again'
  try {
    return await fillAlone(rt, flight, refresher)
  } finally {
    leave()
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
  const runner = chooseRunner(rt, flight, previous, refresher)
  if (runner === undefined) return 'again'
  const since = rt.l1.sequence()
  flight.beginFill(rt)
  const keepSlot = () => rt.places.force(rt.clock, policy.originTimeoutMs)
  const run = () => fill(rt, flight, runner, { fence: '', previous, since, keepSlot })
  const result = attributed(flight, runner.caller, await withSoftTimeout(rt, flight, inL1, run))
  return keepToOurselves(rt, flight, result, since, previous)
}

/**
 * Serves stale entries first. Undefined: no request waits any more, or the store may be back. A refresh
 * that no request waits for does not queue: a later request that is served stale tries it again.
 */
function queueForSlot(rt: Runtime, flight: Flight): Promise<Leave | undefined> {
  const { key } = flight
  flight.keepPrevious(previousInL1(rt, key))
  return new Promise((resolve) => {
    let quit = () => {}
    const stop = () => {
      quit()
      resolve(undefined)
    }
    flight.beginQueue(stop)
    serveLate(rt, flight)
    if (flight.waiters.size === 0) {
      quiet(rt, key)
      stop()
      return
    }
    flight.stayQueued(rt)
    rt.events.emit({ type: 'fill.queued', key })
    quit = rt.places.queue(resolve)
  })
}
