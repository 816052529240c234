// Cases: purges by path, route or tag, and the entries that they leave.
import type { PurgeTarget } from '@stampede/core'
import { RecordStore } from '@stampede/core/testing'
import { expect, it, vi } from 'vitest'
import { createGate } from '../gate.ts'
import { ask } from '../requests.ts'
import type { CacheAdapter, RunningApp } from './adapter.ts'
import { type Bench, setUp, statusOf, whole } from './bench.ts'

/** A request, as its path or with fields. */
type Asking = string | { readonly path: string; readonly headers: Record<string, string> }

export function purgeCases(adapter: CacheAdapter): void {
  const send = (app: RunningApp, asking: Asking, method = 'GET') => {
    const { path, headers } = typeof asking === 'string' ? { path: asking, headers: {} } : asking
    return ask(app.url + path, { method, headers })
  }
  const isHit = async (app: RunningApp, asking: Asking) =>
    statusOf(await send(app, asking)).startsWith('Stampede; hit')

  /** Stores a response for each request, purges, and returns the requests that are still hits. */
  async function leftBy(
    { stampede }: Bench,
    app: RunningApp,
    askings: readonly Asking[],
    target: PurgeTarget,
  ): Promise<readonly Asking[]> {
    for (const asking of askings) await send(app, asking)
    for (const asking of askings) expect(await isHit(app, asking), `${asking}`).toBe(true)
    await stampede.purge(target)
    const left: Asking[] = []
    for (const asking of askings) if (await isHit(app, asking)) left.push(asking)
    return left
  }

  const at = (path: string, headers: Record<string, string>): Asking => ({ path, headers })
  const VARIED = ['de', 'fr'].map((lang) => at('/a', { 'x-lang': lang }))

  it.each<[string, object, readonly Asking[]]>([
    ['each query', {}, ['/a', '/a?x=1', '/a?x=2&y']],
    ['each spelling of it', {}, ['/a', '/A', '/a/', '/%61']],
    ['each Vary selection', {}, VARIED],
    ['each value of the vary option', { vary: ['x-lang'] }, VARIED],
    [
      'each caller',
      {
        identity: (native: { headers: Record<string, string> }) => String(native.headers['x-lang']),
      },
      VARIED,
    ],
    ['each caller by cookie', { cookies: { key: ['id'] } }, [at('/a', { cookie: 'id=1' }), '/a']],
    ['each route with a key of its own', { key: () => 'page' }, ['/a']],
    ['every host', {}, [at('/a', { host: 'one.test' }), at('/a', { host: 'two.test:80' })]],
  ])('remove a path with %s, and no other path', async (_, options, askings) => {
    const bench = setUp(adapter, () => ({ headers: { vary: 'X-Lang' } }))
    await using app = await bench.start(options)
    const others = 'key' in options ? [] : ['/ab', '/a/b', '/', '/b?path=/a']
    for (const target of [{ path: '/a' }, { path: '/A/' }, { route: '/a' }, { route: '/:id' }]) {
      const left = await leftBy(bench, app, [...askings, ...others], target)
      const isLeft = (path: string) => target.route !== '/:id' || ['/a/b', '/'].includes(path)
      expect(left, JSON.stringify(target)).toEqual(others.filter(isLeft))
    }
  })

  it('remove a path only on the host that the purge names', async () => {
    const bench = setUp(adapter)
    await using app = await bench.start()
    const hosts = ['one.test', 'ONE.test:8080', 'two.test'].map((host) => at('/a', { host }))
    const left = (host: string) => leftBy(bench, app, hosts, { path: '/a', host })
    expect(await left('ONE.test')).toEqual(hosts.slice(1))
    expect(await left('one.test:8080')).toEqual([hosts[0], hosts[2]])
    expect(await left('three.test')).toEqual(hosts)
  })

  it('remove the pages of a route pattern', async () => {
    const bench = setUp(adapter)
    await using app = await bench.start()
    const paths = ['/products/1', '/products/1/reviews', '/products', '/files/a/b?c=1']
    const left = (route: string) => leftBy(bench, app, paths, { route })
    expect(await left('/products/:id')).toEqual(paths.filter((path) => path !== '/products/1'))
    expect(await left('/files/*rest')).toEqual(paths.slice(0, 3))
    expect(await left('/*')).toEqual([])
  })

  it('make the next HEAD of a purged page a miss', async () => {
    const { runs, stampede, start } = setUp(adapter)
    await using app = await start()
    await ask(`${app.url}/a`)
    const head = async () => statusOf(await send(app, '/a', 'HEAD'))
    expect(await head()).toBe('Stampede; hit; ttl=10')
    await stampede.purge({ path: '/a' })
    expect(await head()).toBe('Stampede; fwd=uri-miss')
    expect(runs.count).toBe(2)
  })

  it('remove all pages and all getOrSet values if the target is everything', async () => {
    const bench = setUp(adapter)
    await using app = await bench.start({ vary: ['x-lang'] })
    const value = () =>
      bench.stampede.getOrSet('a', () => ({ run: bench.runs.count }), { ttlMs: 1_000 })
    const before = await value()
    expect(await leftBy(bench, app, ['/a', '/b?c', ...VARIED], { all: true })).toEqual([])
    expect(await value()).not.toEqual(before)
  })

  it('remove an entry by the tags that the tags option gives it', async () => {
    const bench = setUp(adapter, ({ path }, _run, res) => {
      res.setHeader('x-about', path.slice(1))
      return {}
    })
    type Res = { getHeader?(name: string): unknown; get?(name: string): unknown }
    const asked: string[] = []
    const tags = (_req: unknown, res: Res) => {
      asked.push(String((res.getHeader ?? res.get)?.call(res, 'x-about')))
      return ['page', ...asked.slice(-1)]
    }
    await using app = await bench.start({ tags, staleWhileRevalidateMs: 60_000 })
    expect(await leftBy(bench, app, ['/a', '/b'], { tag: 'a' })).toEqual(['/b'])
    expect(await leftBy(bench, app, ['/a', '/b'], { tag: 'page' })).toEqual([])
    expect(asked).toEqual(['a', 'b', 'a', 'a', 'b'])
    await bench.clock.advance(11_000)
    await ask(`${app.url}/a`)
    await bench.happened('fill.committed', 6)
    expect(asked.slice(5)).toEqual(['a'])
    expect(await leftBy(bench, app, ['/a'], { tag: 'a' })).toEqual([])
  })

  it('remove an entry by the tags in Surrogate-Key and Cache-Tag of its response', async () => {
    const lines = { 'Surrogate-Key': ['a  list', 'b'], 'Cache-Tag': 'c, two words,', 'x-own': '1' }
    const bench = setUp(adapter, () => ({ headers: { ...lines, 'Cache-Groups': '"a", "g"' } }))
    await using app = await bench.start()
    const shown = async (method: string, path = '/a') => {
      const answer = await whole(app.url + path, { method })
      return Object.keys(answer.lines).filter((name) => /surrogate|cache-|own/.test(name))
    }
    for (const method of ['GET', 'GET', 'HEAD', 'POST', 'GET'])
      expect((await shown(method)).sort(), method).toEqual([
        'cache-groups',
        'cache-status',
        'x-own',
      ])
    for (const tag of ['a', 'list', 'b', 'c', 'two words'])
      expect(await leftBy(bench, app, ['/a'], { tag }), tag).toEqual([])
    for (const tag of ['g', 'a list', 'two', ''].filter(Boolean))
      expect(await leftBy(bench, app, ['/a'], { tag }), tag).toEqual(['/a'])
  })

  it('use Surrogate-Key and Cache-Tag, which are removed from every response', async () => {
    const { start } = setUp(
      adapter,
      ({ path }, _run, res) => {
        if (path === '/plain') return { headers: { 'surrogate-key': 'a', 'cache-tag': 'a' } }
        res.writeHead(200, { 'Surrogate-Key': 'a', 'CACHE-TAG': 'a', 'x-own': '1' }).end('own')
        return undefined
      },
      {
        outside: (res, next) => {
          res.setHeader('Cache-Tag', 'outer')
          return next()
        },
      },
    )
    await using app = await start()
    for (const path of ['/plain', '/own'])
      for (const _ of [1, 2]) {
        const { lines } = await whole(app.url + path)
        expect(Object.keys(lines)).not.toContain('surrogate-key')
        expect(Object.keys(lines)).not.toContain('cache-tag')
      }
  })

  it.each(['first', 'second', 'option'])(
    'remove a page by its %s tag, also after a refresh that got a 304',
    async (tag) => {
      const bench = setUp(adapter, ({ headers }) =>
        headers['if-none-match'] === undefined
          ? { headers: { etag: '"1"', 'surrogate-key': 'first' } }
          : { status: 304, headers: { etag: '"1"', 'surrogate-key': 'second' } },
      )
      await using app = await bench.start({ tags: ['option'], staleWhileRevalidateMs: 60_000 })
      await ask(`${app.url}/a`)
      await bench.stampede.purge({ path: '/a' }, { soft: true })
      await ask(`${app.url}/a`)
      await bench.happened('fill.committed', 2)
      expect(await leftBy(bench, app, ['/a'], { tag: 'third' })).toEqual(['/a'])
      expect(await leftBy(bench, app, ['/a'], { tag })).toEqual([])
      expect(bench.seen.map(({ headers }) => headers['if-none-match'])).toEqual([
        undefined,
        '"1"',
        undefined,
      ])
    },
  )

  it('cannot miss a page without its tags, because no page is stored if the tags callback fails', async () => {
    const { runs, start } = setUp(adapter)
    const tags = () => {
      throw new Error('no product')
    }
    const warned = vi.spyOn(process, 'emitWarning').mockReturnValue()
    await using app = await start({ tags })
    for (const run of [1, 2]) {
      const answer = await ask(`${app.url}/a`)
      expect([answer.status, answer.body, statusOf(answer)]).toEqual([
        200,
        `run ${run}`,
        'Stampede; fwd=uri-miss; fwd-status=200; detail=tags',
      ])
    }
    expect([runs.count, warned.mock.calls.length]).toEqual([2, 1])
    warned.mockRestore()
  })

  it.each(['OPTIONS', 'TRACE', 'PROPFIND', 'QUERY', 'REPORT', 'SEARCH'])(
    'do not follow a request with the safe method %s, which is never served from a GET',
    async (method) => {
      const { start } = setUp(adapter)
      await using app = await start()
      // Nothing is stored yet. Older versions of Node do not know QUERY, and respond 400.
      expect(statusOf(await send(app, '/a', method))).not.toMatch(/hit|stored/)
      expect(await isHit(app, '/a')).toBe(false)
      expect(statusOf(await send(app, '/a', method))).not.toMatch(/hit|stored/)
      expect(await isHit(app, '/a')).toBe(true)
    },
  )

  it.each(['POST', 'PUT', 'PATCH', 'DELETE'])(
    'follow a request with the method %s',
    async (method) => {
      const { start } = setUp(adapter)
      await using app = await start()
      await send(app, '/a')
      expect(await isHit(app, '/a')).toBe(true)
      await send(app, '/a', method)
      expect(await isHit(app, '/a')).toBe(false)
    },
  )

  it('remove the cache groups that the response to a POST names, and not those that a GET names', async () => {
    const bench = setUp(adapter, (_seen, _run, res) => ({
      headers: {
        'cache-groups': '"list"',
        ...(res.req.method !== 'HEAD' && { 'cache-group-invalidation': '"list"' }),
      },
    }))
    await using app = await bench.start({ tags: ['t'] })
    await ask(`${app.url}/list`)
    await ask(`${app.url}/other`)
    expect([await isHit(app, '/list'), await isHit(app, '/other')]).toEqual([true, true])
    const answer = await send(app, '/elsewhere', 'POST')
    expect(answer.headers['cache-group-invalidation']).toBe('"list"')
    expect([await isHit(app, '/list'), await isHit(app, '/other')]).toEqual([false, false])
  })

  it('remove the tags that `invalidateOn.tags` returns for a POST', async () => {
    const bench = setUp(adapter, ({ headers }, _run, res) => {
      res.setHeader('x-about', String(headers['x-about']))
      return { status: Number(headers['x-status'] ?? 200) }
    })
    type Res = { getHeader?(name: string): unknown; get?(name: string): unknown }
    const tags = (_req: unknown, res: Res) => [
      String((res.getHeader ?? res.get)?.call(res, 'x-about')),
    ]
    await using app = await bench.start({ tags, invalidateOn: { tags } })
    const a = at('/list', { 'x-about': 'a' })
    await send(app, a)
    await send(app, at('/x', { 'x-about': 'a', 'x-status': '409' }), 'POST')
    await send(app, at('/x', { 'x-about': 'b' }), 'POST')
    expect(await isHit(app, a)).toBe(true)
    await send(app, at('/x', { 'x-about': 'a' }), 'POST')
    expect(await isHit(app, a)).toBe(false)
  })

  const OF_CALLER = {
    identity: (native: { headers: Record<string, string> }) => String(native.headers['x-lang']),
  }

  it.each<[string, object, readonly Asking[], readonly Asking[]]>([
    [
      'the path and each path above it',
      { invalidateOn: 'parents' },
      ['/', '/Items/', '/items?page=2', '/items/7', '/items/7?full', '/items/%37'],
      ['/items/7/parts', '/items/8', '/other', '/item'],
    ],
    [
      'everything',
      { invalidateOn: 'all' },
      ['/', '/items?page=2', '/items/7', '/items/7/parts', '/other'],
      [],
    ],
    [
      'the path and each path above it, of all callers',
      { invalidateOn: 'parents', ...OF_CALLER },
      ['de', 'fr'].map((lang) => at('/items', { 'x-lang': lang })),
      [at('/other', { 'x-lang': 'de' })],
    ],
    [
      'everything, of all callers',
      { invalidateOn: 'all', ...OF_CALLER },
      ['de', 'fr'].flatMap((lang) => [
        at('/items', { 'x-lang': lang }),
        at('/other', { 'x-lang': lang }),
      ]),
      [],
    ],
    [
      'everything with a key of its own',
      { invalidateOn: 'all', key: () => 'page', cacheStatus: 'Stampede' },
      ['/a'],
      [],
    ],
  ])(
    'remove %s after POST, PUT, PATCH and DELETE, and nothing after a failed or safe request',
    async (_, options, purged, kept) => {
      const { start } = setUp(adapter, ({ headers }) => ({
        status: Number(headers['x-status'] ?? 200),
      }))
      await using app = await start(options)
      const hits = async (of: readonly Asking[]) => {
        const all: boolean[] = []
        for (const asking of of) all.push(await isHit(app, asking))
        return all
      }
      const written = (status: string) => at('/items/7?x', { 'x-status': status })
      for (const asking of [...purged, ...kept]) await send(app, asking)
      for (const method of ['HEAD', 'GET', 'OPTIONS']) await send(app, written('200'), method)
      for (const status of ['400', '500']) await send(app, written(status), 'POST')
      expect(await hits([...purged, ...kept])).not.toContain(false)
      for (const method of ['POST', 'PUT', 'PATCH', 'DELETE']) {
        await send(app, written('201'), method)
        expect(await hits(purged), method).not.toContain(true)
        expect(await hits(kept), method).not.toContain(false)
      }
    },
  )

  it('remove what caches with `invalidateOn: all` and the same name stored, and nothing else', async () => {
    const bench = setUp(adapter)
    const all = { invalidateOn: 'all' }
    await using app = await bench.start({ ...all, cacheStatus: 'shop' })
    await using same = await bench.start({ ...all, cacheStatus: 'shop' })
    await using other = await bench.start({ ...all, cacheStatus: 'admin' })
    await using plain = await bench.start({ cacheStatus: 'shop', tags: ['shop'] })
    const hits = async () => {
      const answers = [same, other, plain].map((each) => ask(`${each.url}/list`))
      return (await Promise.all(answers)).map((each) => statusOf(each).includes('; hit'))
    }
    await hits()
    expect(await hits()).toEqual([true, true, true])
    await send(app, '/items', 'POST')
    expect(await hits()).toEqual([false, true, true])
  })

  it('keep a stale page, which is refreshed once, if the purge is soft', async () => {
    const { clock, happened, stampede, start } = setUp(adapter)
    await using app = await start({ tags: ['t'], staleWhileRevalidateMs: 5_000 })
    await ask(`${app.url}/a`)
    await clock.advance(1_000)
    await stampede.purge({ tag: 't' }, { soft: true })
    await clock.advance(2_000)
    const stale = await ask(`${app.url}/a`)
    expect([stale.body, statusOf(stale)]).toEqual(['run 1', 'Stampede; hit; ttl=-2'])
    await happened('fill.committed', 2)
    const fresh = await ask(`${app.url}/a`)
    expect([fresh.body, statusOf(fresh)]).toEqual(['run 2', 'Stampede; hit; ttl=10'])
    // Both windows start at the purge, not at the end of the original lifetime.
    await stampede.purge({ path: '/a' }, { soft: true })
    await clock.advance(5_001)
    expect((await ask(`${app.url}/a`)).body).toBe('run 3')
  })

  const DURING: ReadonlyArray<[string, PurgeTarget, object]> = [
    ['tag', { tag: 't' }, { tags: ['t'] }],
    ['path', { path: '/a' }, {}],
    ['path and host', { path: '/a', host: 'shop.test' }, {}],
    ['route', { route: '/:id' }, {}],
    ['key', { key: 'page' }, { key: () => 'page' }],
    ['everything', { all: true }, {}],
  ]
  const WINDOWS = [{ staleWhileRevalidateMs: 5_000 }, { staleIfErrorMs: 5_000 }, {}]

  it.each(
    DURING.flatMap(([by, target, own]) =>
      WINDOWS.map((window) => [by, JSON.stringify(window), target, { ...own, ...window }] as const),
    ),
  )(
    'lead to one new run if a soft purge by %s comes while the handler runs: %s',
    async (...row) => {
      const [, , target, options] = row
      const gate = createGate()
      const bench = setUp(adapter, async (_seen, run) => {
        if (run === 1) await gate.opened
        return {}
      })
      const { arrivals, clock, events, runs, stampede } = bench
      await using app = await bench.start(options)
      const page = at('/a', { host: 'shop.test' })
      const before = [send(app, page)]
      await runs.reached(1)
      before.push(send(app, page))
      await arrivals.reached(2)
      await clock.advance(1_000)
      await stampede.purge(target, { soft: true })
      await clock.advance(1_000)
      const after = [send(app, page), send(app, page)]
      await arrivals.reached(4)
      gate.open()
      await Promise.all(before)
      for (const { body, ...answer } of await Promise.all(after)) {
        const status = statusOf(answer)
        if (body === 'run 1') expect(status).toMatch(/ttl=-1\b/)
        else expect([body, status]).toEqual(['run 2', expect.stringMatching(/fwd=|ttl=10/)])
      }
      await vi.waitFor(async () => {
        const last = await send(app, page)
        expect([last.body, statusOf(last)]).toEqual(['run 2', 'Stampede; hit; ttl=10'])
      }, 20_000)
      expect([runs.count, events.filter(({ type }) => type === 'fill.failed')]).toEqual([2, []])
    },
  )

  it('keep a page only in place of errors if the purge is soft and there is no stale window', async () => {
    const { stampede, start } = setUp(adapter, (_seen, run) => (run === 2 ? { status: 503 } : {}))
    await using app = await start({ tags: ['t'], staleIfErrorMs: 5_000 })
    await ask(`${app.url}/a`)
    await stampede.purge({ tag: 't' }, { soft: true })
    const covered = await ask(`${app.url}/a`)
    expect([covered.status, covered.body]).toEqual([200, 'run 1'])
    expect(statusOf(covered)).toContain('stale-if-error/503')
    await stampede.purge({ tag: 't' })
    expect((await ask(`${app.url}/a`)).body).toBe('run 3')
  })

  it('prevent a page from replacing an error if the purge comes while the handler runs', async () => {
    const gate = createGate()
    const { clock, runs, stampede, start } = setUp(adapter, async (_seen, run) => {
      if (run === 1) return {}
      await gate.opened
      return { status: 500 }
    })
    await using app = await start({ tags: ['t'], staleIfErrorMs: 60_000 })
    await ask(`${app.url}/a`)
    await clock.advance(11_000)
    const asked = ask(`${app.url}/a`)
    await runs.reached(2)
    await stampede.purge({ tag: 't' })
    gate.open()
    expect((await asked).status).toBe(500)
  })

  it.each<[string, PurgeTarget]>([
    ['tag', { tag: 't' }],
    ['path', { path: '/a' }],
    ['route', { route: '/:id' }],
    ['everything', { all: true }],
  ])('refuse the response of a handler that started before a purge by %s', async (_, target) => {
    const gate = createGate()
    const { arrivals, runs, stampede, start } = setUp(adapter, async (_seen, run) => {
      if (run === 1) await gate.opened
      return {}
    })
    await using app = await start({ tags: ['t'] })
    const before = ask(`${app.url}/a`)
    await runs.reached(1)
    await stampede.purge(target)
    const after = ask(`${app.url}/a`)
    await arrivals.reached(2)
    gate.open()
    expect([(await before).body, (await after).body]).toEqual(['run 1', 'run 2'])
    expect((await ask(`${app.url}/a`)).body).toBe('run 2')
  })

  it.each([
    ['in the store alone', { l1: { maxBytes: 0 }, store: new RecordStore() }],
    ['in memory alone', { store: new RecordStore(1_024) }],
  ])('remove pages by tag, also 404 pages, if the pages are stored %s', async (_, options) => {
    const bench = setUp(
      adapter,
      ({ path }) => ({ status: path === '/none' ? 404 : 200, body: 'x'.repeat(2_000) }),
      options,
    )
    await using app = await bench.start({ tags: ['t'], negativeTtlMs: 5_000 })
    expect(await leftBy(bench, app, ['/a', '/none'], { tag: 'other' })).toEqual(['/a', '/none'])
    expect(await leftBy(bench, app, ['/a', '/none'], { tag: 't' })).toEqual([])
  })
}
