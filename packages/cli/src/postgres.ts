// The database of an app with idempotency keys in PostgreSQL. Loads `@stampede/postgres` and pg
// only with `--postgres`, because most fleets have neither.

import { createStampede, type Stampede } from '@stampede/core'
import type { IdempotencyStore, StoreOperator } from '@stampede/core/store'
import { UsageError } from './errors.ts'
import type { Settings } from './fleet.ts'

export interface Database extends AsyncDisposable {
  readonly stampede: Stampede
  readonly store: {
    readonly idempotency: IdempotencyStore
    readonly operator: Pick<StoreOperator, 'scan'>
  }
}

/** Opens the tables in `schema`. Rejects if they are missing, or if PostgreSQL is unavailable. */
export async function openDatabase(
  settings: Settings,
  url: string | undefined,
  schema: string,
): Promise<Database> {
  if (url === undefined || !/^postgres(ql)?:/.test(url)) {
    // The message does not have the URL, because that may contain a password.
    throw new UsageError('--postgres: set DATABASE_URL to postgres://USER@HOST:5432/DATABASE')
  }
  const { timeoutMs, secret, encryptionKeys } = settings
  const [{ default: pg }, { postgresStore }] = await load()
  const pool = new pg.Pool({
    connectionString: url,
    connectionTimeoutMillis: timeoutMs,
    query_timeout: timeoutMs,
  })
  // Without a listener, a lost connection would end the program. Its statement rejects, too.
  pool.on('error', () => {})
  const store = postgresStore(pool, { schema, wait: 'poll' })
  const { idempotency } = store
  const secrets = { ...(secret !== undefined && { secret }), encryptionKeys }
  const stampede = createStampede({ idempotency: { store, ...secrets } })
  const close = async () => {
    await stampede.close()
    await pool.end()
  }
  /** Names of records, in the order of their bytes. The cursor is the last one, in hex. */
  const scan = async (_kind: unknown, cursor: string, limit: number) => {
    const page = `where key > decode($1, 'hex') order by key limit $2`
    const text = `select encode(key, 'hex') as key from "${schema}".idempotency ${page}`
    const { rows } = await pool.query<{ key: string }>(text, [cursor, limit])
    const keys = rows.map(({ key }) => Buffer.from(key, 'hex').toString())
    return { keys, cursor: rows.length < limit ? '' : (rows.at(-1)?.key ?? '') }
  }
  try {
    // Reports missing tables and a server that is away, with the fix.
    await idempotency.inspect('')
  } catch (error) {
    await close()
    throw error
  }
  return { stampede, store: { idempotency, operator: { scan } }, [Symbol.asyncDispose]: close }
}

async function load() {
  try {
    return await Promise.all([import('pg'), import('@stampede/postgres')])
  } catch (error) {
    const { message } = error as Error
    const fix = 'install @stampede/postgres and pg beside @stampede/cli'
    throw new UsageError(`--postgres: ${fix} (${message})`)
  }
}
