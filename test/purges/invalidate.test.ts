// Unsafe requests purge stored responses (RFC 9111 §4.4), for every way in which the app responds,
// on every framework.

import { once } from 'node:events'
import { type RequestListener, request } from 'node:http'
import { connect, createServer } from 'node:http2'
import { createRequire } from 'node:module'
import type { AddressInfo } from 'node:net'
import { getRequestListener } from '@hono/node-server'
import { createStampede } from '@stampede/core'
import { stampedeCache as expressCache } from '@stampede/express'
import { stampedeCache as fastifyCache } from '@stampede/fastify'
import { stampedeCache as honoCache } from '@stampede/hono'
import { stampedeCache as koaCache } from '@stampede/koa'
import { redisStore } from '@stampede/redis'
import express, { type RequestHandler } from 'express'
import fastify from 'fastify'
import { Hono } from 'hono'
import { Redis } from 'ioredis'
import Koa from 'koa'
import { describe, expect, it } from 'vitest'
import { fieldOf, rawRequest, serve } from '../../packages/node-http/src/testing/raw-client.ts'
import { statusOf } from '../../packages/testkit/src/cache-contract/bench.ts'
import { currentFrameworks, type Framework, type Says, type Seen } from '../harness/apps.ts'
import { ask } from '../harness/load.ts'
import { createGate } from '../harness/origin.ts'
import { PATIENT } from '../harness/patient.ts'
import { startRedis } from '../harness/redis-server.ts'

const EXPRESS = currentFrameworks.find(({ name }) => name === 'Express 5') as Framework
const mount: (prefix: string, app: Koa) => Koa.Middleware = createRequire(import.meta.url)(
  'koa-mount',
)
const honoListener = (app: Hono) => getRequestListener(app.fetch)

/** An app that responds as the request says, and a look at the Cache-Status of a GET. */
async function start(framework: Framework, options: object = {}, before?: () => Promise<void>) {
  let runs = 0
  const app = await framework.start(
    { ttlMs: 60_000, ...options } as object,
    async ({ headers }: Seen): Promise<Says> => {
      runs += 1
      const body = `run ${runs}`
      const { 'x-status': status = '200', 'x-location': location, 'x-wait': wait } = headers
      if (wait !== undefined) await before?.()
      return {
        status: Number(status),
        headers: {
          ...(location !== undefined && { location: String(location) }),
          ...fieldsOf(headers),
        },
        body: status === '204' ? '' : body,
      }
    },
  )
  const send = (method: string, path: string, headers: Record<string, string> = {}) =>
    ask(app.url + path, { method, headers })
  const isHit = async (path: string) =>
    String((await ask(app.url + path)).headers['cache-status']).startsWith('Stampede; hit')
  return { ...app, send, isHit, runs: () => runs }
}

/** The cache groups that the app names. */
function fieldsOf(headers: Seen['headers']): Record<string, string> {
  const names = { 'x-in': 'cache-groups', 'x-changes': 'cache-group-invalidation' }
  return Object.fromEntries(
    Object.entries(names).flatMap(([from, name]) => {
      const said = headers[from]
      return said === undefined ? [] : [[name, String(said)]]
    }),
  )
}

describe.each(currentFrameworks)('stampedeCache on $name', (framework) => {
  it('keeps everything if invalidateOn is never', async () => {
    await using app = await start(framework, { invalidateOn: 'never' })
    await app.isHit('/a')
    await app.send('DELETE', '/a')
    expect(await app.isHit('/a')).toBe(true)
  })

  it('purges the page also if the client left before the response', async () => {
    const gate = createGate()
    let begun = false
    await using app = await start(framework, {}, () => {
      begun = true
      return gate.opened
    })
    await app.isHit('/a')
    const leaving = request(`${app.url}/a`, { method: 'POST', headers: { 'x-wait': '1' } })
    leaving.on('error', () => {}).end()
    await expect.poll(() => begun).toBe(true)
    leaving.destroy()
    await new Promise((resolve) => setTimeout(resolve, 50))
    expect(await app.isHit('/a')).toBe(true)
    gate.open()
    await expect.poll(() => app.isHit('/a')).toBe(false)
  })

  it('has sent the purge to Redis before the response arrives, with other middlewares around', async () => {
    await using server = await startRedis()
    const stampedes = [1, 2].map(() =>
      createStampede({ store: redisStore(new Redis(server.url, { lazyConnect: true }), PATIENT) }),
    )
    await using one = await start(framework, { stampede: stampedes[0] })
    // The same server with another host: its keys differ.
    await using other = await start(framework, { stampede: stampedes[1] })
    for (let i = 0; i < 10; i++) {
      // A response leaves before its entry is in Redis. Until then other requests share the fill,
      // which is not called a hit.
      await expect.poll(() => one.isHit('/a')).toBe(true)
      await expect.poll(() => other.isHit('/a')).toBe(true)
      await one.send('POST', '/a')
      expect([await one.isHit('/a'), await other.isHit('/a')]).toEqual([false, true])
    }
    for (const stampede of stampedes) await stampede.close()
  })
})

describe.each(currentFrameworks)('stampedeCache on $name, with Redis', (framework) => {
  it('purges the tags of invalidateOn, or the cache groups, before the response to the POST arrives', async () => {
    await using server = await startRedis()
    const stampedes = [1, 2].map(() =>
      createStampede({ store: redisStore(new Redis(server.url, { lazyConnect: true }), PATIENT) }),
    )
    const options = { tags: ['page'], invalidateOn: { tags: ['page'] } }
    await using one = await start(framework, { stampede: stampedes[0], ...options })
    await using other = await start(framework, { stampede: stampedes[1], ...options })
    await using grouped = await start(framework, { stampede: stampedes[0] })
    const isHit = async () =>
      statusOf(await grouped.send('GET', '/c', { 'x-in': '"list"' })).includes('hit')
    for (let i = 0; i < 5; i++) {
      for (const path of ['/a', '/b']) {
        await expect.poll(() => one.isHit(path)).toBe(true)
        await expect.poll(() => other.isHit(path)).toBe(true)
      }
      await expect.poll(isHit).toBe(true)
      await one.send('POST', '/elsewhere')
      expect([await one.isHit('/a'), await one.isHit('/b')]).toEqual([false, false])
      await expect.poll(() => other.isHit('/a')).toBe(false)
      expect(await isHit()).toBe(true)
      await grouped.send('POST', '/elsewhere', { 'x-changes': '"list"' })
      expect(await isHit()).toBe(false)
    }
    for (const stampede of stampedes) await stampede.close()
  })
})

describe("invalidateOn: 'parents' behind a mount", () => {
  type Apps = Record<string, (options: object) => RequestListener | Promise<RequestListener>>
  const sendX: RequestHandler = (_req, res) => void res.send('x')
  const sayX: Koa.Middleware = (ctx) => {
    ctx.body = 'x'
  }
  const apps: Apps = {
    'app.use(path) of Express': (options) =>
      express().use('/api', expressCache(options), sendX).use(expressCache(options), sendX),
    'an app in an app of Express': (options) =>
      express()
        .use('/api', express().use(expressCache(options), sendX))
        .use(expressCache(options), sendX),
    'koa-mount': (options) =>
      new Koa()
        .use(mount('/api', new Koa().use(koaCache(options)).use(sayX)))
        .use(koaCache(options))
        .use(sayX)
        .callback(),
    'a prefix of Fastify': async (options) => {
      const app = fastify()
      app.register(
        async (api) => {
          api.register(fastifyCache(options))
          // The prefix of the route is longer than that of the cache.
          api.register(async (items) => void items.all('/*', async () => 'x'), { prefix: '/items' })
          for (const path of ['/', '/items']) api.all(path, async () => 'x')
        },
        { prefix: '/api' },
      )
      app.register(async (rest) => {
        rest.register(fastifyCache(options))
        rest.all('/', async () => 'x')
      })
      await app.ready()
      return (req, res) => app.routing(req, res)
    },
    'app.use(pattern) of Hono': (options) =>
      honoListener(
        new Hono()
          .use('/api/*', honoCache(options))
          .use('/', honoCache(options))
          .all('*', (c) => c.text('x')),
      ),
    'app.route(path) of Hono': (options) =>
      honoListener(
        new Hono()
          .route(
            '/api',
            new Hono().use(honoCache(options)).all('*', (c) => c.text('x')),
          )
          .use(honoCache(options))
          .all('*', (c) => c.text('x')),
      ),
  }

  it.each(Object.entries(apps))(
    'purges up to the mount, with %s, for a path and a whole URL as target',
    async (_, appOf) => {
      const stampede = createStampede()
      const options = { stampede, ttlMs: 60_000, invalidateOn: 'parents' }
      await using server = await serve(await appOf(options))
      const send = async (method: string, target: string) =>
        String(fieldOf(await rawRequest(server.port, target, [], method), 'cache-status'))
      const hits = async () => {
        const statuses: string[] = []
        for (const path of ['/', '/api', '/api/items']) statuses.push(await send('GET', path))
        return statuses.map((status) => status.includes('; hit'))
      }
      await hits()
      for (const target of ['/api/items/7', 'http://shop.test:8080/api/items/7?x']) {
        expect(await hits(), target).toEqual([true, true, true])
        await send('PUT', target)
        expect(await hits(), target).toEqual([true, false, false])
      }
    },
  )
})

describe.each(['parents', 'all'] as const)('invalidateOn: %s in a fleet', (invalidateOn) => {
  it('reaches the copies of another process, by one script call', async () => {
    await using server = await startRedis()
    const stampedes = [1, 2].map(() =>
      createStampede({ store: redisStore(new Redis(server.url, { lazyConnect: true }), PATIENT) }),
    )
    // All names of the site are one host, so the two processes have the same keys.
    const host = { host: 'shop.test' }
    const apps = await Promise.all(
      stampedes.map((stampede) => start(EXPRESS, { stampede, invalidateOn })),
    )
    const [one, other] = apps as [(typeof apps)[number], (typeof apps)[number]]
    const isHit = async (app: typeof one) =>
      statusOf(await app.send('GET', '/items?page=2', host)).includes('hit')
    for (let i = 0; i < 5; i++) {
      for (const app of apps) await expect.poll(() => isHit(app)).toBe(true)
      await one.send('POST', '/items/7', host)
      expect(await isHit(one)).toBe(false)
      await expect.poll(() => isHit(other)).toBe(true)
      expect((await other.send('GET', '/items?page=2', host)).body).toBe(
        (await one.send('GET', '/items?page=2', host)).body,
      )
    }
    const scripts = async () => (await server.commandStats()).eval ?? 0
    const before = await scripts()
    await one.send('POST', '/items/7', host)
    // The purge of the key, its event, and the marks of all paths or of the middleware.
    await expect.poll(async () => (await scripts()) - before).toBe(3)
    for (const app of apps) await app[Symbol.asyncDispose]()
    for (const stampede of stampedes) await stampede.close()
  })
})

it('a POST over HTTP/2 purges the page even if the app never calls writeHead', async () => {
  let runs = 0
  const app = new Koa()
  app.use(koaCache({ ttlMs: 60_000 }))
  app.use((ctx) => {
    runs += 1
    ctx.body = `run ${runs}`
  })
  const server = createServer(app.callback())
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const client = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  const send = async (method: string) => {
    const stream = client.request({ ':path': '/', ':method': method }).setEncoding('utf8')
    stream.end()
    let body = ''
    for await (const chunk of stream) body += chunk
    return body
  }
  await send('GET')
  await expect.poll(() => send('GET')).toBe('run 1')
  expect(await send('GET')).toBe('run 1')
  expect(await send('POST')).toBe('run 2')
  expect(await send('GET')).toBe('run 3')
  client.close()
  server.close()
})
