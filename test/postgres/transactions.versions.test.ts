// Attempts with a transaction: what the handler does, and what is committed.

import { newToken } from '@stampede/core/store'
import pg from 'pg'
import { beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { describePostgresVersions, postgresOfFile } from '../harness/postgres.ts'
import { PRINTS, startStore, type Tx } from '../harness/postgres-attempts.ts'
import { waitUntil } from '../harness/wait-until.ts'

const OTHER = { exact: 'e2', canonical: 'c2' }

/** A runner whose transaction begins by `begin`. */
function runnerOf(
  pool: pg.Pool,
  begin: (client: pg.PoolClient) => Promise<unknown> = (client) => client.query('begin'),
) {
  return {
    async begin<T>(run: (tx: pg.PoolClient) => Promise<T>): Promise<T> {
      const client = await pool.connect()
      try {
        await begin(client)
        const result = await run(client)
        await client.query('commit')
        return result
      } catch (error) {
        await client.query('rollback')
        throw error
      } finally {
        client.release()
      }
    },
    query: async (tx: pg.PoolClient, text: string, values: readonly unknown[]) =>
      (await tx.query(text, [...values])).rows,
  }
}

describePostgresVersions('an attempt with a transaction', () => {
  const server = postgresOfFile({ settings: { deadlock_timeout: '50ms' } })
  const start = (options = {}, config: pg.PoolConfig = {}) =>
    startStore({ connectionString: server().url, ...config }, options)
  const order = (tx: Tx, item: string) => tx.query('insert into orders (item) values ($1)', [item])
  const orders = async () =>
    (await server().query<{ item: string }>('select item from orders order by id')).map(
      ({ item }) => item,
    )
  const records = async () =>
    (await server().query<{ key: string }>('select key from stampede.idempotency')).length

  beforeAll(async () => {
    await using process = start()
    await process.store.migrate()
    await server().query('create table orders (id serial primary key, item text not null)')
  })
  beforeEach(() => server().query('truncate orders, stampede.idempotency cascade'))

  describe('whose handler', () => {
    it('completes, commits its writes with the record', async () => {
      await using process = start()
      const attempt = await process.open('k')
      expect(attempt.begun).toMatchObject({ attempt: 1, isRecovery: false, steps: new Map() })
      await order(attempt.tx, 'book')
      expect([await orders(), await records()]).toEqual([[], 0])
      expect(await attempt.complete('the response')).toBe('finished')
      expect([await orders(), await records()]).toEqual([['book'], 1])
      await using other = start()
      for (const store of [process, other]) {
        const reply = await store.begin('k')
        expect(reply).toMatchObject({ status: 'completed' })
        expect('frame' in reply && Buffer.from(reply.frame).toString()).toBe('the response')
        expect(await store.begin('k', { fingerprints: OTHER })).toEqual({ status: 'mismatch' })
      }
    })

    it('releases, rolls back, so that the next attempt runs as the first', async () => {
      await using process = start()
      const attempt = await process.open('k')
      await order(attempt.tx, 'book')
      expect(await attempt.release()).toBe('finished')
      expect([await orders(), await records()]).toEqual([[], 0])
      const next = await process.open('k')
      expect(next.begun).toMatchObject({ attempt: 1, isRecovery: false })
      expect(BigInt(next.begun.grant.fence)).toBeGreaterThan(BigInt(attempt.begun.grant.fence))
      await next.release()
    })

    it('calls rollback(), keeps its response without the writes before', async () => {
      await using process = start()
      const attempt = await process.open('k')
      await order(attempt.tx, 'before')
      await attempt.transaction.rollback()
      await order(attempt.tx, 'after')
      expect(await attempt.complete('refused')).toBe('finished')
      expect(await orders()).toEqual(['after'])
      expect(await process.begin('k')).toMatchObject({ status: 'completed' })
    })

    it('calls rollback() after a failed statement, can write again', async () => {
      await using process = start()
      const attempt = await process.open('k')
      await expect(order(attempt.tx, null as never)).rejects.toMatchObject({ code: '23502' })
      await attempt.transaction.rollback()
      await order(attempt.tx, 'after')
      expect(await attempt.complete()).toBe('finished')
      expect(await orders()).toEqual(['after'])
    })

    it('ignores a failed statement, is not completed', async () => {
      await using process = start()
      const attempt = await process.open('k')
      await order(attempt.tx, 'book')
      await expect(attempt.tx.query('select 1 / 0')).rejects.toMatchObject({ code: '22012' })
      expect(await attempt.complete()).toBe('failed')
      expect([await orders(), await records()]).toEqual([[], 0])
      await (await process.open('k')).release()
    })

    it('breaks a constraint that is checked at the commit, is not completed', async () => {
      await server().query(
        'create table parents (id int primary key deferrable initially deferred)',
      )
      await using process = start()
      const attempt = await process.open('k')
      await attempt.tx.query('insert into parents values (1), (1)')
      expect(await attempt.complete()).toBe('failed')
      expect(await records()).toBe(0)
    })

    it('is idle for too long until its commit, is not completed, and may be repeated', async () => {
      await server().query(`create function idle() returns trigger language plpgsql as
        $$ begin raise 'idle' using errcode = '25P03'; end $$`)
      await server().query(`create constraint trigger idle after insert on orders
        deferrable initially deferred for each row execute function idle()`)
      try {
        await using process = start()
        const attempt = await process.open('k')
        await order(attempt.tx, 'book')
        expect(await attempt.complete()).toBe('unknown')
        expect([await orders(), await records()]).toEqual([[], 0])
      } finally {
        await server().query('drop function idle cascade')
      }
    })

    it.each([
      ['COMMIT', 'commit', ['book']],
      ['ROLLBACK', 'rollback', []],
      ['COMMIT and BEGIN', 'commit; begin', ['book']],
      ['COMMIT and a copy of the begin', 'commit; begin; savepoint stampede_handler', ['book']],
    ])('sends %s itself, is reported, and nothing is kept', async (_, text, written) => {
      await using process = start()
      const attempt = await process.open('k')
      await order(attempt.tx, 'book')
      await attempt.tx.query(text)
      expect(await attempt.complete()).toBe('ended')
      expect([await orders(), await records()]).toEqual([written, 0])
      // The test of LISTEN has one, too.
      const used = () => process.pool.totalCount - process.pool.idleCount
      await waitUntil('all connections are given back', () => used() === 0)
    })

    it('begins while the clock is set back, is completed', async () => {
      // The functions of PostgreSQL are found after those of this schema.
      await server().query('create schema back')
      await server().query(`create function back.clock_timestamp() returns timestamptz language sql
        as $$ select pg_catalog.clock_timestamp() - interval '1 hour' $$`)
      await using process = start({}, { options: '-c search_path=back,pg_catalog,public' })
      const attempt = await process.open('k')
      await order(attempt.tx, 'book')
      expect(await attempt.complete()).toBe('finished')
      expect(await orders()).toEqual(['book'])
    })

    it('writes after its end, gets an error and reaches no other transaction', async () => {
      await using process = start({}, { max: 1 })
      const attempt = await process.open('k')
      const { tx, transaction } = attempt
      transaction.seal()
      const over = { code: 'ERR_STAMPEDE_TRANSACTION_OVER' }
      await expect(order(tx, 'late')).rejects.toMatchObject(over)
      await expect(transaction.rollback()).rejects.toMatchObject(over)
      await attempt.complete()
      const next = await process.open('next')
      await expect(order(tx, 'late')).rejects.toMatchObject(over)
      await next.complete()
      expect(await orders()).toEqual([])
      expect(Object.keys(tx)).toEqual(['query'])
    })

    it('holds a lock that another handler waits for in vain, ends by its lock_timeout', async () => {
      await using process = start()
      const [a, b] = [await process.open('a'), await process.open('b')]
      await a.tx.query('lock table orders')
      await b.tx.query("set local lock_timeout = '20ms'")
      await expect(order(b.tx, 'b')).rejects.toMatchObject({ code: '55P03' })
      expect(await b.complete()).toBe('failed')
      expect(await a.complete()).toBe('finished')
    })

    it('is in a deadlock with another, one of both commits', async () => {
      await using process = start()
      await server().query("insert into orders (item) values ('x'), ('y')")
      const attempts = [await process.open('a'), await process.open('b')]
      const lock = (i: number, item: string) =>
        attempts[i]?.tx.query('update orders set item = item where item = $1', [item])
      await Promise.all([lock(0, 'x'), lock(1, 'y')])
      const locked = await Promise.allSettled([lock(0, 'y'), lock(1, 'x')])
      const failed = locked.filter(({ status }) => status === 'rejected')
      expect(failed).toMatchObject([{ reason: { code: '40P01' } }])
      const ends = await Promise.all(attempts.map((attempt) => attempt.complete()))
      expect(ends.sort()).toEqual(['failed', 'finished'])
      expect(await records()).toBe(1)
    })
  })

  describe('of a key that another process uses', () => {
    it('is busy, also with another body, until the transaction ends', async () => {
      await using a = start()
      await using b = start()
      const attempt = await a.open('k')
      for (const fingerprints of [PRINTS, OTHER])
        for (const process of [a, b])
          expect((await process.begin('k', { fingerprints })).status).toBe('busy')
      expect((await b.begin('other key')).status).toBe('begun')
      await attempt.complete()
      expect((await b.begin('k')).status).toBe('completed')
      expect((await b.begin('k', { fingerprints: OTHER })).status).toBe('mismatch')
    })

    it('begins again after the record has expired', async () => {
      await using process = start()
      await (await process.open('k')).complete()
      await server().query("update stampede.idempotency set expires_at = now() - interval '1 ms'")
      const again = await process.open('k', { fingerprints: OTHER })
      expect(again.begun.attempt).toBe(1)
      expect(await again.complete()).toBe('finished')
      expect(await records()).toBe(1)
    })

    it('takes over from an attempt whose lease ran out, and is busy while it runs', async () => {
      await using process = start()
      const lease = { transaction: undefined, leaseMs: 5_000 }
      const leased = await process.begin('k', lease)
      if (leased.status !== 'begun') throw new Error(leased.status)
      expect(leased.transaction).toBeUndefined()
      await process.store.idempotency.keepStep(leased.grant, 'pay', Buffer.from('paid'))
      expect((await process.begin('k')).status).toBe('busy')
      await server().query('update stampede.idempotency set lease_until = now()')
      const attempt = await process.open('k')
      expect(attempt.begun).toMatchObject({ attempt: 2, isRecovery: true })
      expect(Buffer.from(attempt.begun.steps.get('pay') ?? []).toString()).toBe('paid')
      expect((await process.begin('k', lease)).status).toBe('busy')
      expect(await attempt.complete()).toBe('finished')
      expect((await process.begin('k', lease)).status).toBe('completed')
    })

    it('does not commit if a record appeared meanwhile, even without the lock', async () => {
      await using process = start()
      const attempt = await process.open('k')
      await order(attempt.tx, 'book')
      await server().query(`insert into stampede.idempotency
        (key, state, exact, canonical, fence, expires_at, frame)
        values ('k', 'completed', 'e', 'c', 1, now() + interval '1 min', 'theirs')`)
      expect(await attempt.complete()).toBe('stale')
      expect(await orders()).toEqual([])
      expect(await process.begin('k')).toMatchObject({ status: 'completed' })
    })

    it('reports 50 requests as completed that waited for the only connection', async () => {
      await using process = start({}, { max: 1 })
      const first = await process.open('k')
      const replies = Array.from({ length: 50 }, () => process.begin('k'))
      await waitUntil('all wait for the connection', () => process.pool.waitingCount >= 50)
      await order(first.tx, 'book')
      expect(await first.complete()).toBe('finished')
      const statuses = (await Promise.all(replies)).map(({ status }) => status)
      expect(new Set(statuses)).toEqual(new Set(['completed']))
      expect([await orders(), process.pool.totalCount]).toEqual([['book'], 1])
    })
  })

  describe.each(['read committed', 'repeatable read', 'serializable'] as const)(
    'with the isolation %s',
    (isolation) => {
      const transaction = { isolation }

      it('commits and replays', async () => {
        await using process = start()
        const attempt = await process.open('k', { transaction })
        const { rows } = await attempt.tx.query('show transaction_isolation')
        expect(rows).toEqual([{ transaction_isolation: isolation }])
        await order(attempt.tx, 'book')
        expect(await attempt.complete()).toBe('finished')
        expect((await process.begin('k', { transaction })).status).toBe('completed')
        expect(await orders()).toEqual(['book'])
      })

      it('runs one of many requests of two processes at a time', async () => {
        await using a = start()
        await using b = start()
        const work = async (i: number) => {
          const process = i % 2 === 0 ? a : b
          for (;;) {
            const reply = await process.begin('k', { transaction })
            if (reply.status === 'busy') continue
            if (reply.status !== 'begun') return reply.status
            await order(reply.transaction?.tx as Tx, `order ${i}`)
            const end = { as: 'completed', frame: Buffer.from(''), keepMs: 60_000 } as const
            const ended = await process.store.idempotency.finish(reply.grant, end, PRINTS)
            if (ended === 'finished') return 'ran'
          }
        }
        const ends = await Promise.all(Array.from({ length: 12 }, (_, i) => work(i)))
        expect(ends.filter((end) => end === 'ran')).toHaveLength(1)
        expect(ends.filter((end) => end === 'completed')).toHaveLength(11)
        expect(await orders()).toHaveLength(1)
      })
    },
  )

  describe.each(['repeatable read', 'serializable'] as const)(
    'whose snapshot is older than the record, in %s',
    (isolation) => {
      it('does not commit', async () => {
        await using process = start()
        const pool = new pg.Pool({ connectionString: server().url })
        // Takes the snapshot before the store looks.
        const runner = runnerOf(pool, async (client) => {
          await client.query(`begin isolation level ${isolation}; select 1 from orders`)
          await (await process.open('k')).complete('of the first')
        })
        const late = await process.open('k', { transaction: { runner: runner as never } })
        await order(late.tx, 'twice')
        expect(await late.complete()).toBe('stale')
        expect(await orders()).toEqual([])
        expect(await process.begin('k')).toMatchObject({ status: 'completed' })
        await pool.end()
      })
    },
  )

  it('is stale if it cannot be serialized, so that core looks again', async () => {
    await using process = start()
    const transaction = { isolation: 'serializable' } as const
    const a = await process.open('a', { transaction })
    const b = await process.open('b', { transaction })
    for (const { tx } of [a, b]) await tx.query('select count(*) from orders')
    await order(a.tx, 'a')
    await order(b.tx, 'b')
    expect(await a.complete()).toBe('finished')
    expect(await b.complete()).toBe('stale')
    expect(await orders()).toEqual(['a'])
  })

  describe('opened by a runner', () => {
    const runner = (pool: pg.Pool, isolation?: 'serializable') => ({
      transaction: { isolation, runner: runnerOf(pool) as never },
    })

    it('commits, rolls back and replays like one of the pool', async () => {
      await using process = start()
      const { pool } = process
      const first = await process.open('k', runner(pool))
      await order(first.tx, 'lost')
      expect((await process.begin('k', runner(pool))).status).toBe('busy')
      expect(await first.release()).toBe('finished')
      const second = await process.open('k', runner(pool, 'serializable'))
      await order(second.tx, 'undone')
      await second.transaction.rollback()
      await order(second.tx, 'book')
      expect(await second.complete()).toBe('finished')
      expect((await process.begin('k', runner(pool))).status).toBe('completed')
      expect(await orders()).toEqual(['book'])
      await waitUntil('the ROLLBACK of the replay', () => pool.totalCount === pool.idleCount)
    })

    it('reports an aborted transaction, and one that the handler ended', async () => {
      await using process = start()
      const failed = await process.open('k', runner(process.pool))
      await failed.tx.query('select 1 / 0').catch(() => {})
      expect(await failed.complete()).toBe('failed')
      const ended = await process.open('k', runner(process.pool))
      await ended.tx.query('commit')
      expect(await ended.complete()).toBe('ended')
      expect(await records()).toBe(0)
    })

    it('throws for each use of the transaction after its end', async () => {
      await using process = start()
      const attempt = await process.open('k', runner(process.pool))
      const { tx } = attempt
      await attempt.complete()
      const over = expect.objectContaining({ code: 'ERR_STAMPEDE_TRANSACTION_OVER' })
      expect(() => order(tx, 'late')).toThrow(over)
    })

    it('throws for a method that the handler read before the end', async () => {
      await using process = start()
      const attempt = await process.open('k', runner(process.pool))
      const { query } = attempt.tx
      attempt.transaction.seal()
      const over = expect.objectContaining({ code: 'ERR_STAMPEDE_TRANSACTION_OVER' })
      expect(() => query('select 1')).toThrow(over)
      await attempt.release()
    })

    it('is not opened again by a runner that repeats a failed commit', async () => {
      await using process = start()
      const once = runnerOf(process.pool)
      const failing = {
        async begin<T>(run: (tx: pg.PoolClient) => Promise<T>): Promise<T> {
          const lost = new Error('the connection is lost')
          await once.begin((tx) => run(tx).then(() => Promise.reject(lost))).catch(() => {})
          return once.begin(run)
        },
        query: once.query,
      }
      const attempt = await process.open('k', { transaction: { runner: failing as never } })
      await order(attempt.tx, 'book')
      expect(await attempt.complete()).toBe('unknown')
      const { pool } = process
      await waitUntil('the runner returns its client', () => pool.totalCount === pool.idleCount)
      expect([await orders(), await records()]).toEqual([[], 0])
    })

    it('rejects like a store that is unavailable if the ORM cannot begin', async () => {
      await using process = start()
      const begin = () => Promise.reject(new Error('no connection'))
      const broken = { begin, query: async () => [] }
      await expect(process.begin('k', { transaction: { runner: broken } })).rejects.toMatchObject({
        code: 'ERR_STAMPEDE_STORE_UNAVAILABLE',
        message: expect.stringContaining('no connection'),
      })
    })
  })

  describe('costs', () => {
    it('two messages and those of the handler, for the first request', async () => {
      await using process = start()
      await process.begin('warm up')
      process.sent.length = 0
      const attempt = await process.open('k')
      await order(attempt.tx, 'book')
      await attempt.complete()
      const [open, own, end, ...more] = process.messages
      expect(open).toMatch(
        /^begin; select "stampede"\.claim\(.*\) as reply; savepoint stampede_handler$/,
      )
      expect(own).toMatch(/^insert into orders/)
      expect(end).toMatch(
        /^release savepoint stampede_handler; select .*keep\(.*\) as reply; commit$/,
      )
      expect(more).toEqual([])
    })

    it('one message and a ROLLBACK for a busy or completed key', async () => {
      await using a = start()
      await using b = start()
      await b.begin('warm up')
      const attempt = await a.open('k')
      b.sent.length = 0
      expect((await b.begin('k')).status).toBe('busy')
      await attempt.complete()
      expect((await b.begin('k')).status).toBe('completed')
      const claim = expect.stringMatching(/^begin; .*claim/)
      expect(b.messages).toEqual([claim, 'rollback', claim, 'rollback'])
    })
  })

  it('keeps keys, fingerprints and frames with every byte', async () => {
    await using process = start()
    const frame = Uint8Array.from({ length: 256 }, (_, i) => i)
    for (const key of ["a'b", '\\', '\0', '"; drop table orders; --', 'ä😀', newToken()]) {
      const fingerprints = { exact: key, canonical: "'" }
      const attempt = await process.open(key, { fingerprints })
      const { grant } = attempt.begun
      const end = { as: 'completed', frame, keepMs: 60_000 } as const
      expect(await process.store.idempotency.finish(grant, end, fingerprints)).toBe('finished')
      const reply = await process.begin(key, { fingerprints })
      expect('frame' in reply && Uint8Array.from(reply.frame)).toEqual(frame)
    }
  })
})
