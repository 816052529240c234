// A fleet member for the storm: cached pages and guarded orders in one app, Express or Koa, through
// Sentinels. It uses ioredis 6 or 5. Its environment: SENTINELS and NAT (addresses that replace
// those of the servers, one for each member) as JSON, ORIGIN_URL, CACHE (options).
// @ts-check
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { createStampede } from '@stampede/core'
import { stampedeCache as expressCache, idempotency as expressIdempotency } from '@stampede/express'
import { stampedeCache as koaCache, idempotency as koaIdempotency } from '@stampede/koa'
import { redisStore } from '@stampede/redis'
import express from 'express'
import { Redis } from 'ioredis'
import { Redis as Redis5 } from 'ioredis5'
import Koa from 'koa'
import { runMember } from './member.mjs'

const { ORIGIN_URL = '', SENTINELS = '[]', NAT = '[]', CACHE = '{}' } = process.env
const index = Number(process.env.MEMBER_INDEX)
const Client = index < 2 ? Redis : Redis5
const redis = new Client({
  sentinels: JSON.parse(SENTINELS),
  name: 'stampede',
  natMap: JSON.parse(NAT)[index],
  lazyConnect: true,
})
const stampede = createStampede({ store: redisStore(redis) })
const cache = { stampede, ...JSON.parse(CACHE) }
/** @param {string | undefined} user */
const whose = (user) => user ?? 'nobody'

/** @type {Record<string, number>} How often what happened. */
const counts = {}
stampede.on('*', ({ type }) => {
  counts[type] = (counts[type] ?? 0) + 1
})

/**
 * @param {string} target
 * @param {string} method
 * @param {import('@stampede/core').Attempt} [attempt]
 */
async function askOrigin(target, method, attempt) {
  const { isRecovery, fence } = attempt ?? {}
  const headers = { 'x-attempt': `${index} ${attempt?.number} ${isRecovery} ${fence}` }
  const response = await fetch(ORIGIN_URL + target, { method, headers })
  const tags = response.headers.get('cache-tag')
  return { status: response.status, tags, body: await response.text() }
}

/** GET for pages, POST for orders. */
function expressApp() {
  const app = express()
  app.get(
    '/pages/:n',
    expressCache({ ...cache, key: (/** @type {any} */ req) => req.originalUrl }),
    async (/** @type {any} */ req, /** @type {any} */ res) => {
      const { status, tags, body } = await askOrigin(req.originalUrl, 'GET')
      if (tags !== null) res.set('cache-tag', tags)
      res.status(status).type('json').send(body)
    },
  )
  app.post(
    '/orders/:n',
    expressIdempotency({ stampede, scope: (req) => whose(req.get('x-user')) }),
    async (/** @type {any} */ req, /** @type {any} */ res) => {
      const { status, body } = await askOrigin(req.originalUrl, 'POST', req.idempotency)
      res.status(status).type('json').send(body)
    },
  )
  return app
}

function koaApp() {
  const app = new Koa()
  app.silent = true
  app.use(koaCache({ ...cache, key: (/** @type {any} */ ctx) => ctx.originalUrl }))
  app.use(koaIdempotency({ stampede, scope: (ctx) => whose(ctx.get('x-user')) }))
  app.use(async (ctx) => {
    const { status, tags, body } = await askOrigin(ctx.originalUrl, ctx.method, ctx.idempotency)
    if (tags !== null) ctx.set('cache-tag', tags)
    ctx.status = status
    ctx.type = 'json'
    ctx.body = body
  })
  return app.callback()
}

/** Heap bytes after a full collection. */
function memory() {
  setFlagsFromString('--expose-gc')
  runInNewContext('gc')()
  const { heapUsed, external } = process.memoryUsage()
  return { heapUsed, external }
}

await runMember({
  listener: index % 2 === 0 ? expressApp() : koaApp(),
  keepAliveMs: 120_000,
  async answer({ type, target }) {
    if (type === 'counts') return counts
    if (type === 'stats') return stampede.stats()
    if (type === 'memory') return memory()
    if (type === 'purge') return stampede.purge(target)
    throw new Error(`Unknown question ${type}`)
  },
  async close() {
    redis.disconnect()
    await stampede.close()
  },
})
