// The plan of an episode's applications: keys, calls for values, and the delays of their origin.

import type { GetOrSetOptions } from '@stampede/core'
import type { Random } from '../fuzz/leaks/random.ts'

export interface Value {
  readonly key: string
  readonly version: number
  /** The process whose factory skipped this value, so that it is not stored, and when. */
  readonly skipped?: { readonly by: string; readonly at: number }
}

/** One way to ask for values. It is constant, as in an application. */
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
  /** Values are asked for by getOrSetMany, of one data cache. */
  readonly many?: boolean
  /** All visits are to pages that vary. */
  readonly onlyVariants: boolean
  /** How often each kind of call comes, relative to the others. 0: never. */
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

/** The time of commands and their repetitions, and of lookups that run again. */
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

/** The longest time that a value or a page is used, with jitter. */
export function longestMs(windows: Recipe | VisitPlan): number {
  const { ttlMs, staleWhileRevalidateMs = 0, staleIfErrorMs = 0 } = windows
  return 1.1 * (Number(ttlMs) + Math.max(Number(staleWhileRevalidateMs), Number(staleIfErrorMs)))
}

/** Nearly every lookup is a hit: the origin is quick, and there are few purges. */
export function readMostly(plan: Plan): Plan {
  const { get, purge, visit } = plan.mix
  const mix = { get, purge: Math.min(purge, 0.3), lock: 0, job: 0, visit: 3 * visit }
  return { ...plan, keys: plan.keys.slice(0, 2), mix, everyMs: 10, originMs: [1] }
}

/** There are few purges, so the effect of a missed one is visible for long. */
export function seldomPurged(plan: Plan): Plan {
  const purge = Math.min(plan.mix.purge, 1)
  return { ...plan, everyMs: Math.max(plan.everyMs, 30), mix: { ...plan.mix, purge } }
}

/**
 * Refreshes are slow and sometimes fail. Stale entries replace the error, and are purged meanwhile.
 */
export function failingMostly(plan: Plan): Plan {
  const windows = { ttlMs: 300, staleWhileRevalidateMs: 0, staleIfErrorMs: 10_000 }
  const recipes = plan.recipes.map((each) =>
    Object.freeze({ ...each, ...windows, originTimeoutMs: 10_000 }),
  )
  const mix = { get: 80, purge: 5, lock: 0, job: 0, visit: 15 }
  return { ...plan, recipes, mix, originMs: [5, 200, 2_500] }
}

/**
 * Visits and purges of pages that vary and live for long, so the effect of a missed purge is
 * visible.
 */
export function variantsMostly(plan: Plan): Plan {
  const visits = { ...plan.visits, ttlMs: 60_000 }
  return {
    ...plan,
    visits,
    onlyVariants: true,
    mix: { get: 2, purge: 0, lock: 0, job: 0, visit: 100 },
  }
}

/** Values are asked for by getOrSetMany, with several keys at once. */
export function manyKeys(plan: Plan): Plan {
  return { ...plan, many: true, keys: plan.keys.map((key) => MANY_PREFIX + key) }
}

export const MANY_PREFIX = 'm:'

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
 * Half of the episodes have all kinds of calls. In the others some kinds are rare or absent,
 * because they would end states that the rules must see. The effect of a missed purge lasts only
 * until the next one.
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
  return TAGS[Number(key.slice(key.indexOf('k') + 1)) % 2] ?? ''
}
