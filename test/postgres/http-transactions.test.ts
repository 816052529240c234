// Transactions that PostgreSQL ends, refuses or delays, and pools that are too small. In each case
// a response about a write is sent only if the write was committed, and the key takes effect once.

import { beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import type { Answer } from '../harness/load.ts'
import { createGate } from '../harness/origin.ts'
import { describePostgres, postgresOfFile } from '../harness/postgres.ts'
import { waitUntil } from '../harness/wait-until.ts'
import {
  insertOrder,
  type Orders,
  type OrdersOptions,
  startOrders,
  TABLES,
  type Tx,
} from './orders.ts'

/** Each response is that of the order with this id. */
function expectEach(answers: readonly Answer[], id: string | undefined): void {
  const seen = new Set(answers.map(({ status, body }) => `${status} ${body}`))
  expect(seen).toEqual(new Set([`201 ${JSON.stringify({ id })}`]))
}

const wait = { idempotency: { onBusy: { waitMs: 60_000 } } }

describePostgres('a POST in a transaction', () => {
  const server = postgresOfFile()
  beforeAll(async () => {
    await server().query(TABLES)
  })

  async function open(options?: OrdersOptions): Promise<Orders> {
    const app = await startOrders(server().url, options)
    onTestFinished(() => app[Symbol.asyncDispose]())
    return app
  }

  async function idsOf(key: string): Promise<string[]> {
    const rows = await server().query<{ id: string }>('select id from orders where key = $1', [key])
    return rows.map(({ id }) => id)
  }

  async function backendOf(tx: Tx): Promise<number> {
    const { rows } = await tx.query<{ pid: number }>('select pg_backend_pid() as pid')
    return rows[0]?.pid ?? 0
  }

  /** The first run calls `meanwhile` after its write. Later runs are undisturbed. */
  function onFirstRun(meanwhile: (tx: Tx) => Promise<unknown>): OrdersOptions {
    let runs = 0
    return {
      async handler(tx, req, res) {
        const id = await insertOrder(tx, req)
        if (++runs === 1) await meanwhile(tx)
        res.status(201).json({ id })
      },
    }
  }

  /** The first request fails, the second one succeeds, and the third one gets its response. */
  async function expectOnce(app: Orders, key: string, status: number): Promise<void> {
    expect((await app.post(key)).status).toBe(status)
    expect(await idsOf(key)).toEqual([])
    const second = await app.post(key)
    expect(second.status).toBe(201)
    expect(await idsOf(key)).toEqual([JSON.parse(second.body).id])
    expect((await app.post(key)).body).toBe(second.body)
    expect(await idsOf(key)).toHaveLength(1)
  }

  it('responds 503 if the session was terminated before the handler responds 201', async () => {
    const terminate = async (tx: Tx) => {
      const pid = await backendOf(tx)
      await server().query('select pg_terminate_backend($1, 10000)', [pid])
    }
    await expectOnce(await open(onFirstRun(terminate)), 'terminated', 503)
  })

  it('responds 500 if the handler fails because its session was terminated', async () => {
    const terminate = async (tx: Tx) => {
      const pid = await backendOf(tx)
      await server().query('select pg_terminate_backend($1, 10000)', [pid])
      await tx.query('select 1')
    }
    await expectOnce(await open(onFirstRun(terminate)), 'terminated-in-a-query', 500)
  })

  it('responds 503 if the transaction was idle for longer than idleMs', async () => {
    const idle = async (tx: Tx) => {
      const pid = await backendOf(tx)
      const session = 'select 1 from pg_stat_activity where pid = $1'
      await waitUntil(
        'PostgreSQL ends the session',
        async () => (await server().query(session, [pid])).length === 0,
      )
    }
    const app = await open({ ...onFirstRun(idle), postgres: { idleMs: 1_000 } })
    await expectOnce(app, 'idle', 503)
  })

  it('responds 500 to a handler that responds 201 after a failed statement', async () => {
    const swallow = async (tx: Tx) => {
      await expect(tx.query('select 1 / 0')).rejects.toMatchObject({ code: '22012' })
    }
    await expectOnce(await open(onFirstRun(swallow)), 'aborted', 500)
  })

  it('rolls back if the handler does not get a lock within lock_timeout', async () => {
    const [locks, isOver] = [createGate(), createGate()]
    const other = await open({
      async handler(tx, _req, res) {
        await tx.query(`update stock set pieces = pieces - 1 where article = 'c'`)
        locks.open()
        await isOver.opened
        res.status(204).end()
      },
    })
    const held = other.post('holds-the-row')
    await locks.opened
    const app = await open(
      onFirstRun(async (tx) => {
        await tx.query(`set local lock_timeout = '20ms'`)
        const locked = tx.query(`update stock set pieces = 0 where article = 'c'`)
        await expect(locked).rejects.toMatchObject({ code: '55P03' })
        await locked
      }),
    )
    await expectOnce(app, 'locked', 500)
    isOver.open()
    expect((await held).status).toBe(204)
    const stock = await server().query(`select pieces from stock where article = 'c'`)
    expect(stock).toEqual([{ pieces: 9 }])
  })

  it('rolls one of two handlers back that wait for the locks of each other', async () => {
    let updated = 0
    const app = await open({
      async handler(tx, req, res) {
        const id = await insertOrder(tx, req)
        const { articles } = req.body as { articles: string[] }
        for (const [index, article] of articles.entries()) {
          await tx.query('update stock set pieces = pieces - 1 where article = $1', [article])
          if (index === 0) updated++
          if (index === 0) await waitUntil('both have a lock', () => updated >= 2)
        }
        res.status(201).json({ id })
      },
    })
    const bodies = { forth: { articles: ['a', 'b'] }, back: { articles: ['b', 'a'] } }
    const answers = await Promise.all(
      Object.entries(bodies).map(([key, body]) => app.post(key, body)),
    )
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(1)
    for (const [key, body] of Object.entries(bodies)) {
      const again = await app.post(key, body)
      expect(again.status).toBe(201)
      expect(await idsOf(key)).toEqual([JSON.parse(again.body).id])
    }
  })

  it('answers 50 duplicates with a pool of one connection', async () => {
    const app = await open({ max: 1, ...wait })
    const answers = await Promise.all(Array.from({ length: 50 }, () => app.post('pool-of-one')))
    const [id] = await idsOf('pool-of-one')
    expectEach(answers, id)
    expect(await idsOf('pool-of-one')).toHaveLength(1)
  })

  it('answers other keys while 50 duplicates wait in a pool of two connections', async () => {
    const [runs, gate] = [createGate(), createGate()]
    const app = await open({
      max: 2,
      ...wait,
      async handler(tx, req, res) {
        const id = await insertOrder(tx, req)
        runs.open()
        if (req.get('idempotency-key') === 'slow') await gate.opened
        res.status(201).json({ id })
      },
    })
    const slow = Array.from({ length: 50 }, () => app.post('slow'))
    await runs.opened
    await waitUntil('all duplicates have arrived', () => app.arrived() === 50)
    expect((await app.post('quick')).status).toBe(201)
    gate.open()
    const [id] = await idsOf('slow')
    expectEach(await Promise.all(slow), id)
  })

  it('uses at most 2 connections for 200 duplicates of a slow key', async () => {
    const [runs, gate] = [createGate(), createGate()]
    const app = await open({
      ...wait,
      async handler(tx, req, res) {
        const id = await insertOrder(tx, req)
        runs.open()
        await gate.opened
        res.status(201).json({ id })
      },
    })
    const first = app.post('slow-for-200')
    await runs.opened
    const duplicates = Array.from({ length: 199 }, () => app.post('slow-for-200'))
    await waitUntil('all duplicates have arrived', () => app.arrived() === 200)
    expect(app.pool.totalCount).toBeLessThanOrEqual(2)
    gate.open()
    const answers = await Promise.all([first, ...duplicates])
    const [id] = await idsOf('slow-for-200')
    // At most 100 requests of a process wait for a key. Others get 409.
    const refused = answers.filter(({ status }) => status === 409)
    expect(refused.length).toBeLessThan(100)
    expectEach(
      answers.filter((answer) => !refused.includes(answer)),
      id,
    )
    expect(await idsOf('slow-for-200')).toHaveLength(1)
    expect(app.pool.totalCount).toBeLessThanOrEqual(2)
  })

  describe.each(['read committed', 'repeatable read', 'serializable'] as const)(
    '%s',
    (isolation) => {
      const key = isolation.replace(' ', '-')
      const idempotency = { transaction: { isolation }, onBusy: { waitMs: 60_000 } }

      it('takes effect once for 40 duplicates in two processes', async () => {
        const both = [await open({ idempotency }), await open({ idempotency })]
        const posts = Array.from({ length: 20 }, () => both.map((app) => app.post(key))).flat()
        const answers = await Promise.all(posts)
        const [id] = await idsOf(key)
        expectEach(answers, id)
        expect(await idsOf(key)).toHaveLength(1)
      })

      it('runs the handler in this isolation', async () => {
        const app = await open({
          idempotency,
          async handler(tx, _req, res) {
            res.json((await tx.query('show transaction_isolation')).rows)
          },
        })
        const { body } = await app.post(`level-${key}`)
        expect(JSON.parse(body)).toEqual([{ transaction_isolation: isolation }])
      })
    },
  )
})
