// The contract of idempotency stores in PostgreSQL, without transactions: attempts with a lease.

import { systemClock } from '@stampede/core/store'
import { postgresStore } from '@stampede/postgres'
import { idempotencyStoreContract } from '@stampede/testkit'
import pg from 'pg'
import { beforeAll, expect, it } from 'vitest'
import { describePostgresVersions, postgresOfFile } from '../harness/postgres.ts'

describePostgresVersions('idempotency records in PostgreSQL', () => {
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

  it('starts the lease of a running attempt again if the clock was set back', async () => {
    const { idempotency: records } = open()
    const hooks = { onWake() {}, onSettled() {}, onGap() {}, onBack() {}, onLost() {} }
    records.attach({ ...hooks, clock: systemClock, onError() {} })
    const begin = (token: string) =>
      records.begin('clock', {
        token,
        fingerprints: { exact: 'e', canonical: 'c' },
        leaseMs: 10_000,
        retentionMs: 60_000,
        maxAttempts: 3,
        keepUncertainMs: 60_000,
        wait: false,
      })
    await begin('first')
    await server().query(`update stampede.idempotency set lease_from = lease_from
      + interval '1 hour', lease_until = lease_until + interval '1 hour'`)
    const reply = await begin('second')
    expect(reply.status).toBe('busy')
    expect('forMs' in reply && reply.forMs).toBeLessThanOrEqual(10_000)
    await records.close()
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
