// The compared response caches in the order of the columns. The page has their set-up.
import { once } from 'node:events'
import type { RequestListener } from 'node:http'
import { Readable } from 'node:stream'
import { createStampede } from '@stampede/core'
import { stampedeCache } from '@stampede/express'
import { stampedeCache as koaCache } from '@stampede/koa'
import { redisStore } from '@stampede/redis'
import apicache from 'apicache'
import express, { type Express, type RequestHandler } from 'express'
import expressRedisCache from 'express-redis-cache'
import express4 from 'express4'
import { Redis } from 'ioredis'
import Koa from 'koa'
import koaCash from 'koa-cash'
import { LRUCache } from 'lru-cache'
import type { TablePeer } from '../lib/verdict-table.ts'

export interface Peer extends TablePeer {
  readonly open: (settings: Settings) => Opened | Promise<Opened>
}

/** The parts of a request that a handler sees. */
export interface Asked {
  readonly method: string
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
}

/** The response of a handler. Each peer sends it as is usual in its framework. */
export interface Reply {
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body: string | Buffer | Readable | object
}

interface Settings {
  readonly redisUrl: string
  readonly ttlMs: number
  readonly reply: (asked: Asked) => Promise<Reply>
}

/** One server with a cache, as one process of a fleet would have it. */
interface Opened {
  readonly listener: RequestListener
  /** Removes the page of this path. */
  readonly purge: (path: string) => Promise<unknown>
}

const sending =
  ({ reply }: Settings): RequestHandler =>
  (req, res, next) => {
    reply(req).then(({ status = 200, headers = {}, body }) => {
      res.status(status).set({ ...headers })
      if (body instanceof Readable) body.pipe(res)
      else if (typeof body === 'string' || Buffer.isBuffer(body)) res.send(body)
      else res.json(body)
    }, next)
  }

async function sendOnKoa(ctx: Koa.Context, { reply }: Settings): Promise<void> {
  const { status = 200, headers = {}, body } = await reply(ctx.request)
  ctx.status = status
  ctx.set({ ...headers })
  ctx.body = body
}

/** Routes every method of the page to the handler. */
const withPage = (app: Express, settings: Settings): Express => app.all('/page', sending(settings))

function overRedis({ redisUrl }: Settings) {
  const redis = new Redis(redisUrl, { lazyConnect: true }).on('error', () => {})
  return createStampede({ store: redisStore(redis) })
}

/** A Koa app that does not log the errors of its cases. */
const silentKoa = (): Koa => Object.assign(new Koa(), { silent: true })

const inMemory = { 'redis-frozen': 'this set-up has no Redis' }
const onGet = { post: 'its README mounts it on `GET` routes only' }

export const peers: readonly Peer[] = [
  {
    ...{ id: 'stampede', name: '`stampedeCache`, Express' },
    open(settings) {
      const stampede = overRedis(settings)
      const app = express().use(stampedeCache({ stampede, ttlMs: settings.ttlMs }))
      return { listener: withPage(app, settings), purge: (path) => stampede.purge({ path }) }
    },
  },
  {
    ...{ id: 'stampede-koa', name: '`stampedeCache`, Koa' },
    open(settings) {
      const stampede = overRedis(settings)
      const app = silentKoa().use(koaCache({ stampede, ttlMs: settings.ttlMs }))
      app.use((ctx) => sendOnKoa(ctx, settings))
      return { listener: app.callback(), purge: (path) => stampede.purge({ path }) }
    },
  },
  {
    ...{ id: 'apicache', name: 'apicache', notSupported: inMemory },
    open(settings) {
      const cache = apicache.newInstance()
      const app = express4().use(cache.middleware(`${settings.ttlMs / 1_000} seconds`))
      return { listener: withPage(app, settings), purge: async (path) => cache.clear(path) }
    },
  },
  {
    ...{ id: 'express-redis-cache', name: 'express-redis-cache', notSupported: onGet },
    async open(settings) {
      const { hostname: host, port } = new URL(settings.redisUrl)
      const cache = expressRedisCache({ host, port: Number(port), expire: settings.ttlMs / 1_000 })
      cache.on('error', () => {})
      await once(cache, 'connected')
      const listener = express4().get('/page', cache.route(), sending(settings))
      return { listener, purge: (path) => new Promise((done) => cache.del(path, done)) }
    },
  },
  {
    ...{ id: 'koa-cash', name: 'koa-cash', notSupported: inMemory },
    open(settings) {
      const cache = new LRUCache<string, object>({ max: 10_000, ttl: settings.ttlMs })
      // `cashClear` sets false, which the store keeps as "no entry".
      const set = async (key: string, value: object) => void cache.set(key, value)
      const get = async (key: string) => cache.get(key)
      const app = silentKoa().use(koaCash({ maxAge: settings.ttlMs, get, set }))
      app.use(async (ctx) => {
        if (!(await (ctx as unknown as { cashed(): Promise<boolean> }).cashed()))
          await sendOnKoa(ctx, settings)
      })
      return { listener: app.callback(), purge: async (path) => cache.delete(path) }
    },
  },
]
