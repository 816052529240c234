// Costs of a POST in a transaction: round trips, counted by a proxy, and commits, counted in the
// write-ahead log of the server.

import pg from 'pg'
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest'
import { createGate } from '../harness/origin.ts'
import { describePostgres, postgresOfFile } from '../harness/postgres.ts'
import { startStore } from '../harness/postgres-attempts.ts'
import { type PostgresProxy, startPostgresProxy } from '../harness/postgres-proxy.ts'
import { waitUntil } from '../harness/wait-until.ts'
import { insertOrder, type Orders, type OrdersOptions, startOrders, TABLES } from './orders.ts'

/** Statements of the handler. */
const HANDLER = 1

describePostgres('a POST with its record in PostgreSQL', () => {
  // Without autovacuum, only clients commit.
  const server = postgresOfFile({ settings: { autovacuum: 'off' } })
  let proxy: PostgresProxy
  beforeAll(async () => {
    await server().query(TABLES)
    proxy = await startPostgresProxy(server().port)
  })
  afterAll(() => proxy?.stop())

  /** An app whose pool has a connection, and that listens. */
  async function open(url: string, options?: OrdersOptions): Promise<Orders> {
    const app = await startOrders(url, options)
    onTestFinished(() => app[Symbol.asyncDispose]())
    expect((await app.post(`warm-up-${Math.random()}`)).status).toBe(201)
    // Its test notice is a commit.
    await waitUntil('notices arrive', app.isReceiving)
    return app
  }

  /** Round trips and commits of the apps behind the proxy. */
  async function costOf(work: () => Promise<unknown>) {
    proxy.intercept()
    const commits = await server().commitsOf(work)
    return { roundTrips: proxy.roundTrips(), commits }
  }

  it('costs 2 round trips more than its handler, and one commit', async () => {
    const app = await open(proxy.url)
    const cost = await costOf(async () => expect((await app.post('first')).status).toBe(201))
    expect(cost).toEqual({ roundTrips: 2 + HANDLER, commits: 1 })
  })

  /** Another process runs the handler of this key until the gate opens. */
  async function hold(key: string) {
    const [runs, gate] = [createGate(), createGate()]
    const holder = await open(server().url, {
      async handler(tx, req, res) {
        const id = await insertOrder(tx, req)
        if (req.get('idempotency-key') === key) {
          runs.open()
          await gate.opened
        }
        res.status(201).json({ id })
      },
    })
    const response = holder.post(key)
    await runs.opened
    return { response, gate }
  }

  it('costs 2 round trips more than its handler without a transaction, and 2 commits', async () => {
    const app = await open(proxy.url, { idempotency: { transaction: false } })
    const cost = await costOf(async () => expect((await app.post('lease')).status).toBe(201))
    // The handler commits, too.
    expect(cost).toEqual({ roundTrips: 2 + HANDLER, commits: 2 + HANDLER })
  })

  it('costs 2 round trips and no commit if another process has the response', async () => {
    const other = await open(server().url)
    const app = await open(proxy.url)
    const { body } = await other.post('replay')
    const cost = await costOf(async () => expect((await app.post('replay')).body).toBe(body))
    expect(cost).toEqual({ roundTrips: 2, commits: 0 })
  })

  it('waits for 1 of these round trips: the response does not wait for ROLLBACK', async () => {
    const other = await open(server().url)
    const app = await open(proxy.url)
    const { body } = await other.post('replay-at-once')
    const gate = createGate()
    proxy.intercept({
      async request({ text }) {
        if (/^rollback/.test(text)) await gate.opened
        return 'forward' as const
      },
    })
    expect((await app.post('replay-at-once')).body).toBe(body)
    await waitUntil('ROLLBACK is held', () => proxy.requests().length === 2)
    gate.open()
  })

  it('costs nothing if this process has the response', async () => {
    const app = await open(proxy.url)
    const { body } = await app.post('replay-here')
    const cost = await costOf(async () => expect((await app.post('replay-here')).body).toBe(body))
    expect(cost).toEqual({ roundTrips: 0, commits: 0 })
  })

  it('costs 2 round trips and no commit if another process runs the handler', async () => {
    const app = await open(proxy.url)
    const { response, gate } = await hold('busy')
    const cost = await costOf(async () => expect((await app.post('busy')).status).toBe(409))
    gate.open()
    expect((await response).status).toBe(201)
    expect(cost).toEqual({ roundTrips: 2, commits: 0 })
  })

  it('costs at most 5 round trips for 50 requests while one waits for another process', async () => {
    const app = await open(proxy.url, { idempotency: { onBusy: { waitMs: 60_000 } } })
    const { response, gate } = await hold('waited-for')
    const texts = () => proxy.requests().map(({ text }) => text)
    proxy.intercept()
    const first = app.post('waited-for')
    await waitUntil('a look', () => texts().some((text) => /^select \S+claim/.test(text)))
    proxy.intercept()
    const before = app.arrived()
    const waiting = Array.from({ length: 50 }, () => app.post('waited-for'))
    await waitUntil('all have arrived', () => app.arrived() === before + 50)
    gate.open()
    const { body } = await response
    for (const answer of await Promise.all([first, ...waiting])) expect(answer.body).toBe(body)
    // Looks after 200, 400 and 800 ms, then the end of its lock, and the response.
    expect(texts().length, texts().join('\n')).toBeLessThanOrEqual(5)
  })

  it('commits once, and sends no notice without a waiter', async () => {
    await using process = startStore({ connectionString: server().url })
    // Its test of LISTEN is a commit, too.
    await waitUntil('it listens', () => process.store.idempotency.isReceiving === true)
    const heard: string[] = []
    const listener = new pg.Client(server().url)
    listener.on('error', () => {})
    await listener.connect()
    listener.on('notification', ({ payload = '' }) => void heard.push(payload))
    await listener.query('listen stampede')
    const commits = await server().commitsOf(async () => {
      const attempt = await process.open('notice')
      await attempt.tx.query("insert into orders (key) values ('notice')")
      await attempt.complete()
    })
    expect(commits).toBe(1)
    await (await process.open('released')).release()
    await listener.query("select pg_notify('stampede', 'last')")
    await waitUntil('the last notice', () => heard.includes('last'))
    expect(heard).toEqual(['last'])
    await listener.end()
  })
})
