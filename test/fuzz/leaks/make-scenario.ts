// Makes a scenario from a seed. A response about one person only occurs where a documented rule
// keeps it from others. A leak is therefore a mistake of Stampede, not of the app.

import { makeRoute } from './make-route.ts'
import { CHANNELS, type Channel, CREDENTIALS, makePeople, type Person } from './people.ts'
import { type Random, randomFrom } from './random.ts'
import { type CacheSpec, makeCacheSpec } from './rules.ts'
import {
  FRAMEWORKS,
  type FrameworkName,
  type LayerSpec,
  type Mood,
  PURGE_KINDS,
  type RequestSpec,
  type RouteSpec,
  type Scenario,
  type StepSpec,
  type StoreName,
  type Wire,
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
  const focus = makeFocus(random)
  const mood = random.chance(0.1) ? 'fails' : random.chance(0.25) ? 'asks' : undefined
  const realTime = store === 'redis'
  const layers = makeLayers(random, { routeCount, focus, people, realTime, mood })
  const wire = makeWire(random, focus, framework)
  // Behind a front on HTTP/2 there is no Express.
  const isFront = framework === 'front'
  const writers = isFront && wire === 'http2' ? 'node' : framework
  const routes = Array.from({ length: routeCount }, (_, route) =>
    makeRoute(random, { route, focus, layers, framework: writers, isFront, mood }),
  )
  const echoes = layers.some(({ kind }) => kind === 'cors')
  const trustsProxy = random.chance(focus === 'host' || focus === 'x-forwarded-host' ? 0.7 : 0.2)
  const steps = Array.from({ length: 3 + random.int(3) }, (_, index) =>
    makeStep(random, { people, routes, store, wire, echoes, trustsProxy, mood, act: index }),
  )
  return { seed, framework, store, wire, people, trustsProxy, layers, routes, steps }
}

/**
 * Certificates need TLS. Bodies without a framing field need HTTP/2, on which Express does not run.
 */
function makeWire(random: Random, focus: Channel, framework: FrameworkName): Wire {
  const [any, second] = [random.next(), random.chance(0.5)]
  const best = !framework.startsWith('express') && (focus === 'body' || second) ? 'http2' : 'https'
  if (focus === 'certificate') return best
  return any < (focus === 'body' ? 0.7 : 0.08) ? best : 'http'
}

/** The credential channels are alike, so they count as one. */
function makeFocus(random: Random): Channel {
  const others = CHANNELS.filter((channel) => !CREDENTIALS.includes(channel))
  return random.pick([...others, random.pick(CREDENTIALS)])
}

interface Ground {
  readonly routeCount: number
  readonly focus: Channel
  readonly people: readonly Person[]
  readonly realTime: boolean
  readonly mood: Mood
}

function makeLayers(random: Random, ground: Ground): LayerSpec[] {
  const { routeCount, focus, people, realTime, mood } = ground
  const all = Array.from({ length: routeCount }, (_, route) => route)
  const cache = (at: readonly number[] | 'all') => ({
    kind: 'cache' as const,
    options: {
      ...makeCacheSpec(random, focus, realTime),
      ...moodOptions(mood, realTime),
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
    others.push({ kind: 'session', how, at, known: random.chance(0.4) })
  }
  if (random.chance(0.25)) others.push({ kind: 'cors', varies: random.chance(0.5) })
  if (random.chance(0.25)) others.push({ kind: 'gzip', varies: random.chance(0.6) })
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
  const inFront = (layer: LayerSpec): void => {
    const firstCache = layers.findIndex(({ kind }) => kind === 'cache')
    layers.splice(random.int(firstCache + 1), 0, layer)
  }
  if (random.chance(0.3)) inFront({ kind: 'caller', when: random.pick(['early', 'late']) })
  if (random.chance(focus === 'moved' ? 0.9 : 0.1)) inFront({ kind: 'rewrite' })
  return layers
}

/** A short freshness, and a long window after it. */
function moodOptions(mood: Mood, realTime: boolean): CacheSpec {
  const ttlMs = realTime ? 40 : 1_000
  const longMs = 20 * ttlMs
  if (mood === 'fails') return { ttlMs, staleIfErrorMs: longMs }
  return mood === 'asks' ? { ttlMs, overrideHeaders: true, keepMs: longMs } : {}
}

interface Cast {
  readonly people: readonly Person[]
  readonly routes: readonly RouteSpec[]
  readonly store: StoreName
  readonly wire: Wire
  /** The app has a layer that echoes origins. */
  readonly echoes: boolean
  readonly trustsProxy: boolean
  readonly mood: Mood
  /** The index of the step. */
  readonly act: number
}

function makeStep(random: Random, cast: Cast): StepSpec {
  const { people, routes, store, wire, echoes, trustsProxy, mood, act } = cast
  // Most requests of a burst are for one route, so that requests are coalesced.
  const busy = random.int(routes.length)
  const eager = random.int(people.length)
  // In some steps one person sends all requests. Other people find those entries later.
  const eagerness = random.chance(0.2) || (mood === 'fails' && act === 0) ? 1 : 0.3
  const requests = Array.from({ length: 3 + random.int(8) }, () => {
    const route = random.chance(0.75) ? busy : random.int(routes.length)
    const who = random.chance(eagerness) ? eager : random.int(people.length)
    const about = routes[route]?.about
    const aborts = routes[route]?.answers.some((answer) => answer.aborts) === true
    return makeRequest(random, { route, who, about, aborts, people, wire, echoes, trustsProxy })
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
    waitMs: random.chance(mood === undefined ? 0.55 : 0)
      ? 0
      : unit * random.int(4) + random.int(unit),
    meanwhileMs: random.chance(0.15) && store === 'memory' ? random.int(3_000) : 0,
    event: happens ? (rare as StepSpec['event']) : 'none',
    target: random.pick(PURGE_KINDS),
  }
}

const RANGES = ['bytes=0-9', 'bytes=5-', 'bytes=-7', 'bytes=9999-', 'bytes=0-0']
const QUERIES = ['', '', '', '', '', '?utm=1', '?page=1', '?b=2&a=1']

interface Asked {
  readonly route: number
  readonly who: number
  readonly about: Channel | undefined
  /** The handler fails when the leader's client leaves. */
  readonly aborts: boolean
  readonly people: readonly Person[]
  readonly wire: Wire
  readonly echoes: boolean
  readonly trustsProxy: boolean
}

function makeRequest(random: Random, asked: Asked): RequestSpec {
  const { route, who, about, aborts, people, wire, echoes, trustsProxy } = asked
  const carries = CHANNELS.filter((channel) => {
    if (channel === about) return random.chance(0.9)
    if (channel === 'origin' && echoes) return random.chance(0.5)
    if (channel === 'url' || channel === 'host') return false
    // Most channels bypass the cache, or are in the key.
    return random.chance(CHANNELS.indexOf(channel) > CHANNELS.indexOf('url') ? 0.02 : 0.08)
  })
  const headers: Record<string, string> = {}
  // A proxy in front of the app names one host for all clients.
  if (trustsProxy && random.chance(0.7)) headers['x-forwarded-host'] = 'proxy.test'
  if (random.chance(0.25))
    headers['accept-encoding'] = random.pick(['gzip', 'gzip, br', 'identity'])
  if (random.chance(0.1)) {
    const etag = random.pick(people).secret
    const own = `"v${route}-${random.pick(['all', people[who]?.secret ?? ''])}"`
    headers['if-none-match'] = random.pick(['*', `"${etag}"`, '"other"', own, `W/${own}`])
  }
  if (random.chance(0.05)) headers['if-modified-since'] = new Date(2e12).toUTCString()
  if (random.chance(0.12)) {
    headers.range = random.pick(RANGES)
    const validators = [headers['if-none-match'] ?? `"v${route}-all"`, '"other"']
    if (random.chance(0.2)) headers['if-range'] = random.pick(validators)
  }
  if (random.chance(0.01)) headers['if-match'] = '*'
  if (random.chance(0.03)) headers['cache-control'] = 'no-cache'
  const method = random.chance(0.92) ? 'GET' : random.pick(['HEAD', 'HEAD', 'POST'] as const)
  return {
    who,
    route,
    server: random.int(2),
    // Without a cache, Koa sends no response to a HEAD over HTTP/2 that fails.
    method: method === 'HEAD' && wire === 'http2' ? 'GET' : method,
    carries,
    query: about === 'url' ? '' : random.pick(QUERIES),
    headers,
    abortMs: random.chance(aborts ? 0.25 : 0.05) ? random.int(5) : undefined,
  }
}
