// The requests whose costs `npm run journey` counts. They run on the build, in apps of their own,
// over the Redis of REDIS_URL or in memory.
// @ts-check
import { createServer } from 'node:http'
import { Duplex } from 'node:stream'
import { createStampede } from '@stampede/core'
import { stampedeCache as expressCache, idempotency } from '@stampede/express'
import { stampedeCache as koaCache } from '@stampede/koa'
import { redisStore } from '@stampede/redis'
import express from 'express'
import { Redis } from 'ioredis'
import Koa from 'koa'

/** JSON of 2.3 kB. */
const BODY = {
  items: Array.from({ length: 28 }, (_, id) => {
    return {
      id,
      name: `Article number ${id}`,
      price: id * 100,
      tags: ['new', 'sale'],
      stock: id % 7,
    }
  }),
}
const OPTIONS = Object.freeze({ ttlMs: 600_000 })

/** @typedef {import('@stampede/core').Stampede} Stampede */
/** @typedef {(where: 'redis' | 'memory') => Stampede} Make */
/** @typedef {(stampede: Stampede) => () => boolean} IsIdle */
/**
 * @typedef {object} Path
 * @property {string} name
 * @property {(index: number, done: () => void) => void} call makes one request. `index` is new.
 * @property {() => boolean} isIdle false: work of an earlier request is not over, or Redis
 *   is away
 */

/** A connection without a network: what the server writes is dropped. */
class Wire extends Duplex {
  _read() {}
  /** @param {unknown} _chunk @param {string} _encoding @param {() => void} written */
  _write(_chunk, _encoding, written) {
    written()
  }
}

/** @param {import('node:http').RequestListener} listener */
function caller(listener) {
  const server = createServer(listener)
  let ended = () => {}
  server.prependListener('request', (_req, res) => {
    res.once('finish', () => ended())
  })
  const wire = new Wire()
  server.emit('connection', wire)
  /** @param {string} head @param {() => void} done */
  return (head, done) => {
    ended = done
    wire.push(head)
  }
}

export function makePaths() {
  const redis = new Redis(process.env.REDIS_URL ?? '')
  /** @type {Stampede[]} */
  const all = []
  /** @type {Make} */
  const make = (where) => {
    const store =
      where === 'redis' ? { store: redisStore(redis, { commandTimeoutMs: 10_000 }) } : {}
    const stampede = createStampede({ ...store, idempotency: { secret: 'x'.repeat(32) } })
    all.push(stampede)
    return stampede
  }
  /** @type {IsIdle} */
  const isIdle = (stampede) => () => {
    const { active, idempotency, store } = stampede.stats()
    return store.available && active.flights + active.leases + idempotency.running === 0
  }
  const close = async () => {
    await Promise.all(all.map((stampede) => stampede.close()))
    redis.disconnect()
  }
  return { paths: [...web(make, isIdle), ...data(make, isIdle)], close }
}

/**
 * @param {Make} make
 * @param {IsIdle} isIdle
 * @returns {Path[]}
 */
function data(make, isIdle) {
  const [redis, memory] = [make('redis'), make('memory')]
  const factory = () => BODY
  /**
   * @param {string} name @param {Stampede} stampede @param {(index: number) => string} key
   * @returns {Path}
   */
  const path = (name, stampede, key) => ({
    name,
    isIdle: isIdle(stampede),
    call: (index, done) => void stampede.getOrSet(key(index), factory, OPTIONS).then(done),
  })
  return [
    path('getOrSet miss', redis, (index) => `page ${index}`),
    path('getOrSet miss in memory', memory, (index) => `page ${index}`),
    path('getOrSet hit', redis, () => 'page'),
  ]
}

/**
 * @param {Make} make
 * @param {IsIdle} isIdle
 * @returns {Path[]}
 */
function web(make, isIdle) {
  const [redis, memory] = [make('redis'), make('memory')]
  const apps = { Express: expressWith, Koa: koaWith }
  /**
   * @param {string} name @param {Stampede | undefined} stampede
   * @param {import('node:http').RequestListener} listener @param {(index: number) => string} head
   * @returns {Path}
   */
  const path = (name, stampede, listener, head) => {
    const request = caller(listener)
    const call = (/** @type {number} */ index, /** @type {() => void} */ done) =>
      request(head(index), done)
    return { name, call, isIdle: stampede === undefined ? () => true : isIdle(stampede) }
  }
  const page = (/** @type {number | string} */ index) =>
    `GET /${index} HTTP/1.1\r\nHost: shop.example\r\n\r\n`
  const post = (/** @type {number | string} */ key) =>
    [
      'POST /orders HTTP/1.1',
      'Host: shop.example',
      `Idempotency-Key: "${key}"`,
      'Content-Type: application/json',
      'Content-Length: 13',
      '',
      '{"article":7}',
    ].join('\r\n')
  return [
    ...Object.entries(apps).flatMap(([name, appWith]) => [
      path(`${name} route`, undefined, appWith(undefined), page),
      path(`${name} miss`, redis, appWith(redis), page),
      path(`${name} miss in memory`, memory, appWith(memory), page),
      path(`${name} hit`, redis, appWith(redis), () => page('page')),
    ]),
    path('first POST', redis, expressWith(redis), post),
    path('first POST in memory', memory, expressWith(memory), post),
    path('replay', redis, expressWith(redis), () => post('order')),
  ]
}

/** @param {Stampede | undefined} stampede */
function expressWith(stampede) {
  const app = express()
  if (stampede !== undefined) {
    app.get('/:page', expressCache({ stampede, ...OPTIONS }))
    app.post('/orders', idempotency({ stampede, scope: () => 'shop' }))
  }
  app.get('/:page', (_req, res) => void res.json(BODY))
  app.post('/orders', (_req, res) => void res.status(201).json(BODY))
  return app
}

/** @param {Stampede | undefined} stampede */
function koaWith(stampede) {
  const app = new Koa()
  if (stampede !== undefined) app.use(koaCache({ stampede, ...OPTIONS }))
  app.use((ctx) => {
    ctx.body = BODY
  })
  return app.callback()
}
