// A fleet member whose every POST goes to the origin of the test, behind an idempotency key of the
// user in `x-user`. It runs Express or Koa. Its environment: FRAMEWORK, REDIS_URL, ORIGIN_URL,
// IDEMPOTENCY (options, as JSON), STAMPEDE, STORE, and CLOCKS_MS (the error of each member's
// clock). A list for STAMPEDE has an entry for each member.
// @ts-check
import { createRequire } from 'node:module'
import { createStampede } from '@stampede/core'
import { redisStore } from '@stampede/redis'
import { askOrigin } from './ask-origin.mjs'
import { runMember } from './member.mjs'

const require = createRequire(import.meta.url)
const { FRAMEWORK = 'express', REDIS_URL = '', IOREDIS = '6' } = process.env
const { Redis: Client } = await import(IOREDIS === '5' ? 'ioredis5' : 'ioredis')
const index = Number(process.env.MEMBER_INDEX)
const offMs = JSON.parse(process.env.CLOCKS_MS ?? '[]')[index] ?? 0
if (offMs !== 0) {
  const { now } = Date
  Date.now = () => now() + offMs
}
const given = JSON.parse(process.env.STAMPEDE ?? '{}')
const redis = new Client(REDIS_URL, { lazyConnect: true })
const stampede = createStampede({
  store: redisStore(redis, JSON.parse(process.env.STORE ?? '{}')),
  ...(Array.isArray(given) ? given[index] : given),
})
/** @type {string[]} */
const events = []
stampede.on('idempotency.answered', ({ outcome }) => events.push(outcome))
stampede.on('idempotency.finished', ({ as, reply }) => events.push(`${as}: ${reply}`))

const options = { stampede, ...JSON.parse(process.env.IDEMPOTENCY ?? '{}') }

/**
 * @param {string} target
 * @param {import('@stampede/core').Attempt | undefined} attempt
 * @param {string} user
 */
function post(target, attempt, user) {
  const headers = {
    'x-user': user,
    'x-attempt': String(attempt?.number),
    'x-recovery': String(attempt?.isRecovery),
    'x-fence': String(attempt?.fence),
    'x-child': String(attempt?.childKey('origin')),
  }
  return askOrigin(target, { method: 'POST', headers })
}

/**
 * `/in-steps/x` asks the origin for `/x/1`, which is remembered, and then for `/x/2`.
 * @param {string} target
 * @param {import('@stampede/core').Attempt | undefined} attempt
 * @param {string} user
 */
async function work(target, attempt, user) {
  const [, path] = /^\/in-steps(\/.+)$/.exec(target) ?? []
  if (path === undefined || attempt === undefined) return post(target, attempt, user)
  const first = await attempt.step('first', async () => {
    return (await post(`${path}/1`, attempt, user)).body.toString()
  })
  const { status, headers, body } = await post(`${path}/2`, attempt, user)
  return { status, headers, body: Buffer.from(`${first}, ${body}`) }
}

async function expressApp() {
  const { idempotency } = await import('@stampede/express')
  const express = require(FRAMEWORK)
  const app = express()
  app.use(express.json())
  app.use(idempotency({ scope: (req) => req.get('x-user') ?? '', ...options }))
  app.post(
    /.*/,
    async (/** @type {any} */ req, /** @type {any} */ res, /** @type {any} */ next) => {
      try {
        const { status, headers, body } = await work(
          req.originalUrl,
          req.idempotency,
          req.get('x-user'),
        )
        res.status(status)
        for (const [name, value] of headers) res.append(name, value)
        res.end(body)
      } catch (error) {
        next(error)
      }
    },
  )
  return app
}

async function koaApp() {
  const { idempotency } = await import('@stampede/koa')
  const Koa = require(FRAMEWORK)
  const app = new Koa()
  app.silent = true
  app.use(idempotency({ scope: (ctx) => ctx.get('x-user'), ...options }))
  app.use(async (/** @type {any} */ ctx) => {
    const { status, headers, body } = await work(
      ctx.originalUrl,
      ctx.idempotency,
      ctx.get('x-user'),
    )
    ctx.status = status
    ctx.body = body
    for (const [name, value] of headers) {
      if (name === 'set-cookie') ctx.append(name, value)
      else ctx.set(name, value)
    }
  })
  return app.callback()
}

/** @type {Record<string, (message: any) => unknown>} */
const answers = {
  stats: () => stampede.stats().idempotency,
  events: () => events.splice(0),
  inspect: ({ key }) => stampede.idempotency.inspect(key),
  release: ({ key, force }) => stampede.idempotency.release(key, { force }),
  resolve: ({ key, answer, force }) => stampede.idempotency.resolve(key, answer, { force }),
  async job({ key, path, options: jobOptions }) {
    const result = await stampede.idempotent(
      key,
      async (attempt) => (await post(path, attempt, 'job')).body.toString(),
      jobOptions,
    )
    return result
  },
}

await runMember({
  listener: await (FRAMEWORK.startsWith('koa') ? koaApp() : expressApp()),
  answer({ type, ...message }) {
    const found = answers[type]
    if (found === undefined) throw new Error(`Unknown question ${type}`)
    return found(message)
  },
  async close() {
    redis.disconnect()
    await stampede.close()
  },
})
