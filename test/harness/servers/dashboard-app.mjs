// A fleet member: a shop behind the cache, with the dashboard for clients that have a cookie.
// Environment: REDIS_URL, and DASHBOARD (options of stampedeDashboard, as JSON).
// @ts-check

import { createStampede } from '@stampede/core'
import { stampedeDashboard } from '@stampede/dashboard'
import { stampedeCache } from '@stampede/express'
import { createLocks } from '@stampede/locks'
import { redisStore } from '@stampede/redis'
import express from 'express'
import { Redis } from 'ioredis'
import { runMember } from './member.mjs'

const { REDIS_URL = '', DASHBOARD = '{}' } = process.env
const redis = new Redis(REDIS_URL, { lazyConnect: true })
// Patient, because a busy machine stalls for longer than the default budget.
const store = redisStore(redis, { commandTimeoutMs: 5_000 })
const stampede = createStampede({ store })
const locks = createLocks({ store })
const dashboard = stampedeDashboard({
  stampede,
  authorize: (req) => req.headers.cookie === 'operator=yes',
  locks,
  ...JSON.parse(DASHBOARD),
})

let runs = 0
/** Handlers wait for it. @type {Promise<void> | undefined} */
let gate
let openGate = () => {}

const app = express()
app.use('/dashboard', dashboard)
app.use(express.json())
const options = { stampede, cookies: /** @type {const} */ ('ignore'), leaseMs: 5_000 }
const tags = (/** @type {express.Request} */ req) => [`product:${req.params.id}`, 'catalogue']
app.get(
  '/products/:id',
  stampedeCache({ ...options, ttlMs: 60_000, staleWhileRevalidateMs: 600_000, tags }),
  async (req, res) => {
    runs += 1
    await gate
    await new Promise((resolve) => setTimeout(resolve, 40))
    res.json({ id: req.params.id, run: runs })
  },
)
app.get('/search', stampedeCache({ ...options, ttlMs: 1_000 }), (req, res) => {
  runs += 1
  res.json({ found: req.query })
})
app.get('/account', stampedeCache(options), (_req, res) => {
  res.set('Cache-Control', 'private').json({ name: 'Ada' })
})
app.post('/orders', stampedeCache(options), (_req, res) => void res.sendStatus(201))

const rates = stampede.cache('rates', { ttlMs: 30_000 })
app.get('/rates/:currency', async (req, res) => {
  res.json(await rates.getOrSet(req.params.currency, () => ({ rate: 1.07 })))
})

/** @param {{ type: string, key?: string }} message */
async function answer({ type, key = '' }) {
  if (type === 'close the gate') {
    gate = new Promise((resolve) => {
      openGate = resolve
    })
  }
  if (type === 'open the gate') openGate()
  if (type === 'hold the lock') void locks.acquire(key, { leaseMs: 60_000 }).catch(() => {})
  if (type === 'get') await stampede.getOrSet(key, () => 'value', { ttlMs: 60_000 })
  return { runs, stats: stampede.stats() }
}

await runMember({
  listener: app,
  answer,
  keepAliveMs: 100,
  close: async () => {
    await dashboard.close()
    await locks.close()
    await stampede.close()
    redis.disconnect()
  },
})
