// Stage: a fill without a lease, because the store is away. There is still one origin call per key
// and process. At most originConcurrency of them run at a time, and L1 keeps the response for a
// moment.

import { publish } from '../stream/collapse.ts'
import { keepToOurselves } from './commit.ts'
import { fill } from './fill.ts'
import type { Flight } from './flight.ts'
import type { Leave } from './origin-slots.ts'
import type { Caller, Shared } from './resolution.ts'
import { quiet } from './revalidate.ts'
import type { Runtime } from './runtime.ts'
import { attributed } from './shared-failure.ts'
import { inTime, mayBeLate, spareInMemory, standIn } from './soft-timeout.ts'

export async function fillUncoordinated(
  rt: Runtime,
  flight: Flight,
  refresher: Caller | undefined,
): Promise<Shared> {
  const leave = rt.places.enter() ?? (await queueForPlace(rt, flight))
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
  const spare = spareInMemory(rt, key)
  const previous = spare?.held
  flight.dropGone()
  const leader = mayBeLate(flight, previous) ? undefined : flight.takeLeader()
  const caller = leader?.caller ?? flight.first()?.caller ?? refresher
  if (caller === undefined) return 'again'
  const since = rt.l1.sequence()
  flight.beginFill(rt)
  const run = () =>
    fill(rt, {
      key,
      caller,
      originTimeoutMs: policy.originTimeoutMs,
      fence: '',
      previous,
      since,
      behind: leader === undefined,
      publish: (live) => publish(rt, flight, live),
      onOwnEnd: (own) => leader?.settle({ type: 'led', result: own }),
    })
  const result = attributed(flight, caller, await inTime(rt, flight, spare, run))
  return keepToOurselves(rt, flight, result, since, previous)
}

/** What is stale comes first. Undefined: nobody waits any more, or the store may be back. */
async function queueForPlace(rt: Runtime, flight: Flight): Promise<Leave | undefined> {
  const { key } = flight
  flight.spare = spareInMemory(rt, key)
  standIn(rt, flight, 'origin-queue')
  // A refresh that nobody waits for does not queue: it is tried again for somebody who is answered stale after a while.
  if (flight.waiters.size === 0) {
    quiet(rt, key)
    return undefined
  }
  flight.startClocks(rt)
  rt.events.emit({ type: 'fill.queued', key })
  const leave = await new Promise<Leave | undefined>((resolve) => {
    const quit = rt.places.queue(resolve)
    const stop = () => {
      quit()
      resolve(undefined)
    }
    flight.deserted = stop
    flight.wake = (by) => by === 'gap' && stop()
  })
  flight.deserted = () => {}
  flight.wake = () => {}
  flight.late = undefined
  return leave
}
