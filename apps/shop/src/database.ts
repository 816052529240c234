// PostgreSQL inside this process (PGlite), made as slow and as narrow as a real one. Every query
// and every transaction takes `latencyMs`. A pool has a fixed number of connections, which is what
// a stampede exhausts.

import { setTimeout as sleep } from 'node:timers/promises'
import { PGlite } from '@electric-sql/pglite'
import { Problem } from './answer.ts'
import { SEED } from './seed.ts'

export type Query = <Row>(sql: string, params: readonly unknown[]) => Promise<Row[]>

export interface Database {
  /** How many queries run at a time; the others wait their turn. */
  readonly connections: number
  readonly latencyMs: number
  /** False: queries fail, as if the server had gone away. The lab pulls this plug. */
  connected: boolean
  query: Query
  /** All of what `work` does with its `query`, or, if it throws, nothing. */
  transaction<T>(work: (query: Query) => Promise<T>): Promise<T>
  /** Waits for running queries; those still in the queue are refused. */
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

/** Opens an empty database in memory and fills it with the shop's stock. Takes a few seconds. */
export async function openDatabase(options: DatabaseOptions): Promise<Database> {
  const { latencyMs, connections = 20 } = options
  const postgres = await PGlite.create()
  await postgres.exec(SCHEMA)
  await postgres.query(INSERT, [JSON.stringify(SEED)])
  const pool = createPool(connections)
  let closed: Promise<void> | undefined
  /** With a connection, after the latency. It comes before a transaction, never inside: all share one session. */
  const connect = <T>(work: () => Promise<T>) =>
    pool.use(async () => {
      await sleep(latencyMs)
      if (!database.connected) throw unplugged()
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
  refuse(error: Error): void
}

/** First come, first served; `close` refuses who waits, and waits for who works. */
function createPool(size: number): Pool {
  const waiting: Waiter[] = []
  let busy = 0
  let closed = false
  let drained: (() => void) | undefined

  const turn = () =>
    new Promise<void>((start, refuse) => {
      if (closed) refuse(closedError())
      else if (busy < size) {
        busy++
        start()
      } else waiting.push({ start, refuse })
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
      for (const waiter of waiting.splice(0)) waiter.refuse(closedError())
      if (busy > 0) await new Promise<void>((resolve) => (drained = resolve))
    },
  }
}

function unplugged(): Problem {
  return new Problem(503, 'Database unavailable', 'The database was unplugged in the lab.')
}

function closedError(): Error {
  return new Error('the database is closed')
}
