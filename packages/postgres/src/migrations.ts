// The tables and functions in PostgreSQL, by the files in `sql/`.

import { optionError } from '@stampede/core/store'
import type { ClientBase, Pool } from 'pg'
import { FILES } from './migrations.generated.ts'

/** One step of the table layout. */
export interface Migration {
  /** Its name, which it adds to the table `migration`. */
  readonly id: string
  /** Statements without parameters. Run them in one transaction. */
  readonly sql: string
}

/** Number of migrations of this version. */
export const LAYOUT: number = FILES.length

/** Class of the advisory locks of maintenance. Lock 0 of it is held while tables are created. */
const MAINTENANCE = 1937010034

/**
 * The migrations for a migration tool of the app, in order. `schema` as in `postgresStore`, default
 * `stampede`. `PostgresStore.migrate()` runs the same. Throws `ERR_STAMPEDE_OPTION`.
 */
export function migrations(schema?: string): readonly Migration[] {
  const name = checkedSchema('migrations: schema', schema)
  return FILES.map(({ id, sql }) => {
    const own = sql
      .replace(/\bstampede(?=[.;])/g, `"${name}"`)
      .replace(/'stampede(?=[':])/g, `'${name}`)
    return { id, sql: `${own}\ninsert into "${name}".migration (id) values ('${id}');\n` }
  })
}

/** The schema is part of statements and names of channels, so it is checked. */
export function checkedSchema(where: string, schema: unknown = 'stampede'): string {
  if (typeof schema === 'string' && /^[A-Za-z_][A-Za-z0-9_]{0,39}$/.test(schema)) return schema
  throw optionError(where, schema, "use at most 40 letters, digits and _: 'stampede'")
}

/** Runs the missing migrations. Processes that do so in parallel wait for each other. */
export async function migrate(pool: Pool, schema: string): Promise<void> {
  const client = await pool.connect()
  try {
    // Another isolation would not see the migrations of a process that held the lock before.
    const begin = 'begin isolation level read committed'
    await client.query(`${begin}; select pg_advisory_xact_lock(${MAINTENANCE}, 0)`)
    const applied = await appliedIn(client, schema)
    for (const { id, sql } of migrations(schema)) if (!applied.has(id)) await client.query(sql)
    await client.query('commit')
    client.release()
  } catch (error) {
    // The pool closes the connection, which rolls back.
    client.release(error as Error)
    throw error
  }
}

async function appliedIn(client: ClientBase, schema: string): Promise<Set<string>> {
  const { rows } = await client.query(`select to_regclass('"${schema}".migration') as found`)
  if (rows[0]?.found === null) return new Set()
  const ids = await client.query(`select id from "${schema}".migration`)
  return new Set(ids.rows.map(({ id }) => String(id)))
}
