// Late writers on a real PostgreSQL: stopped by a fence, stopped by a version column, and not
// stopped without either. The patterns are those of docs/guide/fencing.md.

import type { PGlite } from '@electric-sql/pglite'
import { memoryStore } from '@stampede/core'
import type { LockStore } from '@stampede/core/store'
import { ManualClock } from '@stampede/core/testing'
import { createLocks, fencedUpdate, type Lease } from '@stampede/locks'
import { redisStore } from '@stampede/redis'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { startPostgres } from '../../apps/shop/src/postgres.ts'
import { PATIENT } from '../harness/patient.ts'
import { startRedis } from '../harness/redis-server.ts'

const SCHEMA = `
  create table products (
    id integer primary key, price integer not null, last_fence bigint not null default 0, version integer not null default 0
  );
  create table fences (resource text primary key, fence bigint not null);
  create table payments (month text not null, payer text not null);
`

let postgres: PGlite
beforeAll(async () => {
  postgres = await startPostgres()
  await postgres.exec(SCHEMA)
})
afterAll(() => postgres.close())
beforeEach(async () => {
  await postgres.exec(`
    delete from products; delete from fences; delete from payments;
    insert into products (id, price) values (1, 100)
  `)
})

async function rows<Row>(sql: string, params: unknown[] = []): Promise<Row[]> {
  return (await postgres.query<Row>(sql, params)).rows
}

async function price(): Promise<number | undefined> {
  return (await rows<{ price: number }>('select price from products where id = 1'))[0]?.price
}

/** One store, as one of several processes uses it. */
function reach(locks: LockStore): { locks: LockStore } {
  return {
    locks: {
      name: locks.name,
      attach() {},
      acquire: (key, request) => locks.acquire(key, { ...request, queue: false }),
      renew: (grants, leaseMs) => locks.renew(grants, leaseMs),
      release: (grant) => locks.release(grant),
      leave: (key) => locks.leave(key),
      async close() {},
    },
  }
}

/**
 * Two holders of one lock: the first stood still for longer than its lease, and does not know yet.
 */
async function lateAndNewer(): Promise<{ late: Lease; newer: Lease }> {
  const [stopped, running] = [new ManualClock(), new ManualClock()]
  const { locks } = memoryStore()
  // The store uses the time of the process that runs on.
  const ignore = () => {}
  locks.attach({ clock: running, onGrant: ignore, onGap: ignore, onLost: ignore, onError: ignore })
  const late = await createLocks({ store: reach(locks), clock: stopped }).acquire('product:1', {
    leaseMs: 1_000,
  })
  await running.advance(1_000)
  const newer = await createLocks({ store: reach(locks), clock: running }).acquire('product:1', {
    waitMs: 0,
  })
  expect(late.remainingMs()).toBeGreaterThan(0)
  return { late, newer }
}

/** Changes the price by fencedUpdate. True if a row changed. */
async function setPrice(to: number, fence: bigint): Promise<boolean> {
  const { set, where, value } = fencedUpdate(fence, { placeholder: '$3' })
  const sql = `update products set price = $1, ${set} where id = $2 and ${where} returning id`
  return (await rows(sql, [to, 1, value])).length === 1
}

/** Reads a price, and closes the row to every older fence in the same statement. */
async function readPrice(fence: bigint): Promise<number | undefined> {
  const { set, where, value } = fencedUpdate(fence, { placeholder: '$2' })
  const sql = `update products set ${set} where id = $1 and ${where} returning price`
  return (await rows<{ price: number }>(sql, [1, value]))[0]?.price
}

describe('a lock without a fence', () => {
  it('lets an expired holder overwrite newer data', async () => {
    const { late, newer } = await lateAndNewer()
    const set = 'update products set price = $1 where id = 1'
    newer.assertHeld()
    await rows(set, [300])
    late.assertHeld()
    await rows(set, [200])
    expect(await price()).toBe(200)
  })
})

describe('a fence in each write', () => {
  it('refuses an expired holder', async () => {
    const { late, newer } = await lateAndNewer()
    expect(newer.fence).toBeGreaterThan(late.fence)
    expect(await setPrice(300, newer.fence)).toBe(true)
    expect(await setPrice(200, late.fence)).toBe(false)
    expect(await price()).toBe(300)
  })

  it('does not refuse an expired holder before the newer holder has touched the row', async () => {
    const { late, newer } = await lateAndNewer()
    expect(await price()).toBe(100)
    expect(await setPrice(200, late.fence)).toBe(true)
    expect(await setPrice(300, newer.fence)).toBe(true)
    expect(await price()).toBe(300)
  })

  it('refuses an expired holder as soon as the newer holder has read with its fence', async () => {
    const { late, newer } = await lateAndNewer()
    expect(await readPrice(newer.fence)).toBe(100)
    expect(await setPrice(200, late.fence)).toBe(false)
    expect(await readPrice(late.fence)).toBeUndefined()
    expect(await setPrice(300, newer.fence)).toBe(true)
  })

  it('lets a holder write repeatedly, and an expired holder finish if no newer one exists', async () => {
    const { late } = await lateAndNewer()
    expect(await setPrice(150, late.fence)).toBe(true)
    expect(await setPrice(160, late.fence)).toBe(true)
  })

  it('allows one write per fence with < in place of <=', async () => {
    const { late, newer } = await lateAndNewer()
    const add = async (fence: bigint) =>
      await rows(
        'update products set price = price + 10, last_fence = $1 where id = 1 and last_fence < $1 returning id',
        [fence.toString()],
      )
    expect(await add(newer.fence)).toHaveLength(1)
    expect(await add(newer.fence)).toHaveLength(0)
    expect(await add(late.fence)).toHaveLength(0)
    expect(await price()).toBe(110)
  })

  it('guards an insert by ON CONFLICT', async () => {
    const { late, newer } = await lateAndNewer()
    const upsert = async (to: number, fence: bigint) =>
      await rows(
        `insert into products (id, price, last_fence) values (2, $1, $2)
         on conflict (id) do update set price = excluded.price, last_fence = excluded.last_fence
         where products.last_fence <= excluded.last_fence returning id`,
        [to, fence.toString()],
      )
    expect(await upsert(300, newer.fence)).toHaveLength(1)
    expect(await upsert(200, late.fence)).toHaveLength(0)
    expect(await rows('select price from products where id = 2')).toEqual([{ price: 300 }])
  })

  it('guards a transaction that first updates a row with the fence', async () => {
    const { late, newer } = await lateAndNewer()
    const pay = (payer: string, fence: bigint) =>
      postgres.transaction(async (tx) => {
        const passed = await tx.query(
          `insert into fences (resource, fence) values ($1, $2)
           on conflict (resource) do update set fence = excluded.fence
           where fences.fence <= excluded.fence returning fence`,
          ['payroll', fence.toString()],
        )
        if (passed.rows.length === 0) throw new Error('late')
        await tx.query('insert into payments (month, payer) values ($1, $2)', ['may', payer])
      })
    await pay('newer', newer.fence)
    await expect(pay('late', late.fence)).rejects.toThrow('late')
    expect(await rows('select payer from payments')).toEqual([{ payer: 'newer' }])
  })

  it('is greater for the next holder even after Redis lost everything', async () => {
    await using server = await startRedis()
    const redis = new Redis(server.url)
    const [here, elsewhere] = [redisStore(redis, PATIENT), redisStore(redis, PATIENT)].map(
      (store) => createLocks({ store }),
    )
    try {
      const late = await here?.acquire('product:1')
      expect(await elsewhere?.tryAcquire('product:1')).toBeNull()
      await redis.flushall()
      const newer = await elsewhere?.tryAcquire('product:1')
      if (!late || !newer) throw new Error('no lease')
      expect(newer.fence).toBeGreaterThan(late.fence)
      expect(await setPrice(300, newer.fence)).toBe(true)
      expect(await setPrice(200, late.fence)).toBe(false)
    } finally {
      await Promise.all([here?.close(), elsewhere?.close()])
      redis.disconnect()
    }
  })
})

describe('a version column', () => {
  const read = async () =>
    (await rows<{ price: number; version: number }>('select * from products where id = 1'))[0]
  const write = async (to: number, version: number | undefined) =>
    await rows(
      'update products set price = $1, version = version + 1 where id = 1 and version = $2 returning id',
      [to, version],
    )

  it('refuses a writer who read an older version, without any lock', async () => {
    const [a, b] = [await read(), await read()]
    expect(await write(300, b?.version)).toHaveLength(1)
    expect(await write(200, a?.version)).toHaveLength(0)
    expect(await price()).toBe(300)
  })

  it('loses no addition of two concurrent writers, unlike a plain read and write', async () => {
    const [a, b] = [await read(), await read()]
    for (const reading of [a, b]) {
      await rows('update products set price = $1 where id = 1', [(reading?.price ?? 0) + 10])
    }
    expect(await price()).toBe(110)

    const add = async (reading = read()): Promise<void> => {
      const row = await reading
      const done = await write((row?.price ?? 0) + 10, row?.version)
      if (done.length === 0) await add()
    }
    const readings = [read(), read()]
    for (const reading of readings) await add(reading)
    expect(await price()).toBe(130)
  })

  it('lets the first writer win, even after the loss of its lock', async () => {
    const { late, newer } = await lateAndNewer()
    const [old, current] = [await read(), await read()]
    expect(late.fence).toBeLessThan(newer.fence)
    expect(await write(200, old?.version)).toHaveLength(1)
    expect(await write(300, current?.version)).toHaveLength(0)
    expect(await price()).toBe(200)
  })
})

describe('fencedUpdate', () => {
  it('passes the value as text, because it may exceed the numbers of a driver', () => {
    expect(fencedUpdate(2n ** 60n)).toEqual({
      set: 'last_fence = $1',
      where: 'last_fence <= $1',
      value: '1152921504606846976',
    })
  })

  it('takes a column of another name, and rejects text that is not a name', () => {
    expect(fencedUpdate(1n, { column: 'seen' }).where).toBe('seen <= $1')
    expect(() => fencedUpdate(1n, { column: 'a = 1; --' })).toThrow(/fencedUpdate\.column/)
  })
})
