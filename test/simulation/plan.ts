// What an episode's applications are like: their keys, how they ask for values, and how slow their origin is.

import type { GetOrSetOptions } from '@stampede/core'
import type { Random } from '../fuzz/leaks/random.ts'

export interface Value {
  readonly key: string
  readonly version: number
}

/** One way of asking for values; constant, as in an application. */
export type Recipe = Readonly<GetOrSetOptions<Value>> & {
  readonly waitMs: number
  readonly originTimeoutMs: number
}

export interface Plan {
  readonly keys: readonly string[]
  readonly recipes: readonly Recipe[]
  /** Mean time between two calls of the fleet. */
  readonly everyMs: number
  readonly lockKeys: number
  readonly originMs: readonly number[]
  readonly visits: VisitPlan
  /** Visits are to pages that vary, and to no others. */
  readonly onlyVariants: boolean
  /** How often each kind of call comes, against the others; 0: never. */
  readonly mix: Readonly<Record<CallKind, number>>
}

/** Options of the HTTP cache. */
export interface VisitPlan {
  readonly ttlMs: number
  readonly staleWhileRevalidateMs: number
  readonly staleIfErrorMs: number
  readonly leaseMs: number
  readonly waitMs: number
  readonly originTimeoutMs: number
}

export type CallKind = 'get' | 'purge' | 'lock' | 'job' | 'visit'

/** Commands, their repetitions, and lookups that are made again because something came between. */
export const STORE_BUDGET_MS = 3_000
export const LONGEST_ORIGIN_MS = 8_000
export const LONGEST_WORK_MS = 5_000
const TAGS = ['even', 'odd'] as const

export function makePlan(random: Random): Plan {
  const recipe = (): Recipe =>
    Object.freeze({
      ttlMs: random.pick([300, 3_000, 30_000, 600_000]),
      staleWhileRevalidateMs: random.pick([0, 0, 2_000, 30_000]),
      staleIfErrorMs: random.pick([0, 10_000]),
      keepMs: random.pick([0, 60_000]),
      leaseMs: random.pick([300, 1_000, 5_000]),
      waitMs: random.pick([50, 1_000, 20_000, 300_000]),
      originTimeoutMs: random.pick([500, 4_000, 10_000]),
      earlyRefresh: random.pick([0, 0, 2]),
      tags: ({ key }: Value) => [tagOf(key)],
    })
  return {
    keys: Array.from({ length: 1 + random.int(6) }, (_, i) => `k${i}`),
    recipes: Array.from({ length: 1 + random.int(3) }, recipe),
    everyMs: random.pick([10, 30, 100, 300]),
    lockKeys: 1 + random.int(3),
    originMs: random.pick([[1], [0, 20, 300], [5, 200, 2_500], [1, 400, 6_000, LONGEST_ORIGIN_MS]]),
    visits: makeVisitPlan(random),
    onlyVariants: false,
    mix: makeMix(random),
  }
}

/** The longest that a value or a page is used for: lifetimes are spread a little. */
export function longestMs(windows: Recipe | VisitPlan): number {
  const { ttlMs, staleWhileRevalidateMs = 0, staleIfErrorMs = 0 } = windows
  return 1.1 * (Number(ttlMs) + Math.max(Number(staleWhileRevalidateMs), Number(staleIfErrorMs)))
}

/** Nearly every look-up finds what is fresh: the origin is quick, and little is purged. */
export function readMostly(plan: Plan): Plan {
  const { get, purge, visit } = plan.mix
  const mix = { get, purge: Math.min(purge, 0.3), lock: 0, job: 0, visit: 3 * visit }
  return { ...plan, keys: plan.keys.slice(0, 2), mix, everyMs: 10, originMs: [1] }
}

/** Little is purged, so that what a purge that was missed left is seen for long. */
export function seldomPurged(plan: Plan): Plan {
  const purge = Math.min(plan.mix.purge, 1)
  return { ...plan, everyMs: Math.max(plan.everyMs, 30), mix: { ...plan.mix, purge } }
}

/** Refreshes are slow, fail at times, and have something to stand in for them, which is purged meanwhile. */
export function failingMostly(plan: Plan): Plan {
  const windows = { ttlMs: 300, staleWhileRevalidateMs: 0, staleIfErrorMs: 10_000 }
  const recipes = plan.recipes.map((each) =>
    Object.freeze({ ...each, ...windows, originTimeoutMs: 10_000 }),
  )
  const mix = { get: 80, purge: 5, lock: 0, job: 0, visit: 15 }
  return { ...plan, recipes, mix, originMs: [5, 200, 2_500] }
}

/** Pages that vary are asked for and purged, and live for long: whatever purge of theirs is missed is seen. */
export function variantsMostly(plan: Plan): Plan {
  const visits = { ...plan.visits, ttlMs: 60_000 }
  return {
    ...plan,
    visits,
    onlyVariants: true,
    mix: { get: 2, purge: 0, lock: 0, job: 0, visit: 100 },
  }
}

function makeVisitPlan(random: Random): VisitPlan {
  return {
    ttlMs: random.pick([300, 3_000, 60_000, 600_000]),
    staleWhileRevalidateMs: random.pick([0, 2_000, 30_000]),
    staleIfErrorMs: random.pick([0, 10_000]),
    leaseMs: random.pick([300, 1_000, 5_000]),
    waitMs: random.pick([50, 1_000, 20_000]),
    originTimeoutMs: random.pick([500, 4_000, 10_000]),
  }
}

/**
 * Half of the episodes have some of everything; in the others some kinds of calls are rare or absent, so that what they would have ended
 * lives on: what a purge that was missed leaves is only seen until the next.
 */
function makeMix(random: Random): Plan['mix'] {
  if (random.chance(0.5)) return { get: 52, purge: 7, lock: 12, job: 12, visit: 17 }
  return {
    get: random.pick([5, 20, 80]),
    purge: random.pick([0.3, 1, 3]),
    lock: random.pick([0, 10, 40]),
    job: random.pick([0, 10, 40]),
    visit: random.pick([0, 10, 80]),
  }
}

export function tagOf(key: string): string {
  return TAGS[Number(key.slice(1)) % 2] ?? ''
}
