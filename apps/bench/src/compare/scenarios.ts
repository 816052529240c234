// The scenarios for a fleet of four processes, the same for every cache. The page tells them.
import { type Arrival, poisson, type Random, zipf } from '../lib/arrivals.ts'

export type Trouble = 'origin fails' | 'origin is well' | 'redis freezes' | 'redis thaws'

export interface Scene {
  readonly originMs: number
  readonly ttlMs: number
  /** How long a value may be served after its TTL, if the cache can do that. 0: not at all. */
  readonly staleMs: number
}

export interface OpenScenario extends Scene {
  readonly id: string
  readonly title: string
  readonly troubles: readonly (readonly [atMs: number, what: Trouble])[]
  readonly arrivals: (random: Random) => Arrival[]
}

export const BURSTS = 3

const pick = (random: Random, count: number) => () => `k${Math.floor(random() * count)}`
const fewKeys = (random: Random) =>
  poisson(random, { forMs: 4_000, perSecond: 400 }, pick(random, 20))

export const scenarios: readonly OpenScenario[] = [
  {
    ...{ id: 'burst', title: 'Cold burst', originMs: 300, ttlMs: 60_000, staleMs: 0, troubles: [] },
    arrivals: (random) =>
      Array.from({ length: BURSTS }, (_, burst) => {
        const rush = { fromMs: burst * 1_000, forMs: 250, perSecond: 2_000 }
        return poisson(random, rush, () => `cold${burst}`)
      }).flat(),
  },
  {
    ...{ id: 'expiry', title: 'Expiry of a hot set', originMs: 100, ttlMs: 1_000, staleMs: 0 },
    troubles: [],
    arrivals: (random) => poisson(random, { forMs: 3_300, perSecond: 600 }, pick(random, 20)),
  },
  {
    ...{ id: 'zipf', title: 'Zipf mix', originMs: 50, ttlMs: 2_000, staleMs: 2_000, troubles: [] },
    arrivals(random) {
      const rank = zipf(random, 2_000)
      return poisson(random, { forMs: 3_300, perSecond: 600 }, () => `k${rank()}`)
    },
  },
  {
    ...{ id: 'once', title: 'Every key once', originMs: 5, ttlMs: 60_000, staleMs: 0 },
    troubles: [],
    arrivals: (random) => poisson(random, { forMs: 2_000, perSecond: 300 }, (n) => `once${n}`),
  },
  {
    ...{ id: 'failing', title: 'Failing origin', originMs: 50, ttlMs: 1_000, staleMs: 10_000 },
    troubles: [
      [1_200, 'origin fails'],
      [3_000, 'origin is well'],
    ],
    arrivals: fewKeys,
  },
  {
    ...{ id: 'frozen', title: 'Redis frozen', originMs: 50, ttlMs: 1_000, staleMs: 0 },
    troubles: [
      [1_200, 'redis freezes'],
      [3_000, 'redis thaws'],
    ],
    arrivals: fewKeys,
  },
]
