// The scenarios for a fleet of four processes, the same for every cache.
import { type Arrival, poisson, type Random, zipf } from './arrivals.ts'

export type Trouble = 'origin fails' | 'origin is well' | 'redis freezes' | 'redis thaws'

export interface Scenario {
  readonly id: string
  readonly title: string
  readonly story: string
  readonly originMs: number
  readonly ttlMs: number
  /** How long a value may be served after its TTL, if the cache can do that. 0: not at all. */
  readonly staleMs: number
  readonly troubles: ReadonlyArray<{ readonly atMs: number; readonly what: Trouble }>
  readonly arrivals: (random: Random) => Arrival[]
}

const BURST_EVERY_MS = 1_000
export const BURSTS = 3

const pick = (random: Random, count: number) => () => `k${Math.floor(random() * count)}`

export const scenarios: readonly Scenario[] = [
  {
    id: 'burst',
    title: 'Cold burst',
    story: `${BURSTS} cold keys in turn. Each gets 2000 requests/s for 250 ms. The origin takes 300 ms`,
    originMs: 300,
    ttlMs: 60_000,
    staleMs: 0,
    troubles: [],
    arrivals: (random) =>
      Array.from({ length: BURSTS }, (_, burst) => {
        const rush = { fromMs: burst * BURST_EVERY_MS, forMs: 250, perSecond: 2_000 }
        return poisson(random, rush, () => `cold${burst}`)
      }).flat(),
  },
  {
    id: 'expiry',
    title: 'Expiry of a hot set',
    story:
      '20 hot keys that live for 1 s and are not served stale. 600 requests/s. The origin takes 100 ms',
    originMs: 100,
    ttlMs: 1_000,
    staleMs: 0,
    troubles: [],
    arrivals: (random) => poisson(random, { forMs: 3_300, perSecond: 600 }, pick(random, 20)),
  },
  {
    id: 'zipf',
    title: 'Zipf mix',
    story:
      '2000 keys. The n-th key gets 1/n of the requests of the first. 600 requests/s. Values live for 2 s, and may be served stale for 2 s. The origin takes 50 ms',
    originMs: 50,
    ttlMs: 2_000,
    staleMs: 2_000,
    troubles: [],
    arrivals(random) {
      const rank = zipf(random, 2_000)
      return poisson(random, { forMs: 3_300, perSecond: 600 }, () => `k${rank()}`)
    },
  },
  {
    id: 'once',
    title: 'Every key once',
    story:
      'each request is for a new key, so a cache can only add costs. 300 requests/s. The origin takes 5 ms',
    originMs: 5,
    ttlMs: 60_000,
    staleMs: 0,
    troubles: [],
    arrivals: (random) => poisson(random, { forMs: 2_000, perSecond: 300 }, (n) => `once${n}`),
  },
  {
    id: 'failing',
    title: 'Failing origin',
    story:
      '20 keys that live for 1 s and may be served stale for 10 s. 400 requests/s. The origin takes 50 ms. From 1.2 s to 3 s it throws after that time',
    originMs: 50,
    ttlMs: 1_000,
    staleMs: 10_000,
    troubles: [
      { atMs: 1_200, what: 'origin fails' },
      { atMs: 3_000, what: 'origin is well' },
    ],
    arrivals: (random) => poisson(random, { forMs: 4_000, perSecond: 400 }, pick(random, 20)),
  },
  {
    id: 'frozen',
    title: 'Redis frozen',
    story:
      '20 keys that live for 1 s and are not served stale. 400 requests/s. The origin takes 50 ms. From 1.2 s to 3 s Redis is frozen, with its connections open',
    originMs: 50,
    ttlMs: 1_000,
    staleMs: 0,
    troubles: [
      { atMs: 1_200, what: 'redis freezes' },
      { atMs: 3_000, what: 'redis thaws' },
    ],
    arrivals: (random) => poisson(random, { forMs: 4_000, perSecond: 400 }, pick(random, 20)),
  },
]
