// Stage: another process fills this key. Waits for its wake-up, or for the end of its lease, or for
// word that messages may have been lost. No polling. A client that leaves stays among the waiters until
// the next of them has to lead: `Waiters.dropGone`.

import type { Timer } from '../ports/clock.ts'
import type { Flight, Notice } from './flight.ts'
import type { Runtime } from './runtime.ts'
import { withSoftTimeout } from './soft-timeout.ts'

/** Without it, all processes whose holder died would look up in the same millisecond. */
const SPREAD_MS = 40
/** Keeps a wrong reply of the store from making a busy loop. */
const LEAST_MS = 20

/** The store registered this process in the reply that said busy. Always ends in another lookup. */
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
  const by = await new Promise<Notice | 'lease-end'>((resolve) => {
    let timer: Timer | undefined
    flight.beginWait(rt, (notice) => {
      timer?.cancel()
      resolve(notice)
    })
    rt.events.emit({ type: 'wait.started', key: flight.key, busyForMs })
    const untilMs = Math.max(busyForMs, LEAST_MS) + rt.random() * SPREAD_MS
    timer = rt.clock.setTimer(untilMs, () => resolve('lease-end'))
  })
  rt.events.emit({ type: 'wait.ended', key: flight.key, by })
}
