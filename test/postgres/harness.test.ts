// The servers and the proxy of the tests in this folder.

import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import pg from 'pg'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { describePostgres, postgresOfFile } from '../harness/postgres.ts'
import { type PostgresProxy, startPostgresProxy } from '../harness/postgres-proxy.ts'
import { waitUntil } from '../harness/wait-until.ts'

describePostgres('a cluster behind the proxy', () => {
  const server = postgresOfFile()
  let proxy: PostgresProxy
  beforeAll(async () => {
    await server().query('create table t (n int)')
    proxy = await startPostgresProxy(server().port)
  })
  afterAll(() => proxy?.stop())

  async function connect(): Promise<pg.Client> {
    const client = new pg.Client(proxy.url)
    client.on('error', () => {})
    await client.connect()
    return client
  }

  it('counts requests with their SQL, in both protocols', async () => {
    const client = await connect()
    proxy.intercept()
    await client.query('begin; insert into t values (1)')
    await client.query('insert into t values ($1)', [2])
    const named = { name: 'third', text: 'insert into t values ($1)', values: [3] }
    await client.query(named)
    await client.query(named)
    await client.query('commit')
    await client.end()
    expect(proxy.requests().map(({ number, text }) => [number, text])).toEqual([
      [1, 'begin; insert into t values (1)'],
      [2, 'insert into t values ($1)'],
      [3, 'insert into t values ($1)'],
      [4, 'insert into t values ($1)'],
      [5, 'commit'],
    ])
    expect(proxy.roundTrips()).toBe(5)
    expect(await server().query('select count(*)::int as count from t')).toEqual([{ count: 4 }])
  })

  it('counts commits that wrote something', async () => {
    const client = await connect()
    const commits = await server().commitsOf(async () => {
      await client.query('select 1')
      await client.query('begin; select count(*) from t; commit')
      await client.query('begin; insert into t values (5); commit')
      await client.query('begin; insert into t values (6); rollback')
      await client.query('insert into t values (7)')
    })
    await client.end()
    expect(commits).toBe(2)
    expect(await server().commitsOf(async () => {})).toBe(0)
  })

  it('knows the process of the server that has the connection', async () => {
    const client = await connect()
    proxy.intercept()
    const { rows } = await client.query('select pg_backend_pid() as pid')
    expect(proxy.requests()[0]?.backend).toBe(rows[0].pid)
    await client.end()
  })

  it('cuts a connection before the server has the request, or before the reply', async () => {
    for (const [at, count] of [
      ['request', 0],
      ['reply', 1],
    ] as const) {
      await server().query('truncate t')
      const client = await connect()
      proxy.intercept({ [at]: () => 'cut' as const })
      await expect(client.query('insert into t values (1)')).rejects.toThrow()
      proxy.intercept()
      expect(await server().query('select count(*)::int as count from t')).toEqual([{ count }])
    }
  })

  it('leaves the session open if the worker alone loses the connection', async () => {
    const client = await connect()
    await client.query('begin; insert into t values (1)')
    proxy.intercept({ request: () => 'part' })
    await expect(client.query('commit')).rejects.toThrow()
    proxy.intercept()
    const idle = `select pid from pg_stat_activity where state = 'idle in transaction'`
    const [session] = await server().query<{ pid: number }>(idle)
    expect(session).toBeDefined()
    await server().query('select pg_terminate_backend($1, 10000)', [session?.pid])
    expect(await server().query(idle)).toEqual([])
  })

  it('holds a reply until the test lets it go', async () => {
    const client = await connect()
    let letGo = () => {}
    const held = new Promise<void>((resolve) => {
      letGo = resolve
    })
    proxy.intercept({
      async reply() {
        await held
        return 'forward' as const
      },
    })
    let isDone = false
    const reply = client.query('truncate t; insert into t values (1)').then(() => {
      isDone = true
    })
    await waitUntil('the row is there', async () => (await server().query('table t')).length === 1)
    expect(isDone).toBe(false)
    letGo()
    await reply
    proxy.intercept()
    await client.end()
  })

  it('keeps committed rows when the postmaster is killed', async () => {
    await server().query('truncate t; insert into t values (42)')
    const { pid } = server()
    await server().restart()
    expect(server().pid).not.toBe(pid)
    expect(await server().query('table t')).toEqual([{ n: 42 }])
  })

  it('freezes with all its processes', async () => {
    const client = new pg.Client(server().url)
    client.on('error', () => {})
    await client.connect()
    await server().pause()
    const reply = client.query('select 1')
    const { stdout } = await promisify(execFile)('ps', ['-o', 'state=', '-p', `${server().pid}`])
    expect(stdout).toMatch(/^T/)
    await server().resume()
    await reply
    await client.end()
  })
})
