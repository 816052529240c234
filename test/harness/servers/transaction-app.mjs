// A fleet member whose POST /orders writes an order and its line to PostgreSQL in one transaction.
// Its environment: DATABASE_URL, IDEMPOTENCY and POSTGRES (options, as JSON), POOL_MAX, and NAIVE=1
// for a middleware that keeps its records outside of the transaction.
// @ts-check
import { setTimeout as sleep } from 'node:timers/promises'
import express from 'express'
import pg from 'pg'
import { runMember } from './member.mjs'
import { naiveIdempotency } from './naive-idempotency.mjs'

const { DATABASE_URL = '', NAIVE, POOL_MAX = '10' } = process.env
const pool = new pg.Pool({ connectionString: DATABASE_URL, max: Number(POOL_MAX) })
// A killed server ends idle connections, too.
pool.on('error', () => {})

async function transactional() {
  const [{ createStampede }, { idempotency }, { postgresStore }] = await Promise.all([
    import('@stampede/core'),
    import('@stampede/express'),
    import('@stampede/postgres'),
  ])
  const store = postgresStore(pool, JSON.parse(process.env.POSTGRES ?? '{}'))
  await store.migrate()
  const secret = 'a secret of the tests, which all members share'
  const stampede = createStampede({ idempotency: { store, secret } })
  const options = { transaction: true, ...JSON.parse(process.env.IDEMPOTENCY ?? '{}') }
  const middleware = idempotency({ stampede, scope: () => 'ada', ...options })
  return { middleware, close: () => stampede.close() }
}

const { middleware, close } =
  NAIVE === '1' ? { middleware: naiveIdempotency(pool), close() {} } : await transactional()

const app = express()
app.use(express.json())
app.post('/orders', middleware, async (/** @type {any} */ req, res) => {
  const { tx } = req.idempotency
  const key = req.get('idempotency-key')
  const { rows } = await tx.query('insert into orders (key) values ($1) returning id', [key])
  const [{ id }] = rows
  const { holdMs = 0 } = req.body
  if (holdMs > 0) await sleep(holdMs)
  await tx.query('insert into order_lines (order_id) values ($1)', [id])
  res.status(201).location(`/orders/${id}`)
  if (NAIVE === '1') return res.json({ id })
  // The head and a part of the body are ready before the end.
  res.type('json').write('{"id":')
  res.end(`"${id}"}`)
})
app.use((/** @type {any} */ error, _req, res, _next) => {
  res.status(500).json({ error: String(error) })
})

await runMember({
  listener: app,
  answer: () => ({ total: pool.totalCount, idle: pool.idleCount, waiting: pool.waitingCount }),
  async close() {
    await close()
    await pool.end()
  },
})
