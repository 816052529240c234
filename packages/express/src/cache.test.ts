// stampedeCache in Express 4 and 5, driven by a scripted core: the promises of the port, in both.

import { AsyncLocalStorage } from 'node:async_hooks'
import { createRequire } from 'node:module'
import { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import type { OriginEnd, Reply } from '@stampede/core/adapter'
import type { Express, Request, RequestHandler } from 'express'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { fieldOf, rawRequest, serve } from '../../node-http/src/testing/raw-client.ts'
import {
  endOf,
  fill,
  KEEP,
  type ScriptedCore,
  scriptedCache,
  wholeOf,
} from '../../node-http/src/testing/scripted-cache.ts'
import { isRevalidation, stampedeCache } from './index.ts'

type Script = ScriptedCore<Request>['script']

const core = vi.hoisted((): ScriptedCore<Request> => ({ script: () => {} }))
vi.mock('@stampede/core/adapter', async (original) => ({
  ...(await original<object>()),
  createHttpCache: scriptedCache(core),
}))

afterEach(() => {
  core.script = () => {}
})

const require = createRequire(import.meta.url)
const compression: () => RequestHandler = require('compression')
const FILE = fileURLToPath(import.meta.url)
const HIT: Reply = {
  status: 200,
  headers: [
    ['content-type', 'text/plain; charset=utf-8'],
    ['cache-status', 'S; hit'],
  ],
  body: Buffer.from('from the cache'),
}

const VERSIONS: ReadonlyArray<readonly [string, () => Express]> = [
  ['Express 4', require('express4')],
  ['Express 5', require('express')],
]

describe.each(VERSIONS)('stampedeCache on %s', (version, express) => {
  const quiet = (): Express => express().set('env', 'test')

  test('sees the target, host and header fields as the client sent them, at any mount path', async () => {
    const seen: unknown[] = []
    core.script = (exchange) => {
      const { headers, ...view } = exchange.request
      seen.push(view, headers['x-a'], exchange.native.baseUrl)
      return exchange.forward([])
    }
    const app = quiet()
    const inner = quiet()
    inner.use(stampedeCache())
    inner.get('/b', (_req, res) => void res.send('b'))
    app.use('/a', inner)
    await using server = await serve(app)
    await rawRequest(server.port, '/a/b?x=1&x=2', ['X-A: 1', 'X-Forwarded-Host: evil.test'])
    const target = '/a/b?x=1&x=2'
    expect(seen).toEqual([
      expect.objectContaining({ method: 'GET', scheme: 'http', host: 'shop.test:8080', target }),
      '1',
      '/a',
    ])
  })

  test('leaves route parameters available to later handlers', async () => {
    core.script = (exchange) => exchange.forward([])
    const key = (req: Request<{ id: string }>) => req.params.id
    const app = quiet().get('/:id', stampedeCache({ key }), (req, res) => {
      const id: string = req.params.id
      res.send(id)
    })
    await using server = await serve(app)
    expect((await rawRequest(server.port, '/5')).body).toBe('5')
  })

  test('takes the scheme and host from proxy headers only if Express trusts the proxy', async () => {
    const hosts: string[] = []
    core.script = (exchange) => {
      hosts.push(`${exchange.request.scheme}://${exchange.request.host}`)
      return exchange.forward([])
    }
    const app = quiet().set('trust proxy', 'loopback').use(stampedeCache())
    await using server = await serve(app)
    const fields = ['X-Forwarded-Host: public.test:444, inner', 'X-Forwarded-Proto: https']
    await rawRequest(server.port, '/', fields)
    app.set('trust proxy', '10.0.0.1')
    await rawRequest(server.port, '/', fields)
    expect(hosts).toEqual(['https://public.test:444', 'http://shop.test:8080'])
  })

  test('does not capture a response whose handler destroys it right after its end', async () => {
    const { ends } = fill(core)
    const app = quiet().use(stampedeCache())
    app.get('/', (_req, res) => {
      res.send('Error: no stock')
      res.destroy(new Error('no stock'))
    })
    await using server = await serve(app)
    await rawRequest(server.port)
    expect(await ends[0]).toEqual({ type: 'not-captured', reason: 'incomplete' })
  })

  test('runs the handler if the stored response cannot be sent', async () => {
    core.script = (exchange) => exchange.send({ ...HIT, headers: [['x-a', 'a\r\nb: c']] })
    const app = quiet().use(stampedeCache(), (_req, res) => void res.send('from the app'))
    await using server = await serve(app)
    expect((await rawRequest(server.port)).body).toBe('from the app')
  })

  test.each([
    ['res.send', ((_req, res) => void res.send('x')) as RequestHandler],
    [
      'res.writeHead',
      ((_req, res) => void res.writeHead(200, ['X-A', '1', 'X-A', '2']).end('x')) as RequestHandler,
    ],
  ])('adds Cache-Status to a bypassed response sent by %s', async (_, handler) => {
    core.script = (exchange) => exchange.forward([['cache-status', 'S; fwd=bypass']])
    const app = quiet().disable('x-powered-by').use(stampedeCache(), handler)
    await using server = await serve(app)
    const response = await rawRequest(server.port)
    expect(fieldOf(response, 'cache-status')).toEqual(['S; fwd=bypass'])
    if (_ === 'res.writeHead') expect(fieldOf(response, 'x-a')).toEqual(['1', '2'])
  })

  const HANDLERS: ReadonlyArray<readonly [string, RequestHandler]> = [
    ['res.send', (_req, res) => void res.send('hello')],
    ['res.json', (_req, res) => void res.json({ a: 1 })],
    ['a piped stream', (_req, res) => void Readable.from(['a', 'b']).pipe(res)],
    ['res.sendFile', (_req, res) => void res.sendFile(FILE)],
    ['res.redirect', (_req, res) => void res.redirect('/x')],
    [
      'an async handler',
      async (_req, res) => void res.type('html').send(await Promise.resolve('<p>')),
    ],
  ]

  test.each(HANDLERS)(
    'captures the uncompressed response of %s if compression is mounted before the cache',
    async (_, handler) => {
      const { ends } = fill(core)
      const app = quiet().use(compression(), stampedeCache()).get('/', handler)
      await using server = await serve(app)
      const response = await fetch(`http://127.0.0.1:${server.port}/`, { redirect: 'manual' })
      const end = await ends[0]
      expect(wholeOf(end).text).toBe(await response.text())
      expect(JSON.stringify(end)).not.toContain('content-encoding')
    },
  )

  test('adds no-transform to a partial response, so that compression does not encode it', async () => {
    const reply: Reply = {
      status: 206,
      headers: [
        ['content-type', 'text/plain'],
        ['content-range', 'bytes 0-4999/10000'],
      ],
      body: Buffer.from('x'.repeat(5_000)),
    }
    const app = quiet().use(compression())
    app.get('/outer', (_req, res, next) => next(void res.set('Cache-Control', 'max-age=5')))
    await using server = await serve(app.use(stampedeCache()))
    const get = async (path: string, part: boolean) => {
      core.script = (exchange) => exchange.send(part ? { ...reply, part } : reply)
      return rawRequest(server.port, path, ['Accept-Encoding: gzip'])
    }
    expect(fieldOf(await get('/', false), 'content-encoding')).toEqual(['gzip'])
    const cut = await get('/', true)
    expect(fieldOf(cut, 'content-encoding')).toEqual([])
    expect(fieldOf(cut, 'cache-control')).toEqual(['no-transform'])
    expect(cut.body).toHaveLength(5_000)
    const outer = await get('/outer', true)
    expect(fieldOf(outer, 'cache-control')).toEqual(['max-age=5, no-transform'])
  })

  test('does not store X-Powered-By or fields that outer middlewares set', async () => {
    const { ends } = fill(core)
    const app = quiet().use((_req, res, next) => next(void res.set('X-Request-Id', '7')))
    app.use(stampedeCache()).get('/', (_req, res) => void res.send('x'))
    await using server = await serve(app)
    await rawRequest(server.port)
    const end = await ends[0]
    const names = end?.type === 'complete' ? end.head.headers.map(([name]) => name) : []
    expect(names).not.toContain('x-powered-by')
    expect(names).not.toContain('x-request-id')
  })

  test('captures the 500 response that Express sends for an error of the handler', async () => {
    const { ends } = fill(core)
    const app = quiet().use(stampedeCache())
    app.get('/', (_req, _res, next) => next(new Error('broken')))
    await using server = await serve(app)
    expect((await rawRequest(server.port)).head[0]).toContain('500')
    expect(await ends[0]).toMatchObject({ type: 'complete', head: { status: 500 } })
  })

  test('sends the stored response in place of an error of the handler', async () => {
    fill(core, { ...KEEP, onHead: () => ({ action: 'replace', reply: HIT }) })
    const app = quiet().use(stampedeCache())
    app.get('/', (_req, _res, next) => next(new Error('broken')))
    await using server = await serve(app)
    const response = await rawRequest(server.port)
    expect(response.head[0]).toContain('200')
    expect(response.body).toBe('from the cache')
    expect(fieldOf(response, 'content-security-policy')).toEqual([])
  })

  test.each([
    ['an unknown path', '/unknown', 404],
    ["next('route')", '/skipped', 203],
  ])('captures the status of the response that Express sends for %s', async (_, path, status) => {
    const { ends } = fill(core)
    const app = quiet()
    app.use(stampedeCache())
    app.get('/skipped', (_req, _res, next) => next('route'))
    app.get('/skipped', (_req, res) => void res.status(203).send('other'))
    await using server = await serve(app)
    expect((await rawRequest(server.port, path)).head[0]).toContain(String(status))
    expect(await ends[0]).toMatchObject({ type: 'complete', head: { status } })
  })

  test.each([
    [
      'throws',
      () => {
        throw new Error('core')
      },
    ],
    [
      'returns a rejected promise',
      async () => {
        throw new Error('core')
      },
    ],
  ] as Array<[string, Script]>)(
    'passes an error of the cache itself to Express if the cache %s',
    async (_, script) => {
      core.script = script
      const app = quiet().use(stampedeCache())
      app.use(
        ((error, _req, res, _next) =>
          void res.status(418).send(error.message)) as import('express').ErrorRequestHandler,
      )
      await using server = await serve(app)
      const response = await rawRequest(server.port)
      expect(response.head[0]).toContain('418')
      expect(response.body).toBe('core')
    },
  )

  test('removes Stampede-Cache-Control from hits, bypassed responses and errors', async () => {
    const app = quiet()
    app.use((_req, res, next) => {
      res.setHeader('Stampede-Cache-Control', 'max-age=1')
      next()
    })
    app.use(stampedeCache(), (req, res) => {
      res.setHeader('Stampede-Cache-Control', 'max-age=2')
      if (req.path === '/error') throw new Error('no')
      res.send('x')
    })
    await using server = await serve(app)
    const scripts: Script[] = [
      (exchange) => exchange.send(HIT),
      (exchange) => exchange.forward([]),
      (exchange) =>
        endOf(exchange, 'runOrigin', {
          ...KEEP,
          onHead: () => ({ action: 'replace', reply: HIT }),
        }).then(() => {}),
    ]
    for (const script of scripts) {
      core.script = script
      for (const path of ['/', '/error'])
        expect(fieldOf(await rawRequest(server.port, path), 'stampede-cache-control')).toEqual([])
    }
  })

  describe('a background refresh', () => {
    /** Sends HIT for each request, and runs the app again in the background. */
    function refresh(cache = ''): { ends: Array<Promise<OriginEnd>> } {
      const ends: Array<Promise<OriginEnd>> = []
      core.script = (exchange, name) => {
        if (name !== cache) return exchange.forward([])
        exchange.send(HIT)
        ends.push(endOf(exchange, 'redispatch'))
      }
      return { ends }
    }

    test('runs all middlewares and the handler again with the URL and address of the client', async () => {
      const { ends } = refresh()
      const passed: unknown[] = []
      const app = quiet().set('trust proxy', true)
      app.use((req, _res, next) => {
        passed.push([isRevalidation(req), req.method, req.originalUrl, req.ip])
        next()
      })
      const router = quiet()
      router.use(stampedeCache())
      router.get('/b', (req, res) => void res.send(`fresh ${req.get('x-a')} ${req.fresh}`))
      app.use('/a', router)
      await using server = await serve(app)
      const fields = ['X-A: 1', 'If-None-Match: "1"', 'X-Forwarded-For: 1.2.3.4']
      expect((await rawRequest(server.port, '/a/b?x', fields)).body).toBe('from the cache')
      expect(wholeOf(await ends[0]).text).toBe('fresh 1 false')
      expect(passed).toEqual([
        [false, 'GET', '/a/b?x', '1.2.3.4'],
        [true, 'GET', '/a/b?x', '1.2.3.4'],
      ])
    })

    test('passes through an outer cache to the inner cache that started the refresh', async () => {
      const { ends } = refresh('inner')
      const app = quiet().use(stampedeCache({ cacheStatus: 'outer' }))
      app.get('/', stampedeCache({ cacheStatus: 'inner' }), (_req, res) => void res.send('fresh'))
      await using server = await serve(app)
      await rawRequest(server.port)
      expect(wholeOf(await ends[0]).text).toBe('fresh')
    })

    test('reaches the handler if the same cache is mounted twice', async () => {
      const { ends } = refresh()
      const cache = stampedeCache()
      const app = quiet().get('/', cache, cache, (_req, res) => void res.send('fresh'))
      await using server = await serve(app)
      await rawRequest(server.port)
      expect(wholeOf(await ends[0]).text).toBe('fresh')
    })

    test('fails if a middleware responds before the request reaches the cache', async () => {
      const { ends } = refresh()
      let open = true
      const app = quiet().use((_req, res, next) => (open ? next() : void res.sendStatus(401)))
      app.get('/', stampedeCache(), (_req, res) => void res.send('fresh'))
      core.script = (exchange) => {
        exchange.send(HIT)
        open = false
        ends.push(endOf(exchange, 'redispatch'))
      }
      await using server = await serve(app)
      await rawRequest(server.port)
      expect(await ends[0]).toMatchObject({ type: 'failed', status: 401 })
    })

    test("keeps the AsyncLocalStorage context of the client's request", async () => {
      const { ends } = refresh()
      const context = new AsyncLocalStorage<string>()
      const app = quiet().use((req, _res, next) =>
        isRevalidation(req) ? next() : context.run('the client', () => next()),
      )
      app.use(stampedeCache()).get('/', (_req, res) => void res.send(`${context.getStore()}`))
      await using server = await serve(app)
      await rawRequest(server.port)
      expect(wholeOf(await ends[0]).text).toBe('the client')
    })

    test('captures an uncompressed stream if compression is mounted before the cache', async () => {
      const { ends } = refresh()
      const app = quiet().use(compression(), stampedeCache())
      app.get('/', (_req, res) => void Readable.from(['x'.repeat(3000), 'y']).pipe(res.type('txt')))
      await using server = await serve(app)
      await rawRequest(server.port, '/', ['Accept-Encoding: gzip'])
      expect(wholeOf(await ends[0]).text).toBe(`${'x'.repeat(3000)}y`)
    })
  })

  test(`returns a middleware with the name stampedeCache (${version})`, () => {
    expect(stampedeCache()).toHaveProperty('name', 'stampedeCache')
    expect(stampedeCache()).toHaveLength(3)
  })
})
