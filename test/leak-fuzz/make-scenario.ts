// From a seed to a scenario. Nothing about one person is put where no documented rule keeps it from others:
// what leaks then is a mistake of ours, not of the app.

import { makeRoute } from './make-route.ts'
import { CHANNELS, type Channel, makePeople, type Person } from './people.ts'
import { type Random, randomFrom } from './random.ts'
import { makeCacheSpec } from './rules.ts'
import {
  FRAMEWORKS,
  type FrameworkName,
  type LayerSpec,
  type RequestSpec,
  type RouteSpec,
  type Scenario,
  type StepSpec,
  type StoreName,
} from './scenario.ts'

export interface Wanted {
  readonly framework?: FrameworkName | undefined
  readonly store?: StoreName | undefined
}

export function makeScenario(seed: number, wanted: Wanted = {}): Scenario {
  const random = randomFrom(seed)
  const anyFramework = random.pick(FRAMEWORKS)
  const anyStore = random.chance(0.3) ? 'redis' : 'memory'
  const { framework = anyFramework, store = anyStore } = wanted
  const people = makePeople(random)
  const routeCount = 1 + random.int(3)
  const focus = random.pick(CHANNELS)
  const fails = random.chance(0.1)
  const realTime = store === 'redis'
  const layers = makeLayers(random, { routeCount, focus, people, realTime, fails })
  const routes = Array.from({ length: routeCount }, (_, route) =>
    makeRoute(random, { route, focus, layers, framework, fails }),
  )
  const echoes = layers.some(({ kind }) => kind === 'cors')
  const steps = Array.from({ length: 3 + random.int(3) }, (_, index) =>
    makeStep(random, { people, routes, store, echoes, act: fails ? index : undefined }),
  )
  return { seed, framework, store, people, layers, routes, steps }
}

interface Ground {
  readonly routeCount: number
  readonly focus: Channel
  readonly people: readonly Person[]
  readonly realTime: boolean
  /** The origin answers once, to one person, and fails from then on: what may stand in for the error, and for whom? */
  readonly fails: boolean
}

function makeLayers(random: Random, ground: Ground): LayerSpec[] {
  const { routeCount, focus, people, realTime, fails } = ground
  const all = Array.from({ length: routeCount }, (_, route) => route)
  const cache = (at: readonly number[] | 'all') => ({
    kind: 'cache' as const,
    options: {
      ...makeCacheSpec(random, focus, realTime),
      ...(fails && { ttlMs: realTime ? 40 : 1_000, staleIfErrorMs: realTime ? 800 : 20_000 }),
    },
    at,
  })
  const others: LayerSpec[] = [
    cache(random.chance(0.85) ? 'all' : [random.pick(all), ...random.some(all, 0.6)]),
  ]
  if (random.chance(0.15)) others.push(cache(random.some(all, 0.6)))
  const sessions = random.chance(0.4) ? 1 + random.int(2) : 0
  for (let i = 0; i < sessions; i++) {
    const at = random.some(all, 0.4)
    const how = random.pick(['early', 'after', 'head', 'head', 'args'] as const)
    others.push({ kind: 'session', how, at })
  }
  if (random.chance(0.25)) others.push({ kind: 'cors', varies: random.chance(0.5) })
  if (random.chance(0.25)) others.push({ kind: 'gzip' })
  if (random.chance(0.2)) others.push({ kind: 'cookies' })
  if (random.chance(0.2)) others.push({ kind: 'conditional' })
  if (random.chance(0.15)) {
    const denies = random.some(
      people.map((_, index) => index),
      0.4,
    )
    others.push({ kind: 'auth', denies, status: random.pick([401, 403]) })
  }
  const layers = random.shuffle(others)
  if (random.chance(0.3)) {
    const firstCache = layers.findIndex(({ kind }) => kind === 'cache')
    const place = random.int(firstCache + 1)
    layers.splice(place, 0, { kind: 'caller', when: random.pick(['early', 'late']) })
  }
  return layers
}

interface Cast {
  readonly people: readonly Person[]
  readonly routes: readonly RouteSpec[]
  readonly store: StoreName
  /** The app has a layer that echoes origins. */
  readonly echoes: boolean
  /** Which step it is of a scenario in which the origin fails. */
  readonly act: number | undefined
}

function makeStep(random: Random, cast: Cast): StepSpec {
  const { people, routes, store, echoes, act } = cast
  // Most of a burst is for one route: that is what is coalesced.
  const busy = random.int(routes.length)
  const eager = random.int(people.length)
  // What one person brings in alone, others find later.
  const eagerness = random.chance(0.2) || act === 0 ? 1 : 0.3
  const requests = Array.from({ length: 3 + random.int(8) }, () => {
    const route = random.chance(0.75) ? busy : random.int(routes.length)
    const who = random.chance(eagerness) ? eager : random.int(people.length)
    return makeRequest(random, { route, who, about: routes[route]?.about, people, echoes })
  })
  const unit = store === 'redis' ? 30 : 1_000
  const events = [
    'purge',
    'soft-purge',
    ...(store === 'redis' ? ['pause', 'restart'] : []),
  ] as const
  const rare = random.pick(events)
  const happens = random.chance(rare === 'restart' ? 0.04 : 0.12)
  return {
    requests,
    waitMs: random.chance(0.55) && act === undefined ? 0 : unit * random.int(4) + random.int(unit),
    meanwhileMs: random.chance(0.1) && store === 'memory' ? random.int(3_000) : 0,
    event: happens ? (rare as StepSpec['event']) : 'none',
  }
}

const QUERIES = ['', '', '', '', '', '?utm=1', '?page=1', '?b=2&a=1']

interface Asked {
  readonly route: number
  readonly who: number
  readonly about: Channel | undefined
  readonly people: readonly Person[]
  readonly echoes: boolean
}

function makeRequest(random: Random, { route, who, about, people, echoes }: Asked): RequestSpec {
  const carries = CHANNELS.filter((channel) => {
    if (channel === about) return random.chance(0.9)
    if (channel === 'origin' && echoes) return random.chance(0.5)
    return random.chance(channel === 'url' || channel === 'host' ? 0 : 0.08)
  })
  const headers: Record<string, string> = {}
  if (random.chance(0.25))
    headers['accept-encoding'] = random.pick(['gzip', 'gzip, br', 'identity'])
  if (random.chance(0.1)) {
    const etag = random.pick(people).secret
    headers['if-none-match'] = random.pick(['*', `"${etag}"`, '"other"'])
  }
  if (random.chance(0.05)) headers.range = 'bytes=0-9'
  if (random.chance(0.01)) headers['if-match'] = '*'
  if (random.chance(0.03)) headers['cache-control'] = 'no-cache'
  return {
    who,
    route,
    server: random.int(2),
    method: random.chance(0.92) ? 'GET' : random.pick(['HEAD', 'HEAD', 'POST']),
    carries,
    query: about === 'url' ? '' : random.pick(QUERIES),
    headers,
    abortMs: random.chance(0.05) ? random.int(5) : undefined,
  }
}
