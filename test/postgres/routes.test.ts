// Routes of Express and jobs in a transaction: what clients get, and what is in the tables.

import { once } from 'node:events'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createStampede } from '@stampede/core'
import { idempotency } from '@stampede/express'
import { postgresStore } from '@stampede/postgres'
import express from 'express'
import pg from 'pg'
import { beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { describePostgres, postgresOfFile } from '../harness/postgres.ts'
import { waitUntil } from '../harness/wait-until.ts'

describePostgres('a route with a transaction', () => {
  const server = postgresOfFile()
  const orders = async () => (await server().query('select item from orders')).length
  const records = async () => (await server().query('select key from stampede.idempotency')).length

  beforeAll(async () => {
    const pool = new pg.Pool({ connectionString: server().url })
    await postgresStore(pool).migrate()
    await pool.end()
    await server().query('create table orders (id serial primary key, item text not null)')
  })
  beforeEach(() => server().query('truncate orders, stampede.idempotency cascade'))

  type Handler = (
    attempt: NonNullable<express.Request['idempotency']>,
    res: express.Response,
    query: pg.ClientBase['query'],
  ) => unknown

  /** An app whose handler writes an order and then calls `handler`. */
  async function start(handler: Handler, route: object = {}, options: object = {}, max = 4) {
    const pool = new pg.Pool({ connectionString: server().url, max })
    pool.on('error', () => {})
    const store = postgresStore(pool, options)
    const secret = 'a secret of at least 32 characters'
    const stampede = createStampede({ idempotency: { store, secret } })
    const app = express()
    let runs = 0
    const guard = idempotency({ stampede, scope: () => 'user', transaction: true, ...route })
    app.post('/orders', guard, async (req, res) => {
      runs += 1
      const attempt = req.idempotency
      if (attempt === undefined) throw new Error('there is no attempt')
      const tx = attempt.tx as unknown as pg.ClientBase
      const query = tx.query.bind(tx)
      await query('insert into orders (item) values ($1)', ['book'])
      await handler(attempt, res, query)
    })
    const app_ = app.listen(0)
    await once(app_, 'listening')
    const http: Server = app_
    const { port } = http.address() as AddressInfo
    return {
      stampede,
      pool,
      runs: () => runs,
      async post(key = 'k') {
        const headers = { 'idempotency-key': `"${key}"` }
        const res = await fetch(`http://127.0.0.1:${port}/orders`, { method: 'POST', headers })
        const body = await res.text()
        return { status: res.status, body, replayed: res.headers.get('idempotency-replayed') }
      },
      async [Symbol.asyncDispose]() {
        http.closeAllConnections()
        http.close()
        await stampede.close()
        await pool.end()
      },
    }
  }

  it('commits the writes with a 201, and replays it in another process', async () => {
    const handler: Handler = (_, res) => res.status(201).json({ id: 7 })
    await using a = await start(handler)
    await using b = await start(handler)
    const first = { status: 201, body: '{"id":7}', replayed: null }
    expect(await a.post()).toEqual(first)
    for (const app of [a, b, b]) expect(await app.post()).toEqual({ ...first, replayed: 'true' })
    expect([await orders(), a.runs() + b.runs()]).toEqual([1, 1])
  })

  it('replays a response while another process has not ended its replay', async () => {
    const handler: Handler = (_, res) => res.status(201).json({ id: 7 })
    await using a = await start(handler)
    await using b = await start(handler)
    const { status, body } = await a.post()
    const client = await a.pool.connect()
    // It has the lock of the key until its ROLLBACK.
    const claim = 'stampede.claim(key, exact, canonical, 1000)'
    await client.query(`begin; select ${claim} from stampede.idempotency`)
    const replay = await b.post()
    await client.query('rollback')
    client.release()
    expect(replay).toEqual({ status, body, replayed: 'true' })
  })

  it.each([
    ['a 503', (res: express.Response) => res.status(503).end('later'), 503],
    ['an exception', () => Promise.reject(new Error('broken')), 500],
  ])('rolls back after %s, so that a repeat runs the handler', async (_, respond, status) => {
    await using app = await start((_attempt, res) => respond(res))
    for (let i = 0; i < 2; i++) expect((await app.post()).status).toBe(status)
    expect([app.runs(), await orders(), await records()]).toEqual([2, 0, 0])
  })

  it('replays a refusal without its writes after rollback()', async () => {
    await using app = await start(async ({ rollback }, res) => {
      await rollback()
      res.status(409).end('sold out')
    })
    for (let i = 0; i < 2; i++)
      expect(await app.post()).toMatchObject({ status: 409, body: 'sold out' })
    expect([app.runs(), await orders(), await records()]).toEqual([1, 0, 1])
  })

  it('commits a 500 after keep()', async () => {
    await using app = await start(({ keep }, res) => {
      keep()
      res.status(500).end('noted')
    })
    for (let i = 0; i < 2; i++)
      expect(await app.post()).toMatchObject({ status: 500, body: 'noted' })
    expect([app.runs(), await orders(), await records()]).toEqual([1, 1, 1])
  })

  it.each([
    ['fails with the handler', 'select 1 / 0', 'idempotency-transaction-failed', 0],
    ['is committed by the handler', 'commit', 'idempotency-transaction-ended', 1],
  ])('sends no 2xx if the transaction %s', async (_, text, code, written) => {
    await using app = await start(async (_attempt, res, query) => {
      await query(text).catch(() => {})
      res.status(201).end('made')
    })
    const { status, body } = await app.post()
    expect([status, JSON.parse(body)]).toEqual([500, expect.objectContaining({ code })])
    expect([await orders(), await records()]).toEqual([written, 0])
  })

  it('sends 503 and commits nothing if the handler waits for longer than idleMs', async () => {
    const open = `select 1 from pg_stat_activity where state = 'idle in transaction'`
    const handler: Handler = async (_, res) => {
      await waitUntil('it is over', async () => (await server().query(open)).length === 0)
      res.status(201).end('made')
    }
    await using app = await start(handler, {}, { idleMs: 1_000 })
    expect((await app.post()).status).toBe(503)
    expect([await orders(), await records()]).toEqual([0, 0])
  })

  it('runs once for 50 requests at a time over a pool with one connection', async () => {
    await using app = await start(
      (_, res) => res.status(201).end('made'),
      { onBusy: 'wait' },
      {},
      1,
    )
    const responses = await Promise.all(Array.from({ length: 50 }, () => app.post()))
    expect(new Set(responses.map(({ status, body }) => `${status} ${body}`))).toEqual(
      new Set(['201 made']),
    )
    expect([app.runs(), await orders()]).toEqual([1, 1])
  })

  it('runs once for requests that wait in two processes', async () => {
    const handler: Handler = (_, res) => res.status(201).end('made')
    await using a = await start(handler, { onBusy: 'wait' })
    await using b = await start(handler, { onBusy: 'wait' })
    const posts = Array.from({ length: 20 }, (_, i) => (i % 2 === 0 ? a : b).post())
    const statuses = (await Promise.all(posts)).map(({ status }) => status)
    expect([new Set(statuses), a.runs() + b.runs(), await orders()]).toEqual([new Set([201]), 1, 1])
  })

  describe('and a job with a transaction', () => {
    it('commits its writes with its result', async () => {
      await using app = await start(() => {})
      const insert = "insert into orders (item) values ('job') returning item"
      const job = () =>
        app.stampede.idempotent(
          'invoice:7',
          async ({ tx }) => (await (tx as unknown as pg.ClientBase).query(insert)).rows,
          { transaction: true },
        )
      expect([await job(), await job()]).toEqual([[{ item: 'job' }], [{ item: 'job' }]])
      expect(await orders()).toBe(1)
    })

    it('is inspected and settled by an operator', async () => {
      await using app = await start((_, res) => res.status(201).end('made'))
      await app.post()
      const key = { scope: 'user', key: 'k' }
      const { idempotency: operator } = app.stampede
      expect(await operator.inspect(key)).toMatchObject({
        state: 'completed',
        attempt: 1,
        response: { status: 201 },
      })
      expect(await operator.release(key)).toBe('refused')
      expect(await operator.release(key, { force: true })).toBe('settled')
      expect(await app.post()).toMatchObject({ status: 201, replayed: null })
      expect(await orders()).toBe(2)
    })
  })
})
