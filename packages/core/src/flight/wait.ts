// Stage: another process fills this key. Waits for its wake-up, or for the end of its lease, or for
// word that messages may have been lost. No polling.

import type { Flight } from './flight.ts'
import type { Runtime } from './runtime.ts'

/** Processes whose holder died would all look again in the same millisecond without it. */
const SPREAD_MS = 40
/** Whatever the store says, looking again is no busy loop. */
const LEAST_MS = 20

/** The registration was made by the script that said busy; a wake-up since then shows in `recheck`. */
export async function waitForHolder(rt: Runtime, flight: Flight, busyForMs: number): Promise<void> {
  if (flight.recheck) return
  flight.startClocks(rt)
  rt.events.emit({ type: 'wait.started', key: flight.key, busyForMs })
  const by = await new Promise<'wake-up' | 'gap' | 'lost' | 'lease-end'>((resolve) => {
    const untilMs = Math.max(busyForMs, LEAST_MS) + rt.random() * SPREAD_MS
    const timer = rt.clock.setTimer(untilMs, () => resolve('lease-end'))
    flight.wake = (reason) => {
      timer.cancel()
      resolve(reason)
    }
  })
  flight.wake = () => {}
  rt.events.emit({ type: 'wait.ended', key: flight.key, by })
}
