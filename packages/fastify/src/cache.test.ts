// Fastify alone in the journey of a cached request: mounting, fields of hooks, proxies, inject. The
// rest is in the contract (test/contracts/cache-adapters.versions.test.ts).

import { Agent, get } from 'node:http'
import { Readable } from 'node:stream'
import { createStampede } from '@stampede/core'
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import { describe, expect, it, vi } from 'vitest'
import { ManualClock } from '../../core/src/testing/index.ts'
import { stampedeCache } from './index.ts'

const statusOf = (response: { headers: Record<string, unknown> }): string =>
  String(response.headers['cache-status'])

/** An app with a counter of the runs of its handlers. */
function counted(options?: object) {
  const app = fastify(options)
  let runs = 0
  return { app, handler: async () => `run ${++runs}` }
}

/** The bodies of two requests. */
async function twice(app: FastifyInstance, url = '/a'): Promise<string[]> {
  return [(await app.inject(url)).body, (await app.inject(url)).body]
}

describe('stampedeCache on Fastify', () => {
  it.each(['before', 'after'])(
    'caches the routes of an instance that registers it %s them',
    async (when) => {
      const { app, handler } = counted()
      const declare = () => {
        app.get('/a', handler)
        app.register(async (child) => child.get('/b', handler), { prefix: '/child' })
      }
      if (when === 'after') declare()
      app.register(stampedeCache({ ttlMs: 60_000 }))
      if (when === 'before') declare()
      expect(await twice(app)).toEqual(['run 1', 'run 1'])
      expect(await twice(app, '/child/b')).toEqual(['run 2', 'run 2'])
    },
  )

  it('does not cache routes outside the child instance that registers it', async () => {
    const { app, handler } = counted()
    app.get('/a', handler)
    app.register(async (child) => {
      child.register(stampedeCache({ ttlMs: 60_000 }))
      child.get('/b', handler)
    })
    expect(await twice(app)).toEqual(['run 1', 'run 2'])
    expect(await twice(app, '/b')).toEqual(['run 3', 'run 3'])
  })

  it('caches one route as its hook, and a HEAD for it', async () => {
    const { app, handler } = counted()
    const options = { stampede: createStampede(), ttlMs: 60_000 }
    app.get('/a', { onRequest: stampedeCache(options) }, handler)
    app.get('/b', { preHandler: [stampedeCache(options)] }, handler)
    app.get('/c', handler)
    expect(await twice(app)).toEqual(['run 1', 'run 1'])
    expect(await twice(app, '/b')).toEqual(['run 2', 'run 2'])
    expect(await twice(app, '/c')).toEqual(['run 3', 'run 4'])
    const head = await app.inject({ method: 'HEAD', url: '/a' })
    expect([head.body, head.headers['content-length'], statusOf(head)]).toEqual([
      '',
      '5',
      expect.stringContaining('hit'),
    ])
  })

  it('is a hook for addHook', async () => {
    const { app, handler } = counted()
    app.addHook('onRequest', stampedeCache({ ttlMs: 60_000 })).get('/a', handler)
    expect(await twice(app)).toEqual(['run 1', 'run 1'])
  })

  it('sends fields of earlier hooks with each hit, and stores none of them', async () => {
    const { app, handler } = counted()
    let requests = 0
    app.addHook('onRequest', async (_request, reply) => {
      requests += 1
      reply.headers({ 'x-request-id': `r${requests}`, 'x-removed': 'no', vary: 'Origin' })
    })
    app.register(stampedeCache({ ttlMs: 60_000 }))
    app.get('/a', async (_request, reply) => {
      reply.removeHeader('x-removed')
      return handler()
    })
    const [miss, hit] = [await app.inject('/a'), await app.inject('/a')]
    expect([miss.headers['x-request-id'], hit.headers['x-request-id']]).toEqual(['r1', 'r2'])
    expect([miss.headers['x-removed'], hit.headers.vary]).toEqual([undefined, 'Origin'])
    expect([hit.body, statusOf(hit)]).toEqual(['run 1', expect.stringContaining('hit')])
  })

  describe('with a hook that sets fields for the first request only', () => {
    const FIELDS: Readonly<Record<string, string>> = {
      'x-frame-options': 'DENY',
      'content-security-policy': "default-src 'self'",
      'cache-control': 'max-age=30',
      vary: 'X-Kind',
      etag: '"v1"',
      link: '</style.css>; rel=preload',
      'access-control-allow-origin': '*',
      'x-content-type-options': 'nosniff',
      'content-type': 'text/x-own',
    }
    const HANDLERS: Record<string, (reply: FastifyReply) => unknown> = {
      'reply.header': (reply) => {
        for (const [name, value] of Object.entries(FIELDS)) reply.header(name.toUpperCase(), value)
        return 'page'
      },
      'reply.headers': (reply) => reply.headers(FIELDS).send('page'),
      'a stream': (reply) => reply.headers(FIELDS).send(Readable.from([Buffer.from('page')])),
      'a Response': (reply) => reply.send(new Response('page', { headers: FIELDS })),
    }

    async function missAndHit(handler: (reply: FastifyReply) => unknown) {
      const app = fastify()
      let requests = 0
      app.addHook('onRequest', async (_request, reply) => {
        reply.header('x-request-id', `r${++requests}`)
        if (requests === 1) reply.headers(FIELDS)
      })
      app.register(stampedeCache({ ttlMs: 60_000 }))
      app.get('/a', async (_request, reply) => handler(reply))
      const [miss, hit] = [await app.inject('/a'), await app.inject('/a')]
      expect(statusOf(hit)).toContain('; hit')
      expect([miss, hit].map(({ headers }) => headers['x-request-id'])).toEqual(['r1', 'r2'])
      return { miss: miss.headers, hit: hit.headers }
    }

    it.each(Object.keys(HANDLERS))('stores those that the handler sets by %s', async (way) => {
      const { miss, hit } = await missAndHit(HANDLERS[way] as never)
      expect(miss).toMatchObject(FIELDS)
      expect(hit).toMatchObject(FIELDS)
    })

    it('stores none of them if the handler sets none', async () => {
      const page = () => Readable.from([Buffer.from('page')])
      for (const handler of [() => 'page', (reply: FastifyReply) => reply.send(page())]) {
        const { hit } = await missAndHit(handler)
        for (const [name, value] of Object.entries(FIELDS)) expect(hit[name]).not.toBe(value)
      }
    })
  })

  it('runs onResponse hooks for a hit, and no onSend hook', async () => {
    const { app, handler } = counted()
    const ran: string[] = []
    app.addHook('onSend', async () => void ran.push('onSend'))
    app.addHook('onResponse', async () => void ran.push('onResponse'))
    app.register(stampedeCache({ ttlMs: 60_000 })).get('/a', handler)
    await twice(app)
    await expect.poll(() => ran).toEqual(['onSend', 'onResponse', 'onResponse'])
  })

  it('passes an error of a callback to the error handler', async () => {
    const { app, handler } = counted()
    const key = (): string => {
      throw new Error('no key')
    }
    app.register(stampedeCache({ ttlMs: 60_000, key })).get('/a', handler)
    app.setErrorHandler(({ message }: Error, _request, reply) => reply.code(500).send(message))
    const failed = await app.inject('/a')
    expect([failed.statusCode, failed.body]).toEqual([
      500,
      'stampedeCache.key: the function threw: no key',
    ])
  })

  it('counts requests in stats().routes by the pattern of their route', async () => {
    const stampede = createStampede()
    const { app, handler } = counted()
    app.register(stampedeCache({ stampede, ttlMs: 60_000 }))
    app.register(async (child) => child.get('/:id', handler), { prefix: '/products' })
    for (const url of ['/products/1', '/products/2', '/products/1', '/none']) await app.inject(url)
    expect(stampede.stats().routes).toMatchObject({
      '/products/:id': { hits: 1, misses: 2 },
      '(http)': { misses: 1 },
    })
  })

  it('gives callbacks the request of Fastify', async () => {
    const { app, handler } = counted()
    const key = (request: FastifyRequest): string => (request.params as { id: string }).id
    app.register(stampedeCache({ ttlMs: 60_000, key })).get('/a/:id', handler)
    expect((await app.inject('/a/1?x=1')).body).toBe('run 1')
    expect((await app.inject('/a/1?x=2')).body).toBe('run 1')
    expect((await app.inject('/a/2')).body).toBe('run 2')
  })

  it.each([
    [true, 'hit'],
    ['127.0.0.1', 'hit'],
    ['10.0.0.1', 'connection-auth'],
    [false, 'connection-auth'],
  ])('with trustProxy %s takes a login as that of the client: %s', async (trustProxy, expected) => {
    const { app, handler } = counted({ trustProxy })
    app.register(stampedeCache({ ttlMs: 60_000 }))
    app.get('/a', handler)
    const url = await app.listen({ host: '127.0.0.1', port: 0 })
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    const ask = (headers: Record<string, string>) =>
      new Promise<string>((resolve, reject) => {
        get(`${url}/a`, { agent, headers }, (response) => {
          response.resume().on('end', () => resolve(statusOf(response)))
        }).on('error', reject)
      })
    await ask({ authorization: 'Negotiate x', 'x-real-ip': '192.0.2.1' })
    await ask({ 'x-real-ip': '192.0.2.2' })
    expect(await ask({ 'x-real-ip': '192.0.2.3' })).toContain(expected)
    expect(await ask({ 'x-real-ip': '192.0.2.1' })).toContain('connection-auth')
    agent.destroy()
    await app.close()
  })

  it('has the forwarded host in the key if the app trusts the proxy', async () => {
    for (const trustProxy of [true, false]) {
      const stampede = createStampede()
      const { app, handler } = counted({ trustProxy })
      app.register(stampedeCache({ stampede, ttlMs: 60_000 })).get('/a', handler)
      await app.inject({ url: '/a', headers: { 'x-forwarded-host': 'shop.example' } })
      await stampede.purge({ path: '/a', host: 'shop.example' })
      const again = await app.inject({ url: '/a', headers: { 'x-forwarded-host': 'shop.example' } })
      expect(again.body).toBe(trustProxy ? 'run 2' : 'run 1')
    }
  })

  it('refreshes in the background through rewriteUrl and all hooks', async () => {
    const clock = new ManualClock()
    const stampede = createStampede({ clock })
    const seen: string[] = []
    const { app, handler } = counted({
      rewriteUrl: ({ url }: { url: string }) => url.replace('/old', '/a'),
    })
    app.addHook('onRequest', async ({ url }) => void seen.push(url))
    app.register(stampedeCache({ stampede, ttlMs: 1_000, staleWhileRevalidateMs: 60_000 }))
    app.get('/a', handler)
    await app.inject('/old')
    await clock.advance(2_000)
    expect((await app.inject('/old')).body).toBe('run 1')
    await expect.poll(() => stampede.stats().fills.committed).toBe(2)
    expect((await app.inject('/old')).body).toBe('run 2')
    expect(seen).toEqual(['/a', '/a', '/a', '/a'])
  })

  it('throws if it is registered without being called', () => {
    const app = fastify()
    expect(() => Reflect.apply(stampedeCache, undefined, [app, {}, () => {}])).toThrow(
      /^stampedeCache: .*registered without being called; .*app.register\(stampedeCache\(/,
    )
    // @ts-expect-error: the function itself is no plugin.
    const misuse = () => app.register(stampedeCache)
    expect(misuse).toBeTypeOf('function')
  })

  it('warns of two caches with separate entries in one app', async () => {
    const emitWarning = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
    const { app, handler } = counted()
    app.get('/a', { onRequest: stampedeCache({ ttlMs: 60_000 }) }, handler)
    app.register(async (child) => {
      child.register(stampedeCache({ ttlMs: 60_000 })).get('/b', handler)
    })
    await twice(app)
    await twice(app, '/b')
    const codes = emitWarning.mock.calls.map(([, options]) => Object(options).code)
    expect(codes).toEqual(['STAMPEDE_SEPARATE_CACHES'])
    emitWarning.mockRestore()
  })
})
