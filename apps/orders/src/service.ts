// The order service on Express, in a process of its own. Before each step it asks the parent, which
// may kill it instead.

import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { createStampede } from '@stampede/core'
import { idempotency } from '@stampede/express'
import { postgresStore } from '@stampede/postgres'
import express from 'express'
import pg from 'pg'
import { LEASE_MS, type Step } from './steps.ts'

const { DATABASE_URL = '', SCHEMA = '', TRANSACTION = '', EMBEDDED = '' } = process.env
const inTransaction = TRANSACTION === 'on'

const pool = new pg.Pool({
  connectionString: DATABASE_URL,
  // The embedded database has one session.
  max: EMBEDDED === '' ? 10 : 1,
})
// The parent ends the database before this process.
pool.on('error', () => {})
const wait = EMBEDDED === '' ? 'listen' : 'poll'
const store = postgresStore(pool, { schema: `${SCHEMA}_keys`, wait })
await store.migrate()
const secret = 'a secret of the demo, with 32 characters'
const stampede = createStampede({ idempotency: { store, secret } })

const exactlyOnce = idempotency({
  stampede,
  scope: () => 'demo',
  ...(inTransaction ? { transaction: true as const } : { leaseMs: LEASE_MS }),
})
const app = express()
app.post('/orders/:key', exactlyOnce, async (req, res) => {
  const { key } = req.params
  const db = inTransaction ? req.idempotency?.tx : pool
  if (db === undefined) throw new Error('no transaction')
  await parent(key, 'begins')
  await db.query(`insert into ${SCHEMA}.orders (key) values ($1)`, [key])
  await parent(key, 'wrote the order')
  await db.query(`insert into ${SCHEMA}.stock_moves (key) values ($1)`, [key])
  await parent(key, 'moved the stock')
  res.status(201).json({ key })
})

/** Tells the parent about a step, and waits until the parent says to go on. */
async function parent(key: string, step: Step): Promise<void> {
  process.send?.({ key, step })
  await once(process, 'message')
}

const server = app.listen(0, '127.0.0.1')
await once(server, 'listening')
process.send?.({ port: (server.address() as AddressInfo).port })
process.once('disconnect', () => process.exit(0))
