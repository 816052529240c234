// `stampede idempotency --postgres`: keys of an app that keeps them in PostgreSQL.

import { createStampede } from '@stampede/core'
import { postgresStore } from '@stampede/postgres'
import pg from 'pg'
import { beforeAll, expect, it, onTestFinished } from 'vitest'
import { commandLine, program } from '../harness/command-line.ts'
import { describePostgres, postgresOfFile } from '../harness/postgres.ts'

const STAMPEDE_SECRET = 'a secret of at least 32 characters'
const NO_REDIS = 'redis://127.0.0.1:1'

// The start of Node takes long on a busy machine.
describePostgres('stampede idempotency --postgres', { timeout: 120_000 }, () => {
  const server = postgresOfFile()
  const env = () => ({ STAMPEDE_SECRET, DATABASE_URL: server().url })
  const run = (...args: string[]) =>
    commandLine(NO_REDIS, env())('idempotency', ...args, '--postgres')
  beforeAll(async () => {
    const pool = new pg.Pool({ connectionString: server().url })
    await postgresStore(pool).migrate()
    await pool.end()
  })

  function open() {
    const pool = new pg.Pool({ connectionString: server().url })
    const idempotency = { store: postgresStore(pool), secret: STAMPEDE_SECRET }
    const stampede = createStampede({ idempotency })
    onTestFinished(async () => {
      await stampede.close()
      await pool.end()
    })
    return stampede
  }

  it('lists keys, shows one and settles one, without Redis', async () => {
    const stampede = open()
    const job = (value: string) => stampede.idempotent('invoice:7', () => value)
    await expect(
      stampede.idempotent('invoice:7', () => Promise.reject(new Error('x'))),
    ).rejects.toThrow()
    const transaction = { transaction: true } as const
    await stampede.idempotent(
      'order:1',
      ({ tx }) => tx.query('select 1').then(() => 7),
      transaction,
    )

    const { records } = JSON.parse((await run('list', '--json')).out)
    expect(records.map(({ state }: { state: string }) => state).sort()).toEqual([
      'completed',
      'released',
    ])
    expect((await run('show', 'invoice:7', '--job')).out).toMatch(/^state +released$/m)
    expect((await run('show', 'order:1', '--job')).out).toMatch(/^value +7$/m)
    const settle = ['settle', 'invoice:7', '--job', '--value', '"by hand"']
    expect((await run(...settle)).code).toBe(0)
    expect(await job('again')).toBe('by hand')
    expect((await run('settle', 'order:1', '--job', '--release')).code).toBe(1)
  })

  it('runs as a program', async () => {
    const ran = await program(NO_REDIS, env())('idempotency', 'list', '--postgres')
    expect(ran.code).toBe(0)
    expect(ran.err).toBe('')
  })

  it('says how to fix a missing URL, missing tables, and a server that is away', async () => {
    const without = await commandLine(NO_REDIS)('idempotency', 'list', '--postgres')
    expect([without.code, without.err]).toEqual([2, expect.stringContaining('set DATABASE_URL')])
    const tables = await run('list', '--schema', 'other')
    expect([tables.code, tables.err]).toEqual([2, expect.stringContaining('store.migrate()')])
    const away = { ...env(), DATABASE_URL: 'postgres://postgres@127.0.0.1:1/postgres' }
    const gone = await commandLine(NO_REDIS, away)('idempotency', 'list', '--postgres')
    expect([gone.code, gone.err]).toEqual([3, expect.stringContaining('ECONNREFUSED')])
    const schema = await commandLine(NO_REDIS)('idempotency', 'list', '--schema', 'a')
    expect([schema.code, schema.err]).toEqual([2, expect.stringContaining('needs --postgres')])
  })
})
