// Server process of one row of the costs in PostgreSQL: an order and its record.
import { setTimeout as sleep } from 'node:timers/promises'
import { createStampede } from '@stampede/core'
import { idempotency } from '@stampede/express'
import { postgresStore } from '@stampede/postgres'
import { redisStore } from '@stampede/redis'
import express, { type Request, type RequestHandler, type Response } from 'express'
import { Redis } from 'ioredis'
import pg from 'pg'
import { listen } from '../lib/http.ts'
import { product } from '../lib/product.ts'

export const ORDERS = 'create table if not exists orders (id bigserial primary key, note text)'
const INSERT = 'insert into orders (note) values ($1)'
const SECRET = 'a secret of the bench, which all servers share'

export type RecordIn = 'none' | 'redis' | 'postgres'

interface Writer {
  query(text: string, values: unknown[]): Promise<unknown>
}

/** `none`: BEGIN, the write and COMMIT by hand, without a record. */
export async function start(recordIn: RecordIn, url: string, redisUrl: string) {
  const pool = new pg.Pool({ connectionString: url, max: 20 })
  const app = express().use(express.json())
  if (recordIn === 'postgres') {
    const store = postgresStore(pool)
    await store.migrate()
    const stampede = createStampede({ idempotency: { store, secret: SECRET } })
    const options = { stampede, scope: () => 'all', transaction: true, onBusy: 'wait' } as const
    app.post('/orders', idempotency(options), async (req, res) => {
      const { tx } = req.idempotency as unknown as { tx: Writer }
      await place(tx, req, res)
    })
  } else {
    const layers = recordIn === 'redis' ? [overRedis(redisUrl)] : []
    app.post('/orders', ...layers, async (req, res) => {
      const client = await pool.connect()
      await client.query('begin')
      await place(client, req, res, () => client.query('commit'))
      client.release()
    })
  }
  const port = await listen(app)
  return {
    port: () => port,
    connections: () => pool.totalCount,
    cpuMicros() {
      const { user, system } = process.cpuUsage()
      return user + system
    },
  }
}

function overRedis(url: string): RequestHandler {
  const stampede = createStampede({
    store: redisStore(new Redis(url)),
    idempotency: { secret: SECRET },
  })
  return idempotency({ stampede, scope: () => 'all', onBusy: 'wait' })
}

async function place(tx: Writer, req: Request, res: Response, commit?: () => Promise<unknown>) {
  await tx.query(INSERT, [req.body.note])
  await sleepIf(Number(req.get('x-hold-ms') ?? 0))
  await commit?.()
  res.status(201).json(product)
}

async function sleepIf(ms: number): Promise<void> {
  if (ms > 0) await sleep(ms)
}
