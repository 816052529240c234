// Routes of Express and jobs in a transaction: what clients get, and what is in the tables.

import { createStampede } from '@stampede/core'
import { idempotency } from '@stampede/express'
import { postgresStore } from '@stampede/postgres'
import express from 'express'
import pg from 'pg'
import { beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { listen } from '../harness/apps.ts'
import { describePostgres, postgresOfFile } from '../harness/postgres.ts'

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
  async function start(handler: Handler) {
    const pool = new pg.Pool({ connectionString: server().url, max: 4 })
    pool.on('error', () => {})
    const store = postgresStore(pool)
    const secret = 'a secret of at least 32 characters'
    const stampede = createStampede({ idempotency: { store, secret } })
    const app = express()
    let runs = 0
    const guard = idempotency({ stampede, scope: () => 'user', transaction: true })
    app.post('/orders', guard, async (req, res) => {
      runs += 1
      const attempt = req.idempotency
      if (attempt === undefined) throw new Error('there is no attempt')
      const tx = attempt.tx as unknown as pg.ClientBase
      const query = tx.query.bind(tx)
      await query('insert into orders (item) values ($1)', ['book'])
      await handler(attempt, res, query)
    })
    const http = await listen(app)
    return {
      stampede,
      pool,
      runs: () => runs,
      async post(key = 'k') {
        const headers = { 'idempotency-key': `"${key}"` }
        const res = await fetch(`${http.url}/orders`, { method: 'POST', headers })
        const body = await res.text()
        return { status: res.status, body, replayed: res.headers.get('idempotency-replayed') }
      },
      async [Symbol.asyncDispose]() {
        await http[Symbol.asyncDispose]()
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
