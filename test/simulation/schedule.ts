// The schedule of an episode: lists of calls and faults, each with its time and its own random
// numbers. So one of them can be left out, and the others stay the same.

import { chanceOf, exponential } from './chance.ts'
import { makePlague, type PlannedFault, planFaults } from './faults.ts'
import {
  failingMostly,
  makePlan,
  manyKeys,
  type Plan,
  readMostly,
  seldomPurged,
  variantsMostly,
} from './plan.ts'

export interface Setting {
  readonly seed: number
  /** The greatest size of the fleet. */
  readonly processes: number
  readonly forMs: number
  /** Values are asked for by getOrSetMany. */
  readonly many?: boolean | undefined
  /**
   * The rest of a shrunk episode: a smaller fleet, and the calls and faults by their index in the
   * full lists.
   */
  readonly fleet?: number | undefined
  readonly calls?: readonly number[] | undefined
  readonly faults?: readonly number[] | undefined
}

export interface PlannedCall {
  /** Its index in the full list, which stays the same if others are left out. */
  readonly index: number
  readonly at: number
}

export interface Schedule {
  readonly fleet: number
  /** Share of the processes without an L1. */
  readonly withoutL1: number
  readonly plan: Plan
  readonly calls: readonly PlannedCall[]
  readonly faults: readonly PlannedFault[]
}

const FIRST_CALL_MS = 100

export function makeSchedule({ seed, processes, forMs, many, ...left }: Setting): Schedule {
  const random = chanceOf(seed, 'schedule', 0)
  // Most fleets are small, because faults meet there. Some have the greatest size.
  const most = random.chance(0.1) ? processes : Math.min(processes, 6)
  const fleet = 1 + random.int(most)
  const quiet = chanceOf(seed, 'without-l1', -1)
  const withoutL1 = quiet.pick([0, 0.5, 1])
  const planned = makePlan(random)
  const isReadMostly = withoutL1 === 1 && quiet.chance(0.7)
  const isOfVariants = quiet.chance(0.2)
  const usual = isReadMostly ? readMostly(planned) : planned
  const isFailing = !isOfVariants && quiet.chance(0.1)
  const answered = isFailing ? failingMostly(usual) : usual
  const asked = isOfVariants ? variantsMostly(answered) : answered
  const plague = makePlague(random)
  const ofOne = plague.isAlone ? seldomPurged(asked) : asked
  const plan = many ? manyKeys(ofOne) : ofOne
  const calls: PlannedCall[] = []
  for (let at = FIRST_CALL_MS; at < forMs; at += exponential(random, plan.everyMs)) {
    calls.push({ index: calls.length, at })
  }
  const faults = planFaults(random, plague, forMs)
  return {
    fleet: left.fleet ?? fleet,
    withoutL1,
    plan,
    calls: only(calls, left.calls),
    faults: only(faults, left.faults),
  }
}

function only<T>(all: readonly T[], places: readonly number[] | undefined): readonly T[] {
  return places === undefined ? all : places.flatMap((place) => all[place] ?? [])
}
