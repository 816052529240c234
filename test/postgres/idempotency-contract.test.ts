// The contract of idempotency stores in PostgreSQL, without transactions: attempts with a lease.

import { postgresStore } from '@stampede/postgres'
import { idempotencyStoreContract } from '@stampede/testkit'
import pg from 'pg'
import { beforeAll } from 'vitest'
import { describePostgres, postgresOfFile } from '../harness/postgres.ts'

describePostgres('idempotency records in PostgreSQL', () => {
  const server = postgresOfFile()

  /** The records as PostgreSQL sees those of one process. */
  function open() {
    const pool = new pg.Pool({ connectionString: server().url, max: 4 })
    const store = postgresStore(pool)
    const { idempotency } = store
    const close = idempotency.close.bind(idempotency)
    idempotency.close = async () => {
      await close()
      await pool.end()
    }
    return { store, idempotency }
  }

  beforeAll(async () => {
    const { store, idempotency } = open()
    await store.migrate()
    await idempotency.close()
  })

  idempotencyStoreContract('PostgreSQL', {
    async open() {
      await server().query('truncate stampede.idempotency cascade')
      return { a: open().idempotency, b: open().idempotency }
    },
    // Instead of waiting, all moments move into the past.
    async pass(ms) {
      const moments = ['lease_from', 'lease_until', 'created_at', 'expires_at']
      const sets = moments.map((name) => `${name} = ${name} - $1 * interval '1 ms'`)
      await server().query(`update stampede.idempotency set ${sets.join(', ')}`, [ms])
    },
  })
})
