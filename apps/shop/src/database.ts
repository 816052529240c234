// PostgreSQL inside this process (PGlite), as slow as a real server. Every query and every
// transaction takes `latencyMs`. The pool has a fixed number of connections, and a stampede
// exhausts it.

import { setTimeout as sleep } from 'node:timers/promises'
import type { PGlite } from '@electric-sql/pglite'
import { startPostgres } from './postgres.ts'
import { Problem } from './response.ts'
import { SEED } from './seed.ts'

export type Query = <Row>(sql: string, params: readonly unknown[]) => Promise<Row[]>

export interface Database {
  /** Number of queries that run at a time. Others wait in a queue. */
  readonly connections: number
  readonly latencyMs: number
  /** False: queries fail as if the server were down. The lab can set this. */
  connected: boolean
  query: Query
  /** Commits all of `work`, or nothing if it throws. */
  transaction<T>(work: (query: Query) => Promise<T>): Promise<T>
  /** Waits for running queries and rejects queued ones. */
  close(): Promise<void>
}

export interface DatabaseOptions {
  readonly latencyMs: number
  /** Default 20. */
  readonly connections?: number
}

const SCHEMA = `
  create table products (
    id            integer primary key,
    name          text    not null,
    category      text    not null,
    region        text    not null,
    price_cents   integer not null check (price_cents > 0),
    stock         integer not null check (stock >= 0),
    description   text    not null,
    liquor        text    not null,
    steep_celsius integer not null,
    steep_seconds integer not null
  );
  create index on products (category);

  create table orders (
    id          integer primary key generated always as identity,
    product_id  integer     not null references products,
    product     text        not null,
    quantity    integer     not null check (quantity > 0),
    total_cents integer     not null check (total_cents > 0),
    customer    text        not null,
    request     text        unique,
    created_at  timestamptz not null default now()
  );
  create index on orders (customer, id);
`

const INSERT = `
  insert into products
  select * from jsonb_to_recordset($1::jsonb) as row (
    id integer, name text, category text, region text, "priceCents" integer, stock integer,
    description text, liquor text, "steepCelsius" integer, "steepSeconds" integer
  )
`

/** Opens an empty database in memory and fills it with the shop's stock. Takes seconds. */
export async function openDatabase(options: DatabaseOptions): Promise<Database> {
  const { latencyMs, connections = 20 } = options
  const postgres = await startPostgres()
  await postgres.exec(SCHEMA)
  await postgres.query(INSERT, [JSON.stringify(SEED)])
  const pool = createPool(connections)
  let closed: Promise<void> | undefined
  /**
   * Runs `work` on a connection, after the latency. The latency comes before a transaction, because
   * all transactions share one session.
   */
  const connect = <T>(work: () => Promise<T>) =>
    pool.use(async () => {
      await sleep(latencyMs)
      if (!database.connected) throw disconnected()
      return work()
    })
  const database: Database = {
    connections,
    latencyMs,
    connected: true,
    query: (sql, params) => connect(() => queryOf(postgres)(sql, params)),
    transaction: (work) => connect(() => postgres.transaction((tx) => work(queryOf(tx)))),
    close: () => (closed ??= pool.close().then(() => postgres.close())),
  }
  return database
}

function queryOf(session: Pick<PGlite, 'query'>): Query {
  return async <Row>(sql: string, params: readonly unknown[]) =>
    (await session.query<Row>(sql, [...params])).rows
}

interface Pool {
  use<T>(work: () => Promise<T>): Promise<T>
  close(): Promise<void>
}

interface Waiter {
  start(): void
  reject(error: Error): void
}

/** A queue, first come, first served. `close` rejects queued work and waits for running work. */
function createPool(size: number): Pool {
  const waiting: Waiter[] = []
  let busy = 0
  let closed = false
  let drained: (() => void) | undefined

  const turn = () =>
    new Promise<void>((start, reject) => {
      if (closed) reject(closedError())
      else if (busy < size) {
        busy++
        start()
      } else waiting.push({ start, reject })
    })

  const done = () => {
    const next = waiting.shift()
    if (next !== undefined) next.start()
    else if (--busy === 0) drained?.()
  }

  return {
    async use(work) {
      await turn()
      try {
        return await work()
      } finally {
        done()
      }
    },
    async close() {
      closed = true
      for (const waiter of waiting.splice(0)) waiter.reject(closedError())
      if (busy > 0) await new Promise<void>((resolve) => (drained = resolve))
    },
  }
}

function disconnected(): Problem {
  return new Problem(503, 'Database unavailable', 'The database was disconnected in the lab.')
}

function closedError(): Error {
  return new Error('the database is closed')
}
