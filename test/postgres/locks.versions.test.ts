// Locks in PostgreSQL: the contract of lock stores, processes that are killed, and fences that a
// transaction asserts.

import { createLocks } from '@stampede/locks'
import { postgresStore } from '@stampede/postgres'
import { lockStoreContract } from '@stampede/testkit'
import pg from 'pg'
import { beforeAll, describe, expect, it } from 'vitest'
import { type FleetMember, startFleet } from '../harness/fleet.ts'
import { describePostgresVersions, postgresOfFile } from '../harness/postgres.ts'
import { waitUntil } from '../harness/wait-until.ts'

describePostgresVersions('locks in PostgreSQL', () => {
  const server = postgresOfFile()
  const sql = (text: string, values: unknown[] = []) => server().query(text, values)

  /** Locks that PostgreSQL sees as a process of its own. */
  function open(options: Parameters<typeof postgresStore>[1] = {}) {
    const pool = new pg.Pool({ connectionString: server().url, max: 4 })
    const own = postgresStore(pool, options)
    const close = async () => {
      await own.locks.close()
      await pool.end()
    }
    const locks: typeof own.locks = Object.create(own.locks, { close: { value: close } })
    return { store: { ...own, locks }, locks, pool }
  }

  async function migrated(schema: string): Promise<void> {
    const { store, locks } = open({ schema })
    await store.migrate()
    await locks.close()
  }

  async function openLocks(): Promise<AsyncDisposable & ReturnType<typeof createLocks>> {
    const { store } = open()
    await store.migrate()
    const locks = createLocks({ store })
    return Object.assign(locks, { [Symbol.asyncDispose]: () => locks.close() })
  }

  for (const wait of ['listen', 'poll'] as const) {
    const schema = `Contract_${wait}`
    describe(`with wait: '${wait}'`, () => {
      beforeAll(() => migrated(schema))
      // Notices arrive only with LISTEN. Polling waiters find their grant by another request.
      if (wait === 'listen')
        lockStoreContract('PostgreSQL', {
          async open() {
            await sql(`truncate "${schema}".lock cascade`)
            return { a: open({ schema, wait }).locks, b: open({ schema, wait }).locks }
          },
          // Instead of waiting, the moments of all leases move into the past.
          async pass(ms) {
            await sql(
              `update "${schema}".lock set since = since - $1 * interval '1 ms',
                lease_until = lease_until - $1 * interval '1 ms'`,
              [ms],
            )
          },
        })

      it('hands a lock over to the processes in the order in which they asked', async () => {
        const [a, b, c] = [0, 1, 2].map(() => createLocks({ store: open({ schema, wait }).store }))
        if (a === undefined || b === undefined || c === undefined) throw new Error('three')
        const order: string[] = []
        const first = await a.acquire('order')
        const queued = async (count: number) =>
          waitUntil(`${count} processes queue`, async () => {
            const rows = await sql(`select 1 from "${schema}".lock_queue`)
            return rows.length === count
          })
        const second = b.run('order', () => void order.push('b'))
        await queued(1)
        const third = c.run('order', () => void order.push('c'))
        await queued(2)
        await first.release()
        await Promise.all([second, third])
        expect(order).toEqual(['b', 'c'])
        await Promise.all([a, b, c].map((locks) => locks.close()))
      })
    })
  }

  describe('a killed process', () => {
    beforeAll(() => migrated('stampede'))
    const start = (size: number) =>
      startFleet({
        size,
        entry: new URL('../harness/servers/lock-worker.mjs', import.meta.url),
        env: { POSTGRES_URL: server().url },
      })
    const begin = (member: FleetMember, key: string, options = {}) =>
      member.ask({ type: 'begin', as: 'lock', key, options })
    const had = (member: FleetMember) =>
      member.ask<{ fence: string }>({ type: 'had', as: 'lock' }, 60_000)
    const queued = (key: string, count: number) =>
      waitUntil(`${count} processes queue for ${key}`, async () => {
        const text = `select 1 from stampede.lock_queue q join stampede.lock l using (id)
          where l.key = convert_to($1, 'UTF8')`
        return (await sql(text, [key])).length === count
      })

    it('loses its lock at the end of its lease to the process that waits', async () => {
      await using fleet = await start(2)
      const [holder, waiter] = fleet.members as [FleetMember, FleetMember]
      await begin(holder, 'killed holder', { leaseMs: 2_000 })
      const first = await had(holder)
      await begin(waiter, 'killed holder')
      await queued('killed holder', 1)
      await holder.kill()
      const second = await had(waiter)
      expect(BigInt(second.fence)).toBeGreaterThan(BigInt(first.fence))
    })

    it('loses its place in the queue to the process behind it', async () => {
      await using fleet = await start(3)
      const [holder, dead, waiter] = fleet.members as [FleetMember, FleetMember, FleetMember]
      await begin(holder, 'killed waiter')
      await had(holder)
      await begin(dead, 'killed waiter')
      await queued('killed waiter', 1)
      await begin(waiter, 'killed waiter')
      await queued('killed waiter', 2)
      await dead.kill()
      await holder.ask({ type: 'release', as: 'lock' })
      await had(waiter)
      expect(await waiter.ask({ type: 'release', as: 'lock' })).toBe('released')
    })

    it('leaves no write that another holder does not see', async () => {
      await sql('create table counted (n bigint primary key, fence bigint not null)')
      await using fleet = await start(3)
      const [one, two, dead] = fleet.members as [FleetMember, FleetMember, FleetMember]
      const count = (member: FleetMember, rounds: number) =>
        member.ask<string[]>({ type: 'count', key: 'counted', rounds }, 120_000)
      const killed = count(dead, 10_000).catch(() => {})
      const survivors = Promise.all([count(one, 60), count(two, 60)])
      await waitUntil(
        'all have counted',
        async () => (await sql('select n from counted')).length > 20,
      )
      await dead.kill()
      await killed
      // A number that two holders counted would be an error for one of them.
      expect((await survivors).flat()).toEqual([])
      const rows = await sql('select n from counted order by n')
      expect(rows.length).toBeGreaterThanOrEqual(120)
      expect(rows.map(({ n }) => Number(n))).toEqual(rows.map((_, i) => i + 1))
      const byFence = await sql('select n from counted order by fence')
      expect(byFence).toEqual(rows)
    })
  })

  describe('assert_fence', () => {
    beforeAll(() => migrated('stampede'))

    it.each(['read committed', 'repeatable read'])(
      'rejects a transaction of an expired holder, %s',
      async (isolation) => {
        await using locks = await openLocks()
        const late = await locks.acquire(isolation)
        await late.release()
        const newer = await locks.acquire(isolation)
        const { pool, locks: other } = open()
        const client = await pool.connect()
        const assert = (fence: bigint) =>
          client.query('select stampede.assert_fence($1, $2)', [isolation, fence.toString()])
        await client.query(`begin isolation level ${isolation}`)
        await assert(newer.fence)
        await expect(assert(late.fence)).rejects.toMatchObject({
          code: 'ST002',
          message: expect.stringContaining(`lock "${isolation}" was granted again`),
        })
        await client.query('rollback')
        client.release()
        await other.close()
      },
    )

    it('rejects a snapshot that is older than a newer grant', async () => {
      await using locks = await openLocks()
      const late = await locks.acquire('snapshot')
      const { pool, locks: other } = open()
      const client = await pool.connect()
      await client.query('begin isolation level repeatable read')
      await client.query('select 1 from stampede.lock')
      await late.release()
      await (await locks.acquire('snapshot')).release()
      const assert = client.query('select stampede.assert_fence($1, $2)', [
        'snapshot',
        late.fence.toString(),
      ])
      await expect(assert).rejects.toMatchObject({ code: '40001' })
      await client.query('rollback')
      client.release()
      await other.close()
    })

    it('holds back the next grant until its transaction ends, and no renewal', async () => {
      await using locks = await openLocks()
      await using others = await openLocks()
      const lease = await locks.acquire('asserted')
      const { pool, locks: other } = open()
      const client = await pool.connect()
      await client.query('begin')
      await client.query('select stampede.assert_fence($1, $2)', [
        'asserted',
        lease.fence.toString(),
      ])
      expect(await lease.renew()).toBe(true)
      const next = others.acquire('asserted')
      await lease.release()
      expect(await others.tryAcquire('asserted')).toBeNull()
      await client.query('commit')
      expect((await next).fence).toBeGreaterThan(lease.fence)
      client.release()
      await other.close()
    })

    it('rejects the fence of an unknown lock', async () => {
      const assert = sql('select stampede.assert_fence($1, $2)', ['never locked', '1'])
      await expect(assert).rejects.toMatchObject({ code: 'ST002' })
    })
  })

  it('does not lose a lease if the clock of the server is set back', async () => {
    await using locks = await openLocks()
    await using others = await openLocks()
    const lease = await locks.acquire('set back', { leaseMs: 60_000 })
    // The lease was granted an hour later than now.
    await sql(`update stampede.lock set since = since + interval '1 hour',
      lease_until = lease_until + interval '1 hour'`)
    expect(await others.tryAcquire('set back')).toBeNull()
    const [{ rest } = { rest: 0 }] = await sql(
      `select extract(epoch from lease_until - clock_timestamp())::float8 as rest
       from stampede.lock where key = convert_to('set back', 'UTF8')`,
    )
    expect(rest).toBeLessThanOrEqual(60)
    await lease.release()
    expect(await others.tryAcquire('set back')).not.toBeNull()
  })
})
