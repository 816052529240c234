// Routes of one URL that Fastify chooses by constraints: by a version, a host, or a strategy of the
// app. Each must have entries and idempotency records of its own.

import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { createStampede } from '@stampede/core'
import fastify, { type FastifyInstance, type InjectOptions } from 'fastify'
import { describe, expect, it, vi } from 'vitest'
import { ManualClock } from '../../core/src/testing/index.ts'
import { watchRoutes } from './constraints.ts'
import { idempotency, stampedeCache } from './index.ts'

type Headers = Record<string, string>
type Derive = (req: { readonly headers: Headers }) => unknown

/** A strategy of the app, which compares for equality. */
function strategyOf(name: string, deriveConstraint: Derive, more: object = {}) {
  const storage = () => {
    const routes = new Map<unknown, unknown>()
    return {
      get: (value: unknown) => routes.get(value) ?? null,
      set: (value: unknown, route: unknown) => void routes.set(value, route),
    }
  }
  return { name, storage, validate: () => {}, deriveConstraint, ...more } as never
}

const V1 = { version: '1.2.0' }
const V2 = { version: '2.0.0' }
const version = (value: string) => ({ 'accept-version': value })

type Route = readonly [constraints: object | undefined, body: string]
type Ask = readonly [headers: Headers, expected: string | 404]

const VERSIONS: readonly Ask[] = [
  [version('1.x'), 'one'],
  [version('1.2.0'), 'one'],
  [version('2.x'), 'two'],
  [version('2.0.0'), 'two'],
  [version('9.x'), 404],
]

const KINDS: Record<string, unknown> = { a: Symbol.for('a'), b: Symbol.for('b'), c: /c/ }

const CASES: ReadonlyArray<{
  readonly title: string
  readonly strategies?: () => Record<string, unknown>
  readonly routes: readonly Route[]
  readonly asks: readonly Ask[]
}> = [
  {
    title: 'versions alone',
    routes: [
      [V1, 'one'],
      [V2, 'two'],
    ],
    asks: [...VERSIONS, [{}, 404]],
  },
  {
    title: 'versions and a plain route',
    routes: [
      [undefined, 'plain'],
      [V1, 'one'],
      [V2, 'two'],
    ],
    asks: [...VERSIONS, [{}, 'plain']],
  },
  {
    title: 'hosts',
    routes: [
      [{ host: 'a.test' }, 'a'],
      [{ host: /^b\d?\.test$/ }, 'b'],
    ],
    asks: [
      [{ host: 'a.test' }, 'a'],
      [{ host: 'b1.test' }, 'b'],
      [{ host: 'c.test' }, 404],
    ],
  },
  {
    title: 'hosts and versions',
    routes: [
      [{ host: 'a.test', ...V1 }, 'a1'],
      [{ host: 'a.test', ...V2 }, 'a2'],
    ],
    asks: [
      [{ host: 'a.test', ...version('1.x') }, 'a1'],
      [{ host: 'a.test', ...version('2.x') }, 'a2'],
      [{ host: 'b.test', ...version('2.x') }, 404],
    ],
  },
  {
    title: 'a strategy by a header',
    strategies: () => ({ shop: strategyOf('shop', ({ headers }) => headers['x-shop']) }),
    routes: [
      [undefined, 'plain'],
      [{ shop: 'a' }, 'a'],
      [{ shop: 'b' }, 'b'],
    ],
    asks: [
      [{ 'x-shop': 'a' }, 'a'],
      [{ 'x-shop': 'b' }, 'b'],
      [{}, 'plain'],
    ],
  },
  {
    title: 'a strategy with symbols and objects as values',
    strategies: () => ({
      kind: strategyOf('kind', ({ headers }) => KINDS[headers['x-kind'] ?? '']),
    }),
    routes: ['a', 'b', 'c'].map((kind) => [{ kind: KINDS[kind] }, kind]),
    asks: [
      [{ 'x-kind': 'a' }, 'a'],
      [{ 'x-kind': 'b' }, 'b'],
      [{ 'x-kind': 'c' }, 'c'],
    ],
  },
  {
    title: 'its own strategy for versions, by another header',
    strategies: () => ({
      version: strategyOf('version', ({ headers }) => headers['x-api'], {
        mustMatchWhenDerived: true,
      }),
    }),
    routes: [
      [V1, 'one'],
      [V2, 'two'],
      [undefined, 'plain'],
    ],
    asks: [
      [{ 'x-api': '1.2.0' }, 'one'],
      [{ 'x-api': '2.0.0' }, 'two'],
      [{ 'x-api': '3' }, 404],
      [{}, 'plain'],
    ],
  },
]

const CACHE = { ttlMs: 60_000 }

/** Places of the cache. All routes must be safe in each of them. */
const MOUNTS: Record<
  string,
  (app: FastifyInstance, declare: (app: FastifyInstance, own?: object) => void) => void
> = {
  'registered before the routes': (app, declare) => {
    app.register(stampedeCache(CACHE))
    declare(app)
  },
  'registered after the routes': (app, declare) => {
    declare(app)
    app.register(stampedeCache(CACHE))
  },
  'registered for a child with the routes': (app, declare) => {
    app.register(async (child) => {
      child.register(stampedeCache(CACHE))
      declare(child)
    })
  },
  'registered before a child with the routes': (app, declare) => {
    app.register(stampedeCache(CACHE))
    app.register(async (child) => declare(child))
  },
  'a hook of each route': (app, declare) => {
    const stampede = createStampede()
    declare(app, { preHandler: stampedeCache({ ...CACHE, stampede }) })
  },
}

function appOf(
  { strategies, routes }: Pick<(typeof CASES)[number], 'strategies' | 'routes'>,
  mount: keyof typeof MOUNTS,
) {
  const app = fastify({
    ...(strategies && { routerOptions: { constraints: strategies() as never } }),
  })
  let runs = 0
  MOUNTS[mount]?.(app, (target, own) => {
    for (const [constraints, body] of routes) {
      const options = { ...own, ...(constraints && { constraints: constraints as never }) }
      target.get('/', options, async () => `${body} ${++runs}`)
    }
  })
  return app
}

async function ask(app: FastifyInstance, headers: Headers, more: InjectOptions = {}) {
  const { statusCode, body, headers: fields } = await app.inject({ url: '/', headers, ...more })
  const status = String(fields['cache-status'])
  return { said: statusCode === 404 ? 404 : body.split(' ')[0], body, status }
}

describe.each(Object.keys(MOUNTS))('routes with constraints, with the cache %s', (mount) => {
  it.each(CASES)('have entries of their own: $title', async ({ asks, ...routes }) => {
    for (const order of [asks, asks.toReversed()]) {
      const app = appOf(routes, mount)
      for (const round of ['miss', 'hit']) {
        for (const [headers, expected] of order) {
          const { said, status } = await ask(app, headers)
          expect([headers, said]).toEqual([headers, expected])
          if (round === 'hit' && expected !== 404) expect(status).toContain('; hit')
        }
      }
      for (const [headers, expected] of order) {
        const head = await app.inject({ method: 'HEAD', url: '/', headers })
        expect([headers, head.statusCode]).toEqual([headers, expected === 404 ? 404 : 200])
        if (expected !== 404) expect(head.headers['cache-status']).toContain('; hit')
      }
    }
  })

  it('stay apart if a counter chooses between them', async () => {
    let next = 0
    const strategies = () => ({ turn: strategyOf('turn', () => next % 2) })
    const app = appOf(
      {
        strategies,
        routes: [
          [{ turn: 0 }, 'even'],
          [{ turn: 1 }, 'odd'],
        ],
      },
      mount,
    )
    for (; next < 6; next++) {
      const { said, status } = await ask(app, {})
      expect(said).toBe(next % 2 === 0 ? 'even' : 'odd')
      expect(status).toContain(next < 2 ? 'stored' : '; hit')
    }
  })

  it('share an entry between versions of one route', async () => {
    const app = appOf({ routes: [[V1, 'one']] }, mount)
    const bodies = []
    for (const value of ['1.x', '1.2.0', '1.2.x']) bodies.push(await ask(app, version(value)))
    expect(bodies.map(({ body }) => body)).toEqual(['one 1', 'one 1', 'one 1'])
  })
})

describe('a hook of the app that changes routes', () => {
  type Change = (route: { constraints?: object; config?: object }, body: string) => void
  const set = (body: string) => (body === 'one' ? V1 : V2)

  it.each<[title: string, given: object, change: Change, status: string]>([
    ['sets constraints', {}, (route, body) => (route.constraints = set(body)), '; hit'],
    [
      'changes constraints in place',
      { constraints: { version: '0.0.0' } },
      ({ constraints }, body) => Object.assign(constraints as object, set(body)),
      '; hit',
    ],
    [
      'replaces the config, so the cache is not used',
      { constraints: V1 },
      (route, body) => Object.assign(route, { config: {}, constraints: set(body) }),
      'undefined',
    ],
  ])('%s, and routes share no entry', async (_title, given, change, expected) => {
    const app = fastify()
    app.register(stampedeCache(CACHE))
    let body = 'one'
    app.addHook('onRoute', (route) => change(route, body))
    for (body of ['one', 'two']) {
      const own = body
      app.get('/', structuredClone(given), async () => own)
    }
    for (const _round of [1, 2]) {
      for (const [value, said] of [
        ['1.x', 'one'],
        ['2.x', 'two'],
        ['9.x', 404],
      ] as const)
        expect((await ask(app, version(value))).said).toBe(said)
    }
    expect((await ask(app, version('1.x'))).status).toContain(expected)
  })
})

it('constraints that look the same have entries of their own', async () => {
  const values = [Symbol('x'), Symbol('x'), { of: () => 1 }, { of: () => 1 }]
  const strategies = () => ({
    kind: strategyOf('kind', ({ headers }) => values[Number(headers.n)]),
  })
  const routes = values.map((kind, i) => [{ kind }, String(i)] as const)
  const app = appOf({ strategies, routes }, 'registered before the routes')
  for (const _round of [1, 2])
    for (const n of values.keys()) expect((await ask(app, { n: String(n) })).said).toBe(String(n))
})

describe('the key of a route without constraints', () => {
  it.each([true, false])('is that of its URL, also beside routes with some: %s', async (beside) => {
    const keys: string[] = []
    const stampede = createStampede()
    stampede.on('fill.committed', ({ key }) => void keys.push(key))
    const app = fastify()
    app.register(stampedeCache({ ...CACHE, stampede, negativeTtlMs: 60_000 }))
    app.get('/', async () => 'plain')
    if (beside) app.get('/', { constraints: V1 }, async () => 'one')
    await app.inject('http://a.test:80/')
    await app.inject('http://a.test:80/none')
    expect(keys).toEqual(['GET http://a.test:80/', 'GET http://a.test:80/none'])
  })

  it('keeps a stored 404 of another version apart', async () => {
    const app = fastify()
    app.register(stampedeCache({ ...CACHE, negativeTtlMs: 60_000 }))
    app.get('/', async () => 'plain')
    app.get('/', { constraints: V1 }, async () => 'one')
    const asks: readonly Ask[] = [
      [version('9.x'), 404],
      [{}, 'plain'],
      [version('1.x'), 'one'],
    ]
    for (const [headers, expected] of [...asks, ...asks])
      expect((await ask(app, headers)).said).toBe(expected)
  })
})

describe('a background refresh', () => {
  it('stores nothing if it reaches another route of the URL', async () => {
    const emitWarning = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
    let next = 0
    const clock = new ManualClock()
    const stampede = createStampede({ clock })
    const app = fastify({
      routerOptions: { constraints: { turn: strategyOf('turn', () => next++ % 2) } },
    })
    app.register(stampedeCache({ stampede, ttlMs: 1_000, staleWhileRevalidateMs: 60_000 }))
    for (const turn of [0, 1])
      app.get('/', { constraints: { turn } as never }, async () => `turn ${turn}`)
    expect((await ask(app, {})).body).toBe('turn 0')
    next = 0
    await clock.advance(2_000)
    expect((await ask(app, {})).body).toBe('turn 0')
    await expect.poll(() => stampede.stats().fills.failed).toBe(1)
    next = 0
    expect((await ask(app, {})).body).toBe('turn 0')
    expect(String(emitWarning.mock.calls[0])).toContain('another handler of the URL')
    emitWarning.mockRestore()
  })
})

describe('an app that was created before the import', () => {
  function lateApp(): FastifyInstance {
    unsubscribe('fastify.initialization', watchRoutes)
    const app = fastify()
    subscribe('fastify.initialization', watchRoutes)
    app.register(stampedeCache(CACHE))
    return app
  }

  it('is cached if no route has constraints but a host', async () => {
    const app = lateApp()
    app.get('/', async () => 'plain')
    app.get('/', { constraints: { host: 'a.test' } }, async () => 'a')
    for (const status of ['stored', '; hit']) expect((await ask(app, {})).status).toContain(status)
  })

  it('is not cached if a route has others, and warns', async () => {
    const emitWarning = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
    const app = lateApp()
    app.get('/', { constraints: V1 }, async () => 'one')
    app.get('/', { constraints: V2 }, async () => 'two')
    for (const [headers, expected] of [...VERSIONS, ...VERSIONS])
      expect((await ask(app, headers)).said).toBe(expected)
    const codes = emitWarning.mock.calls.map(([, options]) => Object(options).code)
    expect(codes).toContain('STAMPEDE_LATE_IMPORT')
    emitWarning.mockRestore()
  })
})

describe('a POST with one Idempotency-Key', () => {
  it.each([undefined, () => 'same'])('is another request on another version', async (own) => {
    const rules = { scope: () => 'ann', ...(own && { fingerprint: own }) }
    const app = fastify()
    app.register(idempotency({ stampede: createStampede(), ...rules }))
    for (const constraints of [V1, V2])
      app.post('/', { constraints }, async () => ({ paid: constraints.version }))
    const post = async (value: string) => {
      const headers = { 'idempotency-key': '"k"', ...version(value) }
      const { statusCode, body } = await app.inject({
        method: 'POST',
        url: '/',
        headers,
        payload: { a: 1 },
      })
      return [statusCode, JSON.parse(body).paid]
    }
    expect(await post('1.x')).toEqual([200, '1.2.0'])
    expect(await post('1.2.0')).toEqual([200, '1.2.0'])
    expect(await post('2.x')).toEqual([422, undefined])
  })
})
