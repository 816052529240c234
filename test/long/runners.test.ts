// The runners of @stampede/postgres with their real clients. A folder of its own has the clients,
// and this test installs it.

import { spawnSync } from 'node:child_process'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { createStampede } from '@stampede/core'
import {
  fromDrizzle,
  fromKnex,
  fromKysely,
  fromPostgresJs,
  fromPrisma,
  postgresStore,
} from '@stampede/postgres'
import pg from 'pg'
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { installOnDemand } from '../../tools/on-demand.mjs'
import { describePostgres, postgresOfFile } from '../harness/postgres.ts'

const FOLDER = fileURLToPath(new URL('../harness/drivers', import.meta.url))
installOnDemand(FOLDER)
const { resolve } = createRequire(join(FOLDER, 'package.json'))
// biome-ignore lint/suspicious/noExplicitAny: the packages are not there when types are checked.
const load = async (name: string): Promise<any> => import(pathToFileURL(resolve(name)).href)

// biome-ignore lint/suspicious/noExplicitAny: each client has another type of transactions.
type Tx = any

interface Driver {
  readonly runner: ReturnType<typeof fromPostgresJs<Tx>>
  /** Writes a row with the client's own way. */
  insert(tx: Tx, id: number): Promise<unknown>
  close(): Promise<unknown>
}

const INSERT = 'insert into written values'

const DRIVERS: Readonly<Record<string, (url: string) => Promise<Driver>>> = {
  async 'Drizzle on node-postgres'(url) {
    const [{ drizzle }, { sql }] = await Promise.all([
      load('drizzle-orm/node-postgres'),
      load('drizzle-orm'),
    ])
    const pool = new pg.Pool({ connectionString: url })
    return {
      runner: fromDrizzle<unknown, Tx>(drizzle(pool), sql),
      insert: (tx, id) => tx.execute(sql`insert into written values (${id})`),
      close: () => pool.end(),
    }
  },
  async 'Drizzle on postgres.js'(url) {
    const [{ drizzle }, { sql }, { default: postgres }] = await Promise.all([
      load('drizzle-orm/postgres-js'),
      load('drizzle-orm'),
      load('postgres'),
    ])
    const client = postgres(url)
    return {
      runner: fromDrizzle<unknown, Tx>(drizzle(client), sql),
      insert: (tx, id) => tx.execute(sql`insert into written values (${id})`),
      close: () => client.end(),
    }
  },
  async Kysely(url) {
    const { Kysely, PostgresDialect, CamelCasePlugin } = await load('kysely')
    const pool = new pg.Pool({ connectionString: url })
    const dialect = new PostgresDialect({ pool })
    const db = new Kysely({ dialect, plugins: [new CamelCasePlugin()] })
    return {
      runner: fromKysely<Tx>(db),
      insert: (tx, id) => tx.insertInto('written').values({ id }).execute(),
      close: () => db.destroy(),
    }
  },
  async Knex(url) {
    const { default: knex } = await load('knex')
    const db = knex({ client: 'pg', connection: url })
    return {
      runner: fromKnex<Tx>(db),
      insert: (tx, id) => tx('written').insert({ id }),
      close: () => db.destroy(),
    }
  },
  async 'postgres.js'(url) {
    const { default: postgres } = await load('postgres')
    const sql = postgres(url)
    return {
      runner: fromPostgresJs<Tx>(sql),
      insert: (tx, id) => tx.unsafe(`${INSERT} ($1)`, [id]),
      close: () => sql.end(),
    }
  },
  async Prisma(url) {
    // The program wants to download an engine for migrations, which it does not run here.
    const env = { ...process.env, PRISMA_SCHEMA_ENGINE_BINARY: process.execPath }
    const { status, stderr } = spawnSync('npx', ['prisma', 'generate'], {
      cwd: FOLDER,
      encoding: 'utf8',
      env,
    })
    if (status !== 0) throw new Error(`prisma generate: ${stderr}`)
    const [{ PrismaClient }, { PrismaPg }] = await Promise.all([
      load('@prisma/client'),
      load('@prisma/adapter-pg'),
    ])
    const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString: url }) })
    return {
      runner: fromPrisma<Tx>(prisma),
      insert: (tx, id) => tx.written.create({ data: { id } }),
      close: () => prisma.$disconnect(),
    }
  },
}

describePostgres('a runner', () => {
  const server = postgresOfFile()
  const written = async () =>
    (await server().query('select id from written order by id')).map(({ id }) => Number(id))
  beforeAll(() => server().query('create table written (id int primary key)'))
  beforeEach(() => server().query('truncate written'))

  describe.each(Object.entries(DRIVERS))('of %s', (name, open) => {
    let driver: Driver
    beforeAll(async () => {
      driver = await open(server().url)
    })
    afterAll(() => driver?.close())

    it('replies with a flat array of rows, for values in any order', async () => {
      const rows = await driver.runner.begin((tx) =>
        driver.runner.query(
          tx,
          `select $2::text as two, $1::int as one, $1::int + 1 as more, '?' as mark,
            $3::text as nothing, encode($4::bytea, 'hex') as bytes`,
          [1, 'two $1 ?', null, Buffer.from([0, 255])],
        ),
      )
      expect(rows).toEqual([
        { two: 'two $1 ?', one: 1, more: 2, mark: '?', nothing: null, bytes: '00ff' },
      ])
      expect(Array.isArray(rows)).toBe(true)
    })

    it('replies with an empty array if a statement has no rows', async () => {
      const { runner } = driver
      const rows = await runner.begin(async (tx) => {
        const first = await runner.query(tx, 'savepoint handler', [])
        const second = await runner.query(tx, `${INSERT} ($1)`, [7])
        // Kysely replies with the command.
        await runner.query(tx, 'rollback to savepoint handler', [])
        return [first, second, await runner.query(tx, 'release savepoint handler', [])]
      })
      expect(rows).toEqual([[], [], []])
      expect(await written()).toEqual([])
    })

    it('commits when the function resolves, and rolls back when it rejects', async () => {
      const { runner, insert } = driver
      expect(await runner.begin((tx) => insert(tx, 1).then(() => 'done'))).toBe('done')
      const failed = runner.begin(async (tx) => {
        await insert(tx, 2)
        throw new Error('as asked')
      })
      await expect(failed).rejects.toThrow('as asked')
      expect(await written()).toEqual([1])
    })

    it('commits the writes of a job with its result, or not at all', async () => {
      const pool = new pg.Pool({ connectionString: server().url })
      onTestFinished(() => pool.end())
      const store = postgresStore(pool)
      await store.migrate()
      const secret = 'a secret of thirty-two characters'
      const stampede = createStampede({ idempotency: { store, secret } })
      const { runner: transaction, insert } = driver
      const run = (key: string, id: number, fails = false) =>
        stampede.idempotent(
          `${name}:${key}`,
          async ({ tx }: { tx: Tx }) => {
            await insert(tx, id)
            if (fails) throw new Error('as asked')
            return { id }
          },
          { transaction },
        )
      expect(await run('kept', 1)).toEqual({ id: 1 })
      expect(await run('kept', 2)).toEqual({ id: 1 })
      await expect(run('failed', 3, true)).rejects.toThrow('as asked')
      expect(await run('failed', 4)).toEqual({ id: 4 })
      expect(await written()).toEqual([1, 4])
      await stampede.close()
    })
  })
})
