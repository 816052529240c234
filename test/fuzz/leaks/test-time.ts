// Time in a scenario. Over the memory store it is stepped by hand. Over Redis it is real, because
// Redis has its own clock.

import { type Clock, systemClock } from '@stampede/core/store'
import { ManualClock } from '@stampede/core/testing'

export interface TestTime {
  readonly clock: Clock
  /** Lets this much time pass. */
  pass(ms: number): Promise<void>
  /** Waits for the work. If it does not end, time passes slowly. */
  during<T>(work: Promise<T>): Promise<T>
  /** Lets time pass until pending work gives up, and waits for it. */
  end(work: Promise<unknown>): Promise<void>
  /** Waits until the condition holds, or for a reasonable time. */
  until(holds: () => Promise<boolean>): Promise<void>
}

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))

/** How long to wait for work in the background. */
const BEHIND_MS = 300

export const realTime: TestTime = {
  clock: systemClock,
  pass: sleep,
  during: (work) => work,
  async end(work) {
    await work
  },
  until: (holds) => waitUntil(holds),
}

async function waitUntil(holds: () => Promise<boolean>): Promise<void> {
  const end = performance.now() + BEHIND_MS
  while (performance.now() < end && !(await holds())) await sleep(1)
}

export class SteppedTime implements TestTime {
  readonly clock = new ManualClock()

  pass(ms: number): Promise<void> {
    return this.clock.advance(ms)
  }

  until(holds: () => Promise<boolean>): Promise<void> {
    return waitUntil(holds)
  }

  async end(work: Promise<unknown>): Promise<void> {
    await this.clock.advance(3_000)
    await work
  }

  /**
   * A request may wait for a timer of the cache. So after a while the clock is advanced in steps
   * until the work ends.
   */
  async during<T>(work: Promise<T>): Promise<T> {
    let over = false
    const end = (): void => {
      over = true
    }
    work.then(end, end)
    for (let waited = 0; !over; waited++) {
      await sleep(waited < 20 ? 1 : 5)
      if (waited > 100 && !over) await this.clock.advance(100)
    }
    return work
  }
}
