// The states that postgresStore refuses: wrong options, missing or newer tables, servers that may
// not be written. And its migrations.

import { newToken } from '@stampede/core/store'
import { migrations, postgresStore } from '@stampede/postgres'
import pg from 'pg'
import { describe, expect, it } from 'vitest'
import { describePostgres, postgresOfFile } from '../harness/postgres.ts'
import { PRINTS, startStore } from '../harness/postgres-attempts.ts'

const OPTION = 'ERR_STAMPEDE_OPTION'
const UNAVAILABLE = 'ERR_STAMPEDE_STORE_UNAVAILABLE'

describe('postgresStore() refuses', () => {
  const prisma = { $connect() {}, $transaction() {}, $queryRawUnsafe() {} }
  const postgresJs = Object.assign(() => {}, { begin() {}, unsafe() {}, options: {} })

  it.each([
    ['nothing', undefined],
    ['postgres.js', postgresJs],
    ['Prisma', prisma],
    ['a single client of pg', new pg.Client()],
    ['a URL', 'postgres://localhost'],
  ])('%s instead of a pool, and names the runners', (_, pool) => {
    const message = expect.stringContaining('transaction: fromPostgresJs(sql)')
    expect(() => postgresStore(pool as never)).toThrow(
      expect.objectContaining({ code: OPTION, message }),
    )
  })

  it.each([
    ['schema', { schema: 'a-b' }],
    ['schema', { schema: '' }],
    ['schema', { schema: 'x'.repeat(41) }],
    ['schema', { schema: 'a"; drop table orders; --' }],
    ['idleMs', { idleMs: 999 }],
    ['wait', { wait: 'push' }],
    ['sweepEveryMs', { sweepEveryMs: 1 }],
  ])('a wrong or unknown option %s', (name, options) => {
    const message = expect.stringContaining(`postgresStore.${name}`)
    expect(() => postgresStore(new pg.Pool(), options as never)).toThrow(
      expect.objectContaining({ code: OPTION, message }),
    )
  })
})

describePostgres('a store in PostgreSQL', () => {
  const server = postgresOfFile()
  const start = (options = {}, config: pg.PoolConfig = {}) =>
    startStore({ connectionString: server().url, ...config }, options)

  it('without its tables says how to create them, and works after migrate()', async () => {
    await using process = start({ schema: 'missing' })
    for (const transaction of [{}, undefined]) {
      await expect(process.begin('k', { transaction })).rejects.toMatchObject({
        code: OPTION,
        message: expect.stringContaining(
          'tables are missing in schema "missing"; await store.migrate(), or run migrations()',
        ),
      })
    }
    await process.store.migrate()
    await (await process.open('k')).complete()
  })

  it('is not created on a version that is too old', async () => {
    // As if this version was too old.
    const sql = migrations('too_old')[0]?.sql.replace('< 130000', '< 990000') ?? ''
    const message = expect.stringMatching(/^Stampede needs PostgreSQL 13 or newer, and this is 1\d/)
    await expect(server().query(sql)).rejects.toMatchObject({ code: '0A000', message })
  })

  it('compresses responses by LZ4 if the server can', async () => {
    await using process = start({ schema: 'compressed' })
    await process.store.migrate()
    const [can] = await server().query(
      `select 1 from pg_settings
       where name = 'default_toast_compression' and 'lz4' = any(enumvals)`,
    )
    // A server before 14 has no such column.
    const method = `coalesce(to_jsonb(a) ->> 'attcompression', '')`
    const rows = await server().query(
      `select ${method} as method from pg_attribute a
       where attrelid = 'compressed.idempotency'::regclass and attname = 'frame'`,
    )
    expect(rows).toEqual([{ method: can === undefined ? '' : 'l' }])
  })

  it('creates its tables once when many processes migrate at a time', async () => {
    const processes = Array.from({ length: 5 }, () => start({ schema: 'Parallel_1' }))
    await Promise.all(processes.map(({ store }) => store.migrate()))
    const ids = await server().query('select id from "Parallel_1".migration order by id')
    expect(ids).toEqual(migrations('Parallel_1').map(({ id }) => ({ id })))
    for (const process of processes) {
      await process.store.migrate()
      await (await process.open(`${processes.indexOf(process)}`)).complete()
      await process[Symbol.asyncDispose]()
    }
  })

  describe('with a default isolation of serializable', () => {
    const strict = { options: '-c default_transaction_isolation=serializable' }

    it('creates its tables once when many processes migrate at a time', async () => {
      const processes = Array.from({ length: 5 }, () => start({ schema: 'strict' }, strict))
      await Promise.all(processes.map(({ store }) => store.migrate()))
      const ids = await server().query('select id from strict.migration')
      expect(ids).toHaveLength(migrations().length)
      for (const process of processes) await process[Symbol.asyncDispose]()
    })

    it('rejects no request for a lease or lock because of another request', async () => {
      const processes = Array.from({ length: 4 }, () => start({}, strict))
      await processes[0]?.store.migrate()
      const work = async ({ store, begin }: (typeof processes)[number]) => {
        for (let i = 0; i < 25; i++) {
          const lease = { token: newToken(), leaseMs: 10_000, queue: false }
          const lock = await store.locks.acquire('strict', lease as never)
          if (lock.status === 'granted') await store.locks.release(lock.grant)
          const reply = await begin(`lease ${i}`, { transaction: undefined })
          if (reply.status !== 'begun') continue
          const end = { as: 'completed', frame: Buffer.from(''), keepMs: 60_000 } as const
          expect(await store.idempotency.finish(reply.grant, end, PRINTS)).toBe('finished')
        }
      }
      await Promise.all(processes.map(work))
      for (const process of processes) await process[Symbol.asyncDispose]()
    })
  })

  it('uses no operator and no function of another schema', async () => {
    await using process = start({ schema: 'hijacked' })
    await process.store.migrate()
    const hijack = (name: string, types: string, returns: string) =>
      server().query(`create function public.${name}(${types}) returns ${returns}
        language plpgsql as $$ begin raise 'hijacked'; end $$`)
    const operators = [
      ['bigint', 'interval'],
      ['numeric', 'integer'],
      ['double precision', 'integer'],
    ]
    for (const [left, right] of operators) {
      await hijack('hijack', `${left}, ${right}`, left === 'bigint' ? 'interval' : `${left}`)
      await server().query(`create operator public.*
        (function = public.hijack, leftarg = ${left}, rightarg = ${right})`)
    }
    // Better matches than the function of PostgreSQL, which takes values of any type.
    const begun = 'text, text, text, text, text, integer, text, boolean, text, json'
    await hijack('json_build_object', begun, 'json')
    await hijack('json_build_object', 'text, text, text, bigint, text, text', 'json')
    await hijack('json_build_object', 'text, boolean, text, text, text, bigint', 'json')
    try {
      await (await process.open('k')).complete()
      expect((await process.begin('k')).status).toBe('completed')
      expect((await process.begin('lease', { transaction: undefined })).status).toBe('begun')
      const lease = { token: newToken(), leaseMs: 10_000, queue: false }
      const lock = await process.store.locks.acquire('k', lease as never)
      if (lock.status === 'granted') await process.store.locks.release(lock.grant)
      expect(lock.status).toBe('granted')
    } finally {
      for (const [left, right] of operators)
        await server().query(`drop function public.hijack(${left}, ${right}) cascade`)
      await server().query(`do $$ declare f regprocedure; begin for f in select oid from pg_proc
        where proname = 'json_build_object' and pronamespace = 'public'::regnamespace
        loop execute 'drop function ' || f; end loop; end $$`)
    }
  })

  it('accepts tables that a migration tool created', async () => {
    for (const { sql } of migrations('by_tool')) await server().query(sql)
    await using process = start({ schema: 'by_tool' })
    await process.store.migrate()
    expect(await (await process.open('k')).complete()).toBe('finished')
  })

  it('refuses tables with a newer layout', async () => {
    await using process = start({ schema: 'newer' })
    await process.store.migrate()
    await server().query(`insert into newer.migration (id) values ('from the future')`)
    const { length } = migrations()
    const message = `table layout ${length + 1} is newer than this version (${length})`
    await expect(process.begin('k')).rejects.toMatchObject({
      code: OPTION,
      message: expect.stringContaining(message),
    })
  })

  it.each([
    ['a transaction', {}],
    ['a lease', undefined],
  ])(
    'is unavailable for attempts with %s on a server that is read-only',
    async (kept, transaction) => {
      await using writer = start()
      await writer.store.migrate()
      await (await writer.open(kept)).complete()
      await using process = start({}, { options: '-c default_transaction_read_only=on' })
      for (const key of ['new', kept])
        await expect(process.begin(key, { transaction })).rejects.toMatchObject({
          code: UNAVAILABLE,
          message: expect.stringContaining('SQLSTATE 25006'),
        })
    },
  )

  it('is unavailable for a role that may not write', async () => {
    await using owner = start()
    await owner.store.migrate()
    await server().query('create role reader login')
    await server().query('grant usage on schema stampede to reader')
    await server().query('grant select, delete on all tables in schema stampede to reader')
    await using process = start(
      {},
      {
        user: 'reader',
        connectionString: undefined,
        host: server().host,
        port: server().port,
        database: 'postgres',
      },
    )
    await expect(process.begin('lease', { transaction: undefined })).rejects.toMatchObject({
      code: UNAVAILABLE,
      message: expect.stringContaining('SQLSTATE 42501'),
    })
    // Such a role cannot keep the response, so nothing is committed.
    expect(await (await process.open('k')).complete()).toBe('unknown')
    expect(process.errors).toMatchObject([{ code: '42501' }])
  })

  it('is unavailable without a server, and starts nothing twice when the server is back', async () => {
    await using process = start()
    await process.store.migrate()
    await (await process.open('before')).complete()
    await server().kill()
    await expect(process.begin('k')).rejects.toMatchObject({ code: UNAVAILABLE })
    await server().restart()
    await (await process.open('k')).complete()
    expect((await process.begin('before')).status).toBe('completed')
  })

  it('lists uncertain records first, and reads a page of rows, however many there are', async () => {
    await using process = start({ schema: 'listed' }, { max: 1 })
    await process.store.migrate()
    const columns = '(key, state, exact, canonical, fence, expires_at)'
    const rest = `'', '', 1, now() + interval '1 day'`
    const insert = (values: string) =>
      server().query(`insert into listed.idempotency ${columns} ${values}`)
    const key = `convert_to('done ' || i, 'UTF8')`
    await insert(`select ${key}, 'completed', ${rest} from generate_series(1, 20000) i`)
    await insert(`values ('open', 'uncertain', ${rest})`)
    await server().query('analyze listed.idempotency')
    // A server before 15 has no such function, and counts rows some time later.
    const flush = `do $$ begin perform pg_stat_force_next_flush();
      exception when undefined_function then null; end $$`
    const rowsRead = async () => {
      await process.pool.query(flush)
      const [row] = await server().query(`select seq_tup_read + idx_tup_fetch as sum
        from pg_stat_user_tables where schemaname = 'listed' and relname = 'idempotency'`)
      return Number(row?.sum)
    }
    const before = await rowsRead()
    const { idempotency } = process.store
    const first = await idempotency.list('', 100)
    expect(first.records).toMatchObject([{ key: 'open', state: 'uncertain' }])
    const states = []
    for (let { cursor } = first; states.length < 4; ) {
      const page = await idempotency.list(cursor, 100)
      states.push(page.records.length)
      cursor = page.cursor
    }
    expect(states).toEqual([0, 0, 100, 100])
    expect((await rowsRead()) - before).toBeLessThan(1_000)
  })

  it('lists the records after a page of which one is deleted meanwhile', async () => {
    await using process = start({ schema: 'paged' }, { max: 3 })
    await process.store.migrate()
    await server().query(`insert into paged.idempotency
      (key, state, exact, canonical, fence, expires_at)
      select convert_to('key ' || i, 'UTF8'), 'uncertain', '', '', 1, now() + interval '1 day'
      from generate_series(1, 4) i`)
    const { idempotency } = process.store
    await idempotency.inspect('key 1')
    const other = await process.pool.connect()
    // The list has the keys of its page, and waits for this table.
    await other.query('begin; lock table paged.idempotency_step in access exclusive mode')
    const listing = idempotency.list('', 2)
    const waiting = `select from pg_locks where not granted
      and relation = 'paged.idempotency_step'::regclass`
    await expect.poll(() => server().query(waiting), { timeout: 20_000 }).toHaveLength(1)
    await other.query(`delete from paged.idempotency where key = 'key 2'; commit`)
    other.release()
    const first = await listing
    expect(first.records.map(({ key }) => key)).toEqual(['key 1'])
    const next = await idempotency.list(first.cursor, 2)
    expect(next.records.map(({ key }) => key)).toEqual(['key 3', 'key 4'])
  })

  it('deletes expired records, and no others', async () => {
    await using process = start({ schema: 'swept' })
    await process.store.migrate()
    for (const key of ['a', 'b', 'c']) await (await process.open(key)).complete()
    await server().query(`update swept.idempotency set expires_at = now() where key <> 'c'`)
    const [row] = await server().query('select swept.sweep() as deleted')
    expect(row).toEqual({ deleted: '2' })
    expect(await server().query('select key from swept.idempotency')).toHaveLength(1)
  })
})
