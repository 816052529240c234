// The store on PostgreSQL: idempotency keys and locks in the database of the app.

import {
  type IdempotencyStore,
  type LockStore,
  optionError,
  readers,
  readOptions,
  systemClock,
  withTimeBudget,
} from '@stampede/core/store'
import type { ClientBase, Pool } from 'pg'
import { Database } from './database.ts'
import { PostgresLocks } from './locks.ts'
import { checkedSchema, migrate } from './migrations.ts'
import { PostgresIdempotency } from './postgres-idempotency.ts'

declare module '@stampede/core' {
  interface AttemptTransaction extends Pick<ClientBase, 'query'> {}
}

/** Options of `postgresStore`. */
export interface PostgresStoreOptions {
  /** Schema of the tables: letters, digits and `_`, at most 40. Default `stampede`. */
  schema?: string | undefined
  /**
   * PostgreSQL ends the transaction of an attempt that sends no statement for longer than this, in
   * ms. After a connection was lost during a commit, its outcome is looked up for at most as long.
   * At least 1000. Default 30 000.
   */
  idleMs?: number | undefined
  /**
   * How requests and locks wait for another process. `listen` needs one connection more for each
   * process. `poll` asks again after 100 ms to 1 s: for PgBouncer in transaction mode. Default
   * `listen`.
   */
  wait?: 'listen' | 'poll' | undefined
}

/** Idempotency keys and locks in PostgreSQL. Responses and values stay in Redis or in memory. */
export interface PostgresStore {
  /** For errors and events. */
  readonly name: 'postgres'
  /** Operations reject after 5 s with `ERR_STAMPEDE_STORE_UNAVAILABLE`. */
  readonly hasTimeBudget: true
  /** For `createStampede({ idempotency: { store, secret } })`. */
  readonly idempotency: IdempotencyStore
  /** For `createLocks({ store })`. */
  readonly locks: LockStore
  /**
   * Creates the tables and functions that are missing. Processes may call it in parallel. Rejects
   * with `ERR_STAMPEDE_STORE_UNAVAILABLE`, for example if the role may not create them.
   */
  migrate(): Promise<void>
}

const OPTIONS = {
  schema: checkedSchema,
  idleMs: readers.durationMs(30_000, 1_000),
  wait: readers.choice('listen', 'poll'),
} satisfies Record<keyof PostgresStoreOptions, unknown>

/**
 * Creates a store on PostgreSQL 13 or newer. `pool` is a `Pool` of pg 8.11 or newer. The store
 * never ends it. Throws `ERR_STAMPEDE_OPTION`.
 */
export function postgresStore(pool: Pool, options?: PostgresStoreOptions): PostgresStore {
  if (!isPool(pool)) {
    throw optionError(
      'postgresStore: pool',
      pool,
      'pass new Pool() of pg; a transaction of another driver or ORM goes to the route, such as ' +
        'transaction: fromPostgresJs(sql)',
    )
  }
  const { schema, idleMs, wait } = readOptions('postgresStore', options, OPTIONS)
  const db = new Database(pool, schema, wait === 'listen')
  const records = new PostgresIdempotency(db, idleMs)
  // Without the budget for `finish`: the outcome of a commit may be looked up for longer.
  const finish = { value: records.finish.bind(records) }
  return {
    name: 'postgres',
    hasTimeBudget: true,
    idempotency: Object.create(withTimeBudget(records, systemClock), { finish }),
    locks: withTimeBudget(new PostgresLocks(db), systemClock),
    async migrate() {
      await migrate(pool, schema).catch((error) => Promise.reject(db.errorOf('migrate', error)))
    },
  }
}

/** Neither a `Client` of pg nor the object of another driver has all of these. */
function isPool(pool: unknown): pool is Pool {
  const { connect, query, totalCount, options } = Object(pool)
  const hasMethods = typeof connect === 'function' && typeof query === 'function'
  return hasMethods && typeof totalCount === 'number' && typeof options === 'object'
}
