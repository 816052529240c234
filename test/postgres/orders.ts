// An app in this process whose POSTs run in transactions of a PostgreSQL, for the tests beside.

import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createStampede, type IdempotencyOptions, type Stampede } from '@stampede/core'
import { idempotency } from '@stampede/express'
import { postgresStore } from '@stampede/postgres'
import express, { type NextFunction, type Request, type Response } from 'express'
import pg from 'pg'
import { type Answer, ask } from '../harness/load.ts'

export const TABLES = `
  create table orders (id bigserial primary key, key text not null);
  create table stock (article text primary key, pieces int not null);
  insert into stock values ('a', 10), ('b', 10), ('c', 10)`

export type Tx = Pick<pg.ClientBase, 'query'>

/** Runs in the transaction, else with the pool. Rejects as the handler of an app does. */
export type Handler = (tx: Tx, req: Request, res: Response) => Promise<unknown>

export interface OrdersOptions {
  /** Default: writes an order and responds 201 with its id. */
  readonly handler?: Handler
  /** Connections of the pool. */
  readonly max?: number
  readonly postgres?: Parameters<typeof postgresStore>[1]
  /** Options of idempotency(). */
  readonly idempotency?: Omit<Partial<IdempotencyOptions<Request>>, 'scope' | 'stampede'>
}

export interface Orders extends AsyncDisposable {
  readonly url: string
  readonly pool: pg.Pool
  readonly stampede: Stampede
  /** Whether notices of PostgreSQL arrive. */
  isReceiving(): boolean
  /** Requests that have reached the app. */
  arrived(): number
  post(key: string, body?: object): Promise<Answer>
}

/** Writes an order, and resolves with its id. */
export async function insertOrder(tx: Tx, req: Request): Promise<string> {
  const { rows } = await tx.query<{ id: string }>(
    'insert into orders (key) values ($1) returning id',
    [req.get('idempotency-key')],
  )
  return rows[0]?.id ?? ''
}

export const placeOrder: Handler = async (tx, req, res) => {
  res.status(201).json({ id: await insertOrder(tx, req) })
}

export async function startOrders(url: string, options: OrdersOptions = {}): Promise<Orders> {
  const { handler = placeOrder, max = 10 } = options
  const { transaction = true } = options.idempotency ?? {}
  const pool = new pg.Pool({ connectionString: url, max })
  // A session that the server ends while it is idle needs no attention.
  pool.on('error', () => {})
  const store = postgresStore(pool, options.postgres)
  await store.migrate()
  const secret = 'a secret of the tests, which all apps share'
  const stampede = createStampede({ idempotency: { store, secret } })
  let arrived = 0
  const app = express()
  app.use((_req, _res, next) => {
    arrived++
    next()
  })
  app.use(express.json())
  app.post(
    '/orders',
    idempotency({ stampede, scope: () => 'ada', ...options.idempotency, transaction }),
    (req, res, next) => {
      // Without a transaction, `tx` throws.
      const tx = transaction === false ? pool : (req.idempotency?.tx as Tx)
      handler(tx, req, res).catch(next)
    },
  )
  app.use((error: Error, _req: Request, res: Response, _next: NextFunction) => {
    res.status(500).json({ error: error.message })
  })
  const server = createServer(app).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    pool,
    stampede,
    isReceiving: () => store.idempotency.isReceiving === true,
    arrived: () => arrived,
    post: (key, body = {}) =>
      ask(`http://127.0.0.1:${port}/orders`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'idempotency-key': key },
        body: JSON.stringify(body),
      }),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
      await stampede.close()
      await pool.end()
    },
  }
}
