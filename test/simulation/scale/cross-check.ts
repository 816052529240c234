// Compares the model with the real code, on a small fleet with Zipf-distributed keys on the
// simulated network.

import { randomFrom } from '../../fuzz/leaks/random.ts'
import { exponential } from '../chance.ts'
import { withSimulatedTimers } from '../process-time.ts'
import { LargeFleet } from './large-fleet.ts'
import { type Expected, expect, type Load, zipf } from './model.ts'

export interface Checked {
  readonly load: Load
  readonly expected: Expected
  readonly seen: Pick<Expected, 'originCalls' | 'lookups' | 'commits' | 'wakeUps'>
}

/** More keys than one process of the simulation can store (`member.ts`). */
const LOAD: Load = {
  processes: 20,
  keys: 3_000,
  skew: 1,
  requestsPerSecond: 2_000,
  ttlS: 10,
  fillS: 0.2,
  entries: 1_000,
}
const WARM_UP_MS = 30_000
const FOR_MS = 60_000

/** Synchronous. Call it from a macrotask (`inMacrotask`). */
export function crossCheck(): Checked {
  return withSimulatedTimers(() => {
    const fleet = new LargeFleet(LOAD.processes)
    let origins = 0
    fleet.pass(3_000)
    askAtRandom(fleet, () => {
      origins += 1
    })
    fleet.pass(WARM_UP_MS)
    origins = 0
    const { commands, messages } = fleet.pass(FOR_MS)
    const perSecond = (count = 0) => count / (FOR_MS / 1_000)
    const seen = {
      originCalls: perSecond(origins),
      lookups: perSecond(commands['lookup-or-lease']),
      commits: perSecond(commands.commit),
      wakeUps: perSecond(messages),
    }
    return { load: LOAD, expected: expect(LOAD), seen }
  })
}

function askAtRandom(fleet: LargeFleet, onOrigin: () => void): void {
  const { kernel, members } = fleet.world
  const random = randomFrom(1)
  const draw = drawFrom(zipf(LOAD.keys, LOAD.skew))
  const options = Object.freeze({ ttlMs: LOAD.ttlS * 1_000, jitter: 0 })
  const next = () => {
    const member = random.pick(members)
    const key = `k${draw(random.next())}`
    const factory = async () => {
      onOrigin()
      await new Promise<void>((resolve) => {
        kernel.after(LOAD.fillS * 1_000, () => member.time.receive(resolve))
      })
      return key
    }
    member.time.receive(() => void member.stampede.getOrSet(key, factory, options).catch(() => {}))
    kernel.after(exponential(random, 1_000 / LOAD.requestsPerSecond), next)
  }
  kernel.after(0, next)
}

/** Maps a number from 0 up to 1 to a key, by the shares. */
function drawFrom(shares: Float64Array): (at: number) => number {
  const ends = new Float64Array(shares.length)
  let sum = 0
  for (const [i, share] of shares.entries()) ends[i] = sum += share
  return (at) => {
    let [low, high] = [0, ends.length - 1]
    while (low < high) {
      const middle = (low + high) >> 1
      if ((ends[middle] as number) < at) low = middle + 1
      else high = middle
    }
    return low
  }
}
