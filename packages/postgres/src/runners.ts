// Runners: transactions that an ORM or another driver opens, so that handlers write with it. The
// types have only the members that are used, so this package depends on none of these libraries.

import { optionError, type TransactionRunner } from '@stampede/core/store'
import type { Rows } from './line.ts'

/** A method that opens a transaction and commits it when the promise of the function resolves. */
type Begin<Tx> = <T>(run: (tx: Tx) => Promise<T>) => Promise<T>

/** The tag `sql` of drizzle-orm. */
type DrizzleSql<Query> = (strings: TemplateStringsArray, ...values: unknown[]) => Query

/**
 * Transactions of Drizzle, on node-postgres or postgres.js. `sql` is the tag of the `drizzle-orm`
 * of the app, which turns values into parameters. Throws `ERR_STAMPEDE_OPTION` without it.
 */
export function fromDrizzle<Query, Tx extends { execute(query: Query): PromiseLike<unknown> }>(
  db: { transaction: Begin<Tx> },
  sql: DrizzleSql<Query>,
): TransactionRunner<Tx> {
  const hint = "import { sql } from 'drizzle-orm', and pass it: fromDrizzle(db, sql)"
  if (typeof sql !== 'function') throw optionError('fromDrizzle: sql', sql, hint)
  return {
    begin: (run) => db.transaction(run),
    async query(tx, text, values) {
      const { strings, used } = split(text, values)
      return rowsOf(await tx.execute(sql(Object.assign(strings, { raw: strings }), ...used)))
    },
  }
}

/** Transactions of Kysely: of `new Kysely<Database>({ dialect })`. */
export function fromKysely<
  Tx extends { executeQuery(query: never): Promise<{ rows: unknown[] }> },
>(db: { transaction(): { execute: Begin<Tx> } }): TransactionRunner<Tx> {
  return {
    begin: (run) => db.transaction().execute(run),
    async query(tx, text, values) {
      // The form of `CompiledQuery.raw(text, values)` of Kysely.
      const query = { kind: 'RawNode', sqlFragments: [text], parameters: [] }
      const compiled = { sql: text, parameters: values, query, queryId: { queryId: 'stampede' } }
      return rowsOf(await tx.executeQuery(compiled as never))
    },
  }
}

/** Transactions of Knex with its `pg` client: of `knex({ client: 'pg', … })`. */
export function fromKnex<
  Tx extends { raw(sql: string, values: never): PromiseLike<unknown> },
>(knex: { transaction: Begin<Tx> }): TransactionRunner<Tx> {
  return {
    begin: (run) => knex.transaction(run),
    async query(tx, text, values) {
      // Knex writes `?` for a parameter.
      const { strings, used } = split(text.replaceAll('?', '\\?'), values)
      return rowsOf(await tx.raw(strings.join('?'), used as never))
    },
  }
}

/** Transactions of postgres.js: of `postgres(url)`. */
export function fromPostgresJs<
  Tx extends { unsafe(sql: string, values: never): PromiseLike<unknown> },
>(sql: { begin(run: (tx: Tx) => Promise<unknown>): Promise<unknown> }): TransactionRunner<Tx> {
  return {
    begin: <T>(run: (tx: Tx) => Promise<T>) => sql.begin(run) as Promise<T>,
    query: async (tx, text, values) => rowsOf(await tx.unsafe(text, values as never)),
  }
}

/**
 * Transactions of Prisma with a driver adapter. Prisma ends a transaction after `timeout` (ms).
 * Default 30 000, as `idleMs`. `maxWait` (ms) is the longest wait for a connection.
 */
export function fromPrisma<
  Tx extends { $queryRawUnsafe(sql: string, ...values: unknown[]): PromiseLike<unknown> },
>(
  prisma: {
    $transaction<T>(run: (tx: Tx) => Promise<T>, options: { timeout: number }): Promise<T>
  },
  options: { timeout?: number; maxWait?: number } = {},
): TransactionRunner<Tx> {
  return {
    begin: (run) => prisma.$transaction(run, { timeout: 30_000, ...options }),
    query: async (tx, text, values) => rowsOf(await tx.$queryRawUnsafe(text, ...values)),
  }
}

/** Some drivers return the rows themselves, others an object with `rows`. */
function rowsOf(result: unknown): Rows {
  return (Array.isArray(result) ? [...result] : (result as { rows: Rows }).rows) as Rows
}

/** The text between the parameters `$1`, `$2`, … and the values in the order of their use. */
function split(text: string, values: readonly unknown[]) {
  const parts = text.split(/\$(\d+)/)
  const used = parts.filter((_, i) => i % 2 === 1).map((number) => values[Number(number) - 1])
  return { strings: parts.filter((_, i) => i % 2 === 0), used }
}
