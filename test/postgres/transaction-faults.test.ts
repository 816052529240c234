// Attempts with a transaction whose connection or server fails, and requests that wait for them.

import pg from 'pg'
import { beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { signal } from '../harness/guard.ts'
import { describePostgres, postgresOfFile } from '../harness/postgres.ts'
import { type StoreProcess, startStore, type Tx } from '../harness/postgres-attempts.ts'
import { waitUntil } from '../harness/wait-until.ts'

describePostgres('a transaction in PostgreSQL', () => {
  const server = postgresOfFile()
  const start = (options = {}, config: pg.PoolConfig = {}) =>
    startStore({ connectionString: server().url, ...config }, options)
  const order = (tx: Tx, item: string) => tx.query('insert into orders (item) values ($1)', [item])
  const orders = async () => (await server().query('select item from orders')).length
  const records = async () => (await server().query('select key from stampede.idempotency')).length
  const pidOf = async (tx: Tx) => (await tx.query('select pg_backend_pid() as pid')).rows[0].pid
  const inUse = ({ pool }: StoreProcess) => pool.totalCount - pool.idleCount
  const isHeld = async (process: StoreProcess, attempt: { begun: { grant: never } }) =>
    (await process.store.idempotency.renew([attempt.begun.grant], 1_000))[0]

  beforeAll(async () => {
    await using process = start()
    await process.store.migrate()
    await server().query('create table orders (id serial primary key, item text not null)')
  })
  beforeEach(() => server().query('truncate orders, stampede.idempotency cascade'))

  describe('whose connection is lost', () => {
    it('while the handler runs, is gone, and the next request begins', async () => {
      await using process = start()
      const attempt = await process.open('k')
      await order(attempt.tx, 'book')
      expect(await isHeld(process, attempt as never)).toBe(true)
      await server().query('select pg_terminate_backend($1)', [await pidOf(attempt.tx)])
      await waitUntil('the loss is seen', async () => !(await isHeld(process, attempt as never)))
      await expect(order(attempt.tx, 'more')).rejects.toThrow()
      expect(await attempt.complete()).toBe('unknown')
      expect([await orders(), await records()]).toEqual([0, 0])
      const next = await process.open('k')
      await order(next.tx, 'book')
      expect(await next.complete()).toBe('finished')
    })

    it('after idleMs without a statement, is rolled back by PostgreSQL', async () => {
      await using process = start({ idleMs: 1_000 })
      const attempt = await process.open('k')
      await order(attempt.tx, 'book')
      await waitUntil('it is over', async () => !(await isHeld(process, attempt as never)))
      expect(await attempt.complete()).toBe('unknown')
      expect([await orders(), await records()]).toEqual([0, 0])
      // The limit is that of the transaction, not of the connection.
      const next = await process.open('k')
      await next.complete()
      const { rows } = await process.pool.query('show idle_in_transaction_session_timeout')
      expect(rows).toEqual([{ idle_in_transaction_session_timeout: '0' }])
    })

    it('before the server got the commit, is reported as not committed', async () => {
      await using process = start()
      const attempt = await process.open('k')
      await order(attempt.tx, 'book')
      process.cut = { text: 'commit', when: 'before' }
      expect(await attempt.complete()).toBe('unknown')
      expect([await orders(), await records()]).toEqual([0, 0])
    })

    it('after the commit, before its reply, is looked up and reported as finished', async () => {
      await using process = start()
      const attempt = await process.open('k')
      await order(attempt.tx, 'book')
      process.cut = { text: 'commit', when: 'after' }
      expect(await attempt.complete()).toBe('finished')
      expect([await orders(), await records()]).toEqual([1, 1])
      expect((await process.begin('k')).status).toBe('completed')
    })

    it('in a commit that takes long, is looked up until the outcome is known', async () => {
      await server().query(`create or replace function slow() returns trigger language plpgsql as
        $$ begin perform pg_advisory_xact_lock(7); return null; end $$`)
      await server().query(`create constraint trigger slow after insert on orders
        deferrable initially deferred for each row execute function slow()`)
      await using process = start()
      const holder = new pg.Client(server().url)
      await holder.connect()
      await holder.query('select pg_advisory_lock(7)')
      const attempt = await process.open('k')
      await order(attempt.tx, 'book')
      const pid = await pidOf(attempt.tx)
      const { _clients: clients } = process.pool as unknown as { _clients: Client[] }
      const client = clients.find(({ processID }) => processID === pid)
      const ended = attempt.complete()
      await waitUntil('the commit waits', async () => {
        const text = `select 1 from pg_locks where locktype = 'advisory' and not granted`
        return (await server().query(text)).length === 1
      })
      client?.connection.stream.destroy()
      const outcome = (text: string) => text.includes('outcome')
      await waitUntil('it is looked up', () => process.sent.filter(outcome).length > 2)
      await holder.query('select pg_advisory_unlock(7)')
      expect(await ended).toBe('finished')
      expect([await orders(), await records()]).toEqual([1, 1])
      await holder.end()
      await server().query('drop function slow cascade')
    })

    it('in the first message, rejects, and begins nothing', async () => {
      await using process = start()
      await process.begin('warm up')
      for (const when of ['before', 'after'] as const) {
        process.cut = { text: 'claim', when }
        await expect(process.begin('k')).rejects.toMatchObject({
          code: 'ERR_STAMPEDE_STORE_UNAVAILABLE',
        })
      }
      await waitUntil('the key is free', async () => (await process.begin('k')).status === 'begun')
    })

    it('is gone after a restart of the whole server', async () => {
      await using process = start()
      const attempt = await process.open('k')
      await order(attempt.tx, 'book')
      await server().restart()
      expect(await attempt.complete()).toBe('unknown')
      expect([await orders(), await records()]).toEqual([0, 0])
      await (await process.open('k')).complete()
      await server().restart()
      await waitUntil('the record is there', async () => {
        const reply = await process.begin('k').catch(() => undefined)
        return reply?.status === 'completed'
      })
    })
  })

  describe('whose end gets no reply within idleMs', () => {
    /** A statement of the handler that never ends, as a cursor that it leaves open. */
    const leaveCursor = (tx: Tx) => void tx.query({ submit() {}, handleError() {} } as never)

    it('because the server is frozen, is reported as unknown', async () => {
      await using process = start({ idleMs: 1_000 })
      const attempt = await process.open('k')
      await order(attempt.tx, 'book')
      await server().pause()
      try {
        expect(await attempt.complete()).toBe('unknown')
      } finally {
        await server().resume()
      }
      await waitUntil('the key is free', async () => (await process.begin('k')).status !== 'busy')
      expect(await orders()).toBe(await records())
    })

    it.each([
      ['complete', 'unknown'],
      ['release', 'finished'],
    ] as const)('because a cursor is open, is rolled back by %s()', async (end, reply) => {
      await using process = start({ idleMs: 1_000 })
      const attempt = await process.open('k')
      await order(attempt.tx, 'book')
      leaveCursor(attempt.tx)
      expect(await attempt[end]()).toBe(reply)
      expect(inUse(process)).toBe(0)
      await waitUntil('the key is free', async () => (await process.begin('k')).status === 'begun')
      expect([await orders(), await records()]).toEqual([0, 0])
    })
  })

  it('is rolled back by close(), and its connection goes back to the pool', async () => {
    const process = start()
    const attempt = await process.open('k')
    await order(attempt.tx, 'book')
    // The test of LISTEN takes a connection of the pool too, and may still have it at the notice.
    await waitUntil('it listens', () => process.store.idempotency.isReceiving === true)
    await waitUntil('only the transaction has a connection', () => inUse(process) === 1)
    await process.store.idempotency.close()
    expect(inUse(process)).toBe(0)
    expect([await orders(), await records()]).toEqual([0, 0])
    await process.pool.end()
  })

  it('does not keep close() waiting for a server that is frozen', async () => {
    const process = start()
    await waitUntil('it listens', () => process.store.idempotency.isReceiving === true)
    await server().pause()
    try {
      await process.store.idempotency.close()
    } finally {
      await server().resume()
    }
    await process.pool.end()
  })

  describe('that another process waits for', () => {
    const wait = { wait: true }

    it.each([
      ['commits', 'complete', 'completed'],
      ['rolls back', 'release', 'begun'],
    ] as const)('wakes it when it %s', async (_, end, status) => {
      await using a = start()
      await using b = start()
      const attempt = await a.open('k')
      expect((await b.begin('k', wait)).status).toBe('busy')
      expect((await b.begin('k', wait)).status).toBe('busy')
      // A waiter holds no connection of the pool, once its ROLLBACK is confirmed.
      await waitUntil('the ROLLBACK', () => b.pool.totalCount === b.pool.idleCount)
      await attempt[end]()
      await waitUntil('the wake-up', () => b.woken.length > 0)
      expect(b.woken).toEqual(['k'])
      expect((await b.begin('k', wait)).status).toBe(status)
      expect(a.woken).toEqual([])
    })

    it('is seen at once if it ended before the lock of the waiter was held', async () => {
      await using a = start()
      await using b = start()
      const attempt = await a.open('k')
      await b.begin('other', { ...wait, transaction: undefined })
      await waitUntil('b listens', () => b.store.idempotency.isReceiving === true)
      const reply = b.begin('k', wait)
      await waitUntil('b found it busy', () => b.sent.includes('rollback'))
      await attempt.complete()
      const status = (await reply).status
      if (status === 'busy') await waitUntil('the wake-up', () => b.woken.includes('k'))
      expect((await b.begin('k', wait)).status).toBe('completed')
    })

    it('costs the waiter three messages besides ROLLBACK', async () => {
      await using a = start()
      await using b = start()
      await b.begin('warm up')
      await waitUntil('b listens', () => b.store.idempotency.isReceiving === true)
      const attempt = await a.open('k')
      b.sent.length = 0
      await b.begin('k', wait)
      await attempt.complete()
      await waitUntil('the wake-up', () => b.woken.includes('k'))
      expect((await b.begin('k', wait)).status).toBe('completed')
      expect(b.sent.filter((text) => !/unwatch|select 1/.test(text))).toEqual([
        expect.stringMatching(/^begin; .*claim/),
        'rollback',
        expect.stringMatching(/^listen: .*watch.*claim/),
        expect.stringMatching(/^select .*claim/),
      ])
    })

    it('is asked again after at most a second if it was killed, which sends no notice', async () => {
      await using a = start()
      await using b = start()
      const attempt = await a.open('k')
      await b.begin('k', wait)
      await server().query('select pg_terminate_backend($1)', [await pidOf(attempt.tx)])
      await waitUntil('the key is free', async () => (await b.begin('k', wait)).status === 'begun')
      expect(b.woken).toEqual([])
    })

    it('is asked again by polling, without LISTEN', async () => {
      await using a = start()
      await using b = start({ wait: 'poll' })
      const attempt = await a.open('k')
      const pauses: number[] = []
      for (let i = 0; i < 6; i++) {
        const reply = await b.begin('k', wait)
        pauses.push('forMs' in reply ? reply.forMs : -1)
      }
      expect(pauses).toEqual([100, 200, 400, 800, 1_000, 1_000])
      await attempt.complete()
      expect((await b.begin('k', wait)).status).toBe('completed')
      expect(b.store.idempotency.isReceiving).toBe(false)
      expect(b.sent.filter((text) => text.startsWith('listen'))).toEqual([])
    })

    it('is asked again by polling if notices do not arrive, with a warning', async () => {
      const warnings: Error[] = []
      const onWarning = (warning: Error) => void warnings.push(warning)
      process.on('warning', onWarning)
      await using a = start()
      await using b = start()
      b.isDeaf = true
      const attempt = await a.open('k')
      expect(await b.begin('k', wait)).toEqual({ status: 'busy', forMs: 100 })
      expect(b.store.idempotency.isReceiving).toBe(false)
      await waitUntil('the warning', () => warnings.length > 0)
      process.off('warning', onWarning)
      expect(warnings).toMatchObject([{ code: 'STAMPEDE_NO_LISTEN' }])
      await attempt.complete()
      expect((await b.begin('k', wait)).status).toBe('completed')
    })

    /** Freezes the connections for notices. Resolves with a function that ends that. */
    const freezeListeners = async () => {
      const text = `select pid from pg_stat_activity where query like 'listen%'`
      const rows = await server().query<{ pid: number }>(text)
      for (const { pid } of rows) signal(pid, 'SIGSTOP')
      return () => {
        for (const { pid } of rows) signal(pid, 'SIGCONT')
      }
    }

    it('is waited for by LISTEN, although its connection is slow at first', async () => {
      await using b = start()
      const query = b.pool.query.bind(b.pool)
      let resume = () => {}
      b.pool.query = (async (text: string) => {
        // The notice of the process to itself.
        if (/pg_notify/.test(text)) resume = await freezeListeners()
        return query(text)
      }) as never
      try {
        await waitUntil('its reply is awaited', () => b.sent.includes('listen: select 1'))
      } finally {
        resume()
      }
      await waitUntil('b listens', () => b.store.idempotency.isReceiving === true)
    })

    it('is watched beside others by one statement at a time', async () => {
      await using a = start()
      await using b = start()
      await waitUntil('b listens', () => b.store.idempotency.isReceiving === true)
      const keys = ['k', 'l', 'm']
      for (const key of keys) await a.open(key)
      const resume = await freezeListeners()
      const replies = keys.map((key) => b.begin(key, wait))
      try {
        const isBusy = (text: string) => text === 'rollback'
        await waitUntil('all are busy', () => b.sent.filter(isBusy).length === 3)
      } finally {
        resume()
      }
      await Promise.all(replies)
      expect(b.sent.filter((text) => text.includes('.watch('))).toHaveLength(3)
      expect(b.overlapping).toEqual([])
    })

    it('is found again after the connection for notices was lost', async () => {
      await using a = start()
      await using b = start()
      const attempt = await a.open('k')
      await b.begin('k', wait)
      await server().query(`select pg_terminate_backend(pid) from pg_stat_activity
        where query like '%watch%' and application_name <> 'harness'`)
      await waitUntil('b noticed', () => b.store.idempotency.isReceiving === false)
      await waitUntil('b listens again', () => b.store.idempotency.isReceiving === true)
      await b.begin('k', wait)
      await attempt.complete()
      await waitUntil('the wake-up', () => b.woken.includes('k'))
    })
  })
})

/** A client of pg in its pool. */
interface Client {
  readonly processID: number
  readonly connection: { readonly stream: { destroy(): void } }
}
