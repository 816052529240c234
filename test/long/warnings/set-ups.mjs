// Apps that deserve a warning, and ordinary apps that must be quiet. `node set-ups.mjs NAME...`
// runs them in one process, and prints its warnings as JSON. Without names, it prints all names.

import cluster from 'node:cluster'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import { createStampede, memoryStore } from '@stampede/core'
import * as onExpress from '@stampede/express'
import * as onKoa from '@stampede/koa'
import { createLocks } from '@stampede/locks'
import { stampedeFront } from '@stampede/node-http'

const require = createRequire(import.meta.url)
const MISSES = Array.from({ length: 25 }, (_, i) => `/missing/${i}`)
const scope = () => 'one user'
const ttlMs = 60_000

/** Serves a listener for these requests, one after another. A target may begin with `POST `. */
async function ask(listener, ...targets) {
  const server = createServer(listener).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address()
  const seen = []
  for (const target of targets) {
    const [path, method = 'GET'] = target.split(' ').reverse()
    const headers = method === 'POST' ? { 'idempotency-key': '"k"' } : {}
    const response = await fetch(`http://127.0.0.1:${port}${path}`, { method, headers })
    seen.push(`${response.status} ${(await response.text()).slice(0, 400)}`)
  }
  server.closeAllConnections()
  server.close()
  return seen
}

/** Runs `serve` in a worker of node:cluster, with its environment. */
async function inWorker(serve) {
  if (cluster.isWorker) return serve()
  const worker = cluster.fork()
  worker.on('message', (warning) => warnings.push(warning))
  await once(worker, 'exit')
}

function useMemory() {
  for (let i = 0; i < 2; i++) {
    onExpress.idempotency({ scope })
    createLocks({ store: memoryStore() })
  }
}

function expressSetUps(version, express, { stampedeCache, idempotency }) {
  const page = (_req, res) => res.send('page')
  const error = (_error, _req, res, _next) => res.status(500).send('error')
  const notFound = (_req, res) => res.status(404).send('none')
  const cache = () => stampedeCache({ ttlMs })
  const root = () => {
    const app = express()
    app.get('/a', page)
    app.post('/a', page)
    return app
  }
  return {
    [`${version}: the cache after the routes`]: () =>
      ask(root().use(cache()).use(error), '/a', '/favicon.ico', '/nothing'),
    [`${version}: the cache after the routes, before a 404 handler`]: () =>
      ask(root().use(cache()).use(notFound), '/a', ...MISSES),
    [`${version}: the cache after a router with the routes`]: () => {
      const router = express.Router().get('/a', page)
      return ask(express().use('/in', router).use(cache()), '/in/a', '/nothing', '/nothing')
    },
    [`${version}: idempotency after the routes`]: () =>
      ask(root().use(idempotency({ scope })), 'POST /a', 'POST /nothing'),
    [`${version}: two caches of one app`]: () => {
      const app = express()
      app.get('/a', cache(), page)
      app.get('/b', cache(), page)
      app.get('/c', cache(), page)
      return ask(app, '/a', '/b', '/c')
    },
    [`${version}: two caches, one in a mounted app`]: () => {
      const app = express()
      app.get('/a', stampedeCache({ stampede: createStampede(), ttlMs }), page)
      app.use('/in', express().use(cache()).get('/b', page))
      return ask(app, '/a', '/in/b')
    },
    [`${version}: not called`]: async () => {
      for (const middleware of [stampedeCache, idempotency]) {
        const app = express().use(middleware).all('/a', page)
        app.use(({ message }, _req, res, _next) => {
          warnings.push({ setUp, message })
          res.end()
        })
        await ask(app, '/a')
      }
    },

    [`quiet, ${version}: before the routes, with a 404 handler`]: () =>
      ask(
        express()
          .get('/health', page)
          .use(cache())
          .use(idempotency({ scope }))
          .get('/a', page)
          .post('/a', page)
          .use(notFound)
          .use(error),
        '/health',
        '/a',
        '/a',
        'POST /a',
        ...MISSES,
      ),
    [`quiet, ${version}: routes before, a catch-all function after`]: () =>
      ask(root().use(cache()).use(page), '/a', '/b', '/c'),
    [`quiet, ${version}: a catch-all function after that knows some pages`]: () =>
      ask(
        root()
          .use(cache())
          .use((req, res, next) => (req.path === '/b' ? res.send('b') : next())),
        '/nothing',
        '/b',
        ...MISSES,
      ),
    [`quiet, ${version}: on a router`]: () => {
      const router = express.Router().use(cache()).get('/a', page)
      return ask(root().use('/in', router), '/a', '/in/a', '/in/a', ...MISSES)
    },
    [`quiet, ${version}: at the end of a router, with the routes in the next`]: () => {
      const first = express.Router().get('/a', page).use(cache())
      const second = express.Router().get('/b', page)
      return ask(express().use(first).use(second), '/a', '/b', ...MISSES)
    },
    [`quiet, ${version}: at a route, after other routes`]: () => {
      const app = root()
      app.get('/b', cache(), page)
      return ask(app, '/a', '/b', '/b', ...MISSES)
    },
    [`quiet, ${version}: in a mounted app`]: () => {
      const inner = express().get('/x', page).use(cache())
      return ask(root().use('/in', inner).use('/in', page), '/a', '/in/x', '/in/y')
    },
    [`quiet, ${version}: a mounted app with the routes after`]: () =>
      ask(root().use(cache()).use('/in', express().get('/b', page)), '/nothing', '/in/b'),
    [`quiet, ${version}: after the routes, inside another middleware`]: () => {
      const middleware = cache()
      return ask(
        root().use((req, res, next) => middleware(req, res, next)),
        '/a',
        ...MISSES,
      )
    },
    [`quiet, ${version}: a listener behind the app`]: () => {
      const app = root().use(cache())
      return ask((req, res) => app(req, res, () => res.end('next')), '/a', '/b', '/b')
    },
    [`quiet, ${version}: one cache mounted twice`]: () => {
      const middleware = cache()
      const app = express().use('/in', middleware).get('/in/a', page)
      return ask(app.use(middleware), '/in/a', '/nothing', '/in/a')
    },
    [`quiet, ${version}: two caches with one Stampede`]: () => {
      const stampede = createStampede()
      const app = express()
      app.get('/a', stampedeCache({ stampede, ttlMs }), page)
      app.get('/b', stampedeCache({ stampede, ttlMs: 1_000 }), page)
      return ask(app, '/a', '/b')
    },
    [`quiet, ${version}: two caches with a Stampede each, by option`]: () => {
      const app = express()
      app.get('/a', stampedeCache({ stampede: createStampede(), ttlMs }), page)
      app.get('/b', stampedeCache({ stampede: createStampede(), ttlMs }), page)
      return ask(app, '/a', '/b')
    },
    [`quiet, ${version}: two apps with a cache each`]: async () => {
      for (let i = 0; i < 2; i++) await ask(express().use(cache()).get('/a', page), '/a')
    },
    [`quiet, ${version}: a cache and idempotency without a Stampede`]: () => {
      const app = express().use(cache())
      app.post('/a', idempotency({ scope }), page)
      app.get('/a', page)
      return ask(app, '/a', 'POST /a')
    },
  }
}

function koaSetUps(version, Koa, { stampedeCache, idempotency }) {
  const Router = require('@koa/router')
  const mount = require('koa-mount')
  const page = (ctx) => {
    ctx.body = 'page'
  }
  const cache = () => stampedeCache({ ttlMs })
  const routes = () => new Router().get('/a', page).post('/a', page).routes()
  const app = (...middlewares) => {
    const koa = new Koa()
    koa.silent = true
    for (const middleware of middlewares) koa.use(middleware)
    return koa.callback()
  }
  const notFound = (ctx) => {
    ctx.status = 404
    ctx.body = 'none'
  }
  return {
    [`${version}: the cache after the routes`]: () =>
      ask(app(routes(), cache()), '/a', '/favicon.ico', '/nothing'),
    [`${version}: the cache after the routes, before a 404 handler`]: () =>
      ask(app(routes(), cache(), notFound), '/a', ...MISSES),
    [`${version}: idempotency after the routes`]: () =>
      ask(app(routes(), idempotency({ scope })), 'POST /a', 'POST /nothing'),
    [`${version}: two caches of one app`]: () => {
      const router = new Router().get('/a', cache(), page).get('/b', cache(), page)
      return ask(app(router.routes()), '/a', '/b')
    },
    [`${version}: not called`]: async () => {
      for (const middleware of [stampedeCache, idempotency]) {
        const koa = new Koa().use(middleware)
        koa.on('error', ({ message }) => warnings.push({ setUp, message }))
        await ask(koa.callback(), '/a')
      }
    },

    [`quiet, ${version}: before the routes, with a 404 handler`]: () =>
      ask(
        app(cache(), idempotency({ scope }), routes(), notFound),
        '/a',
        '/a',
        'POST /a',
        ...MISSES,
      ),
    [`quiet, ${version}: between two routers`]: () =>
      ask(app(routes(), cache(), new Router().get('/b', page).routes()), '/a', '/nothing', '/b'),
    [`quiet, ${version}: a catch-all function after the routes`]: () =>
      ask(app(routes(), cache(), page), '/a', '/b'),
    [`quiet, ${version}: on a router and at a route`]: () => {
      const first = new Router().use(cache()).get('/a', page)
      const stampede = createStampede()
      const second = new Router().get('/b', page)
      second.get('/c', stampedeCache({ stampede, ttlMs }), page)
      const both = [app(first.routes()), app(second.routes())]
      return Promise.all(both.map((each) => ask(each, '/a', '/b', '/c', ...MISSES)))
    },
    [`quiet, ${version}: in a mounted app`]: () => {
      const inner = new Koa().use(cache()).use(page)
      return ask(app(routes(), mount('/in', inner)), '/a', '/in/b', '/nothing')
    },
    [`quiet, ${version}: two apps with a cache each`]: async () => {
      for (let i = 0; i < 2; i++) await ask(app(cache(), routes()), '/a')
    },
  }
}

const given = process.argv.slice(2)
/** Whether a name needs this framework, which takes time to load. */
const isUsed = (version) => given.length === 0 || given.some((name) => name.includes(version))

const SET_UPS = {
  ...(isUsed('Express 4') && expressSetUps('Express 4', require('express4'), onExpress)),
  ...(isUsed('Express 5') && expressSetUps('Express 5', require('express'), onExpress)),
  ...(isUsed('Koa 2') && koaSetUps('Koa 2', require('koa2'), onKoa)),
  ...(isUsed('Koa 3') && koaSetUps('Koa 3', require('koa'), onKoa)),
  'records in the memory of a worker': () => inWorker(useMemory),
  'records in memory': useMemory,
  'a Stampede for each request': async () => {
    const perRequest = (req, res, next) => onExpress.stampedeCache({ ttlMs })(req, res, next)
    const app = require('express')().use(perRequest)
    await ask(
      app.get('/a', (_req, res) => res.send('page')),
      ...Array(25).fill('/a'),
    )
  },
  'quiet: ten Stampedes at a time': async () => {
    for (let i = 0; i < 9; i++) createStampede()
    for (let i = 0; i < 20; i++) await createStampede().close()
  },
  'quiet: a worker of a cluster with Redis': () =>
    inWorker(async () => {
      const { redisStore } = await import('@stampede/redis')
      const { Redis } = await import('ioredis')
      const client = new Redis(process.env.TEST_REDIS_URL)
      const store = redisStore(client)
      const stampede = createStampede({ store })
      const locks = createLocks({ store })
      const app = require('express')()
      app.use(onExpress.stampedeCache({ stampede, ttlMs }))
      app.use(onExpress.idempotency({ stampede, scope }))
      await ask(
        app.all('/a', (_req, res) => res.send('page')),
        '/a',
        'POST /a',
      )
      await (await locks.acquire('a')).release()
      await Promise.all([stampede.close(), locks.close()])
      client.disconnect()
    }),
  'quiet: a worker of a cluster with a cache in memory': () =>
    inWorker(() =>
      ask(
        stampedeFront((_req, res) => res.end('page'), { ttlMs }),
        '/a',
        '/a',
      ),
    ),
}

const warnings = []
let setUp = ''
process.on('warning', ({ name, code, message }) => warnings.push({ setUp, name, code, message }))

if (given.length === 0) process.stdout.write(JSON.stringify(Object.keys(SET_UPS)))
else {
  for (setUp of given) {
    await SET_UPS[setUp]()
    // The warnings of the last callbacks are emitted in the next turn.
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  if (cluster.isWorker) for (const warning of warnings) process.send(warning)
  else process.stdout.write(JSON.stringify(warnings))
  if (cluster.isWorker) process.disconnect()
}
