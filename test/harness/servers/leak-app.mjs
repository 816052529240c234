// A process that uses everything: values, pages through Express and Koa, locks, idempotent jobs and
// orders, purges. It has two Stampedes, so that each waits for the other. Each number is a key that
// was never used before. Environment: REDIS_URL.
// @ts-check
import { getEventListeners, once } from 'node:events'
import { Agent, createServer, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { createStampede } from '@stampede/core'
import { stampedeCache as expressCache, idempotency as expressIdempotency } from '@stampede/express'
import { stampedeCache as koaCache, idempotency as koaIdempotency } from '@stampede/koa'
import { createLocks } from '@stampede/locks'
import { redisStore } from '@stampede/redis'
import express from 'express'
import { Redis } from 'ioredis'
import Koa from 'koa'
import { census } from './heap-census.mjs'
import { runMember } from './member.mjs'

const LEASE_MS = 2_000
const AT_A_TIME = 100
const TIMES = { ttlMs: 5_000, leaseMs: LEASE_MS, waitMs: 1_000, originTimeoutMs: 300 }
const KEPT = { leaseMs: LEASE_MS, retentionMs: 30_000 }

/** @type {any[]} What the stores opened: the connections whose listeners are counted. */
const connections = []
function openProcess() {
  const redis = new Redis(process.env.REDIS_URL ?? '', { lazyConnect: true })
  const duplicate = redis.duplicate.bind(redis)
  redis.duplicate = (...args) => {
    const made = duplicate(...args)
    connections.push(made)
    return made
  }
  const store = redisStore(redis, { prefix: 'leaks' })
  const stampede = createStampede({ store, l1: { maxEntries: 1_000 } })
  return { stampede, locks: createLocks({ store }), redis }
}
const processes = [openProcess(), openProcess()]
const [one, two] = /** @type {[typeof processes[0], typeof processes[0]]} */ (processes)
/** @param {number} n */
const either = (n) => (n % 2 === 0 ? one : two)

/** A value: some factories fail, and some are slow. @param {number} n */
async function origin(n) {
  if (n % 499 === 0) throw new Error('the origin failed')
  if (n % 29 === 0) await sleep(10)
  return { n, text: 'x'.repeat(100) }
}

/** A page: some handlers never end. @param {number} n */
const cachedOrigin = (n) => (n % 997 === 0 ? new Promise(() => {}) : origin(n))

const pages = { ...TIMES, tags: ['pages'] }
/** @param {any} req */
const numberOf = (req) => Number(req.url.split('/').at(-1))
const app = express()
app.set('env', 'test')
app.use('/pages', expressCache({ ...pages, stampede: one.stampede }))
app.use('/orders', expressIdempotency({ stampede: one.stampede, scope: () => 'ada', ...KEPT }))
app.get('/pages/:n', async (/** @type {any} */ req, /** @type {any} */ res) => {
  res.json(await cachedOrigin(numberOf(req)))
})
app.post('/orders/:n', async (/** @type {any} */ req, /** @type {any} */ res) => {
  res.json(await origin(numberOf(req)))
})
const koa = new Koa()
koa.silent = true
// Without this, a purge of each order's own URL would be remembered.
koa.use(koaCache({ ...pages, stampede: two.stampede, invalidateOn: 'never' }))
koa.use(koaIdempotency({ stampede: two.stampede, scope: () => 'ada', ...KEPT }))
koa.use(async (ctx) => {
  ctx.body = await (ctx.method === 'GET' ? cachedOrigin : origin)(numberOf(ctx.req))
})
const koaServer = createServer(koa.callback()).listen(0, '127.0.0.1')
await once(koaServer, 'listening')
const expressServer = createServer(app).listen(0, '127.0.0.1')
await once(expressServer, 'listening')
const ports = [expressServer, koaServer].map((server) => {
  return /** @type {import('node:net').AddressInfo} */ (server.address()).port
})

let agent = new Agent({ keepAlive: true })

/**
 * Every 37th client leaves, and so does a client without a response.
 * @param {number} n
 * @param {string} method
 * @param {string} path
 */
async function fetchStatus(n, method, path) {
  const headers = method === 'POST' ? { 'idempotency-key': `order-${n}` } : {}
  const req = request({ port: ports[n % 2], method, path, headers, agent, host: '127.0.0.1' })
  const patience = setTimeout(() => req.destroy(), n % 37 === 0 ? 3 : 2_000)
  req.once('close', () => clearTimeout(patience))
  req.end()
  const [res] = await once(req, 'response')
  for await (const _ of res);
  return `HTTP ${res.statusCode}`
}

/** A signal that lives as long as the process. */
const lasting = new AbortController()

/** @type {Record<string, (n: number) => Promise<unknown>>} */
const USES = {
  value: (n) => either(n).stampede.getOrSet(`value-${n}`, () => cachedOrigin(n), TIMES),
  'shared value': (n) =>
    Promise.all(
      [one, two, one].map(({ stampede }) =>
        stampede.getOrSet(`shared-${n}`, () => sleep(5, n), { ...TIMES, tags: [`t${n % 50}`] }),
      ),
    ),
  page: (n) => fetchStatus(n, 'GET', `/pages/${n}`),
  order: (n) => fetchStatus(n, 'POST', `/orders/${n}`),
  job: (n) => either(n).stampede.idempotent(`job-${n}`, () => origin(n), KEPT),
  lock: (n) => {
    const options = { leaseMs: LEASE_MS, waitMs: 500, signal: lasting.signal }
    const both = [one, two].map(({ locks }) => locks.run(`lock-${n}`, options, () => sleep(1)))
    return Promise.all(both)
  },
  purge: (n) =>
    either(n).stampede.purge(n % 2 === 0 ? { tag: `t${n % 50}` } : { key: `p${n % 50}` }),
}
/** How many of a hundred uses are of each kind. */
const SHARES = { value: 70, 'shared value': 5, page: 8, order: 3, job: 6, lock: 6, purge: 2 }
const uses = Object.entries(SHARES).flatMap(([name, share]) => Array(share).fill(name))

/** Uses under way, by name. @type {Set<string>} */
const pending = new Set()

/**
 * Counts the outcomes of each use. `only` restricts them to one use.
 * @param {number} from
 * @param {number} to
 * @param {string} [only]
 */
async function work(from, to, only) {
  /** @type {Record<string, number>} */
  const tally = {}
  const note = (/** @type {string} */ text) => {
    tally[text] = (tally[text] ?? 0) + 1
  }
  let next = from
  const worker = async () => {
    while (next < to) {
      const n = next++
      // Shuffled, so that all kinds are under way at any time.
      const name = only ?? uses[(n * 37) % 100] ?? ''
      pending.add(`${name} ${n}`)
      await USES[name]?.(n).then(
        (value) => note(`${name}: ${typeof value === 'string' ? value : 'done'}`),
        (error) => note(`${name}: ${error.code ?? error.message}`),
      )
      pending.delete(`${name} ${n}`)
    }
  }
  await Promise.all(Array.from({ length: AT_A_TIME }, worker))
  agent.destroy()
  agent = new Agent({ keepAlive: true })
  return tally
}

await runMember({
  listener: app,
  answer({ type, from, to, only }) {
    if (type === 'work') return work(from, to, only)
    if (type === 'pending') return [...pending]
    if (type === 'stats') return processes.map(({ stampede }) => stampede.stats())
    if (type === 'census')
      return {
        ...census([...connections, expressServer, koaServer]),
        onSignal: getEventListeners(lasting.signal, 'abort').length,
      }
    throw new Error(`Unknown question ${type}`)
  },
  async close() {
    for (const server of [expressServer, koaServer]) {
      server.closeAllConnections()
      server.close()
    }
    for (const { locks, stampede, redis } of processes) {
      await locks.close()
      await stampede.close()
      redis.disconnect()
    }
  },
})
