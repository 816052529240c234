// The wait for another process that fills the key. The wait ends with a wake-up, at the end of the
// lease, with a gap in which messages may be lost, or when the store becomes unavailable. Then the
// flight looks up again. There is no polling. `Waiters` measures the `waitMs` of each caller.

import type { Timer } from '../ports/clock.ts'
import type { Flight, LookAgainReason } from './flight.ts'
import type { Runtime } from './runtime.ts'
import { withSoftTimeout } from './soft-timeout.ts'

/**
 * Upper bound of the random time that is added to each wait. Without it, all processes that wait
 * for a dead holder would look up in the same millisecond.
 */
const SPREAD_MS = 40
/** Shortest wait. Without it, a store that replies `busy` for 0 ms would cause a busy loop. */
const LEAST_MS = 20

/**
 * Waits for the wake-up, which the store sends to each process whose lookup got `busy`. After the
 * wait, the flight looks up again.
 */
export async function waitForHolder(
  rt: Runtime,
  flight: Flight,
  busyForMs: number,
): Promise<'again'> {
  if (flight.waiters.size === 0) return 'again'
  await withSoftTimeout(rt, flight, flight.previous, () => holderEnded(rt, flight, busyForMs))
  return 'again'
}

async function holderEnded(rt: Runtime, flight: Flight, busyForMs: number): Promise<void> {
  const startedAt = rt.clock.now()
  const by = await new Promise<LookAgainReason | 'lease-end'>((resolve) => {
    let timer: Timer | undefined
    flight.beginWait(rt, (notice) => {
      timer?.cancel()
      resolve(notice)
    })
    rt.events.emit({ type: 'wait.started', key: flight.key, busyForMs })
    const untilMs = Math.max(busyForMs, LEAST_MS) + rt.random() * SPREAD_MS
    timer = rt.clock.setTimer(untilMs, () => resolve('lease-end'))
  })
  const elapsedMs = rt.clock.now() - startedAt
  rt.counts.waitedMs += elapsedMs
  rt.events.emit({ type: 'wait.ended', key: flight.key, by, elapsedMs })
}
