// A fleet member: an app behind the cache, whose every request goes to the origin of the test.
// Environment: FRAMEWORK (a list with commas is used in turn; `node` is a front before a listener),
// REDIS_URL, ORIGIN_URL, CACHE (options of stampedeCache, as JSON) and STORE (of redisStore; a list
// is used in turn).
// @ts-check
import { createRequire } from 'node:module'
import { createStampede } from '@stampede/core'
import { redisStore } from '@stampede/redis'
import { askOrigin } from './ask-origin.mjs'
import { runMember } from './member.mjs'

const require = createRequire(import.meta.url)
const { REDIS_URL = '', IOREDIS = '6', MEMBER_INDEX = '0' } = process.env
const frameworks = (process.env.FRAMEWORK ?? 'express').split(',')
const FRAMEWORK = frameworks[Number(MEMBER_INDEX) % frameworks.length] ?? ''
const cache = JSON.parse(process.env.CACHE ?? '{}')
const stores = [JSON.parse(process.env.STORE ?? '{"commandTimeoutMs":5000}')].flat()
const store = stores[Number(MEMBER_INDEX) % stores.length]

const { Redis: Client } = await import(IOREDIS === '5' ? 'ioredis5' : 'ioredis')
// One address for all, or one for each member.
const urls = REDIS_URL.split(',')
const redis = new Client(urls[Number(MEMBER_INDEX) % urls.length] ?? '', { lazyConnect: true })
const stampede = createStampede({
  store: redisStore(redis, store),
  ...JSON.parse(process.env.STAMPEDE ?? '{}'),
})
/** @type {string[]} */
const events = []
stampede.on('*', ({ type }) => events.push(type))

// The path is the key, so that a test can purge a path.
const options = { stampede, ...cache, key: (/** @type {any} */ request) => request.originalUrl }

/** @param {string} target @param {string} method */
const ask = (target, method) => askOrigin(target, { method: method === 'HEAD' ? 'GET' : method })

async function expressApp() {
  const { stampedeCache } = await import('@stampede/express')
  const app = require(FRAMEWORK)()
  app.use(stampedeCache(options))
  app.all(/.*/, async (/** @type {any} */ req, /** @type {any} */ res, /** @type {any} */ next) => {
    try {
      const { status, headers, body } = await ask(req.originalUrl, req.method)
      res.status(status)
      for (const [name, value] of headers) res.append(name, value)
      res.end(body)
    } catch (error) {
      next(error)
    }
  })
  return app
}

async function koaApp() {
  const { stampedeCache } = await import('@stampede/koa')
  const Koa = require(FRAMEWORK)
  const app = new Koa()
  app.silent = true
  app.use(stampedeCache(options))
  app.use(async (/** @type {any} */ ctx) => {
    const { status, headers, body } = await ask(ctx.originalUrl, ctx.method)
    ctx.status = status
    ctx.body = body
    for (const [name, value] of headers) {
      if (name === 'set-cookie') ctx.append(name, value)
      else ctx.set(name, value)
    }
  })
  return app.callback()
}

async function nodeApp() {
  const { stampedeFront } = await import('@stampede/node-http')
  const key = (/** @type {any} */ request) => request.url
  return stampedeFront(
    async (req, res) => {
      try {
        const { status, headers, body } = await ask(req.url ?? '/', req.method ?? 'GET')
        res.writeHead(status, headers.flat()).end(body)
      } catch {
        res.writeHead(500).end()
      }
    },
    { stampede, ...cache, key },
  )
}

function appOf() {
  if (FRAMEWORK === 'node') return nodeApp()
  return FRAMEWORK.startsWith('koa') ? koaApp() : expressApp()
}

await runMember({
  listener: await appOf(),
  async answer({ type, ...message }) {
    if (type === 'stats') return stampede.stats()
    if (type === 'events') return events.splice(0)
    if (type === 'purge')
      return stampede.purge(message.target ?? { key: message.key }, { soft: message.soft ?? false })
    throw new Error(`Unknown question ${type}`)
  },
  async close() {
    redis.disconnect()
    await stampede.close()
  },
})
