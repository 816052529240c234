// Attempts that run in a transaction: its end, its options, and what no attempt has then.

import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { createHttpIdempotency } from '../http-idempotency.ts'
import { memoryStore } from '../memory/memory-store.ts'
import type { TransactionRunner } from '../ports/idempotency-store.ts'
import { createStampede } from '../stampede.ts'
import { IdempotencyBench, NOTHING_LEFT } from '../testing/idempotency-bench.ts'
import { type ListTransaction, settled, TransactionDouble } from '../testing/index.ts'
import { refuse } from '../testing/store-doubles.ts'

let bench: IdempotencyBench
let transactions: TransactionDouble
let ask: ReturnType<IdempotencyBench['route']>

beforeEach(() => {
  bench = new IdempotencyBench()
  transactions = new TransactionDouble()
  transactions.addTo(bench.store)
  ask = bench.route({ transaction: true })
})
afterEach(async () => {
  bench.store.heal()
  await bench.stampede.close()
  expect([bench.left, transactions.open]).toEqual([NOTHING_LEFT, 0])
})

const txOf = (attempt: { readonly tx: unknown }) => attempt.tx as ListTransaction
const coded = (code: string, message: RegExp) =>
  expect.objectContaining({ code, message: expect.stringMatching(message) })

describe('a request in a transaction', () => {
  it('has no lease, so nothing is renewed, however long the handler takes', async () => {
    const request = await ask()
    expect(bench.left).toMatchObject({ running: 1, leases: 0 })
    await bench.clock.advance(25_000)
    expect([bench.store.take(), request.attempt.signal.aborted]).toEqual([['begin'], false])
    await request.answer()
    expect(bench.store.take()).toEqual(['finish completed'])
  })

  it('is rolled back after ten minutes, if its handler hangs', async () => {
    const request = await ask()
    await bench.clock.advance(600_000)
    expect(bench.store.take()).toContain('finish released')
    expect([transactions.open, request.attempt.signal.aborted]).toEqual([0, true])
    await request.answer({ status: 201, body: 'late' })
    expect(request.problem).toMatchObject({ code: 'idempotency-outcome-unknown', status: 503 })
    expect(transactions.writes).toEqual([])
  })

  it('rejects writes after the end of the response', async () => {
    const request = await ask()
    const tx = txOf(request.attempt)
    // The handler goes on in the same turn.
    const answered = request.answer()
    const late = tx.write('late')
    const over = coded('ERR_STAMPEDE_TRANSACTION_OVER', /await each statement/)
    await expect(late).rejects.toEqual(over)
    await answered
    expect(transactions.writes).toEqual([])
  })

  it.each([
    ['a 5xx', { status: 500 }],
    ['a 429', { status: 429 }],
  ])('is rolled back by %s, whose client gets that response', async (_, response) => {
    const request = await ask()
    await txOf(request.attempt).write('order 7')
    await request.answer(response)
    expect(request.got).toMatchObject({ by: 'handler', ...response })
    const again = await ask()
    expect([again.attempt.isRecovery, transactions.writes]).toEqual([false, []])
    await again.answer()
  })

  it('is rolled back if its handler throws, also after keep()', async () => {
    const request = await ask()
    request.attempt.keep()
    await request.end({ type: 'failed', error: new Error('x') })
    expect(bench.store.take()).toEqual(['begin', 'finish released'])
    expect(bench.events.take()).toEqual(['answered started', 'finished released, finished'])
  })

  it('gets the security fields of that response, also if its own handler has set them', async () => {
    const request = await ask()
    request.isSet = () => true
    transactions.next = 'stale'
    const headers = { 'content-security-policy': "default-src 'none'" }
    await request.answer({ status: 201, headers, body: 'made' })
    expect(request.field('content-security-policy')).toBe("default-src 'none'")
  })

  it('gets 503 if it could not be serialized, or the lookup after it fails', async () => {
    for (const isDown of [false, true]) {
      const request = await ask({ key: `k-${isDown}` })
      transactions.next = 'stale, without a record'
      if (isDown) bench.store.next('begin', refuse)
      await request.answer({ body: 'made' })
      expect(request.problem).toMatchObject({ code: 'idempotency-outcome-unknown', status: 503 })
    }
    expect(transactions.writes).toEqual([])
  })

  it('is stored encrypted', async () => {
    const key = 'x'.repeat(32)
    bench = new IdempotencyBench({ idempotency: { encryptionKeys: [key] } })
    transactions.addTo(bench.store)
    ask = bench.route({ transaction: true })
    await (await ask()).answer({ body: 'private' })
    bench.rt.attempts.forgetDone()
    expect((await ask()).got).toMatchObject({ by: 'core', body: 'private' })
    const raw = await bench.store.inspect(bench.rt.hashes.requestKey('user-1', 'k-1') as string)
    expect(Buffer.from(raw?.frame ?? []).includes('private')).toBe(false)
  })

  it('is rolled back by close(), which waits for that', async () => {
    const request = await ask()
    await txOf(request.attempt).write('order 7')
    const closed = bench.stampede.close()
    await bench.clock.advance(2_000)
    await closed
    expect([transactions.open, transactions.writes]).toEqual([0, []])
    expect(bench.store.take()).toEqual(['begin', 'finish released', 'close'])
    await expect(txOf(request.attempt).write('late')).rejects.toThrow('has ended')
  })

  it('does not delay close() for ever if the store does not reply to the rollback', async () => {
    const request = await ask()
    const inner = bench.store.finish
    bench.store.finish = async (...args) => {
      await inner(...args)
      return new Promise(() => {})
    }
    const closed = bench.stampede.close()
    await bench.clock.advance(4_000)
    await closed
    expect(request.attempt.signal.aborted).toBe(true)
  })
})

describe('a job in a transaction', () => {
  const options = { transaction: true } as const

  it('commits its writes with its result', async () => {
    const work = async (attempt: { tx: unknown }) => {
      await txOf(attempt).write('invoice 7')
      return { id: 7 }
    }
    expect(await bench.stampede.idempotent('invoice:7', work, options)).toEqual({ id: 7 })
    expect(await bench.stampede.idempotent('invoice:7', work, options)).toEqual({ id: 7 })
    expect(transactions.writes).toEqual(['invoice 7'])
  })

  it.each([
    ['the commit conflicts', () => 'made'],
    ['a statement conflicts', () => Promise.reject(Object.assign(new Error(), { code: '40001' }))],
    [
      'an ORM reports a deadlock',
      () =>
        Promise.reject(new Error('orm', { cause: Object.assign(new Error(), { code: '40P01' }) })),
    ],
    [
      'an ORM reports a conflict with a code of its own',
      () => {
        const cause = Object.assign(new Error(), { code: '40001' })
        throw Object.assign(new Error('orm', { cause }), { code: 'E_QUERY' })
      },
    ],
  ])('runs again if %s', async (_, fails) => {
    const numbers: number[] = []
    const made = bench.stampede.idempotent(
      'invoice:7',
      async (attempt) => {
        numbers.push(attempt.number)
        await txOf(attempt).write(`run ${attempt.number}`)
        if (attempt.number > 2) return 'made'
        transactions.next = 'stale, without a record'
        return fails()
      },
      options,
    )
    expect(await made).toBe('made')
    // The records of this double count released attempts too.
    expect([numbers.length, transactions.writes.length]).toEqual([numbers.length, 1])
    expect(bench.events.take().filter((each) => each.startsWith('answered'))).toEqual([
      'answered started',
    ])
  })

  it('runs four times at most', async () => {
    let runs = 0
    const work = () => {
      runs += 1
      transactions.next = 'stale, without a record'
    }
    const made = bench.stampede.idempotent('invoice:7', work, options)
    await expect(made).rejects.toEqual(coded('ERR_STAMPEDE_STORE_UNAVAILABLE', /rolled back/))
    expect(runs).toBe(4)
  })

  it('gets the result of another attempt that committed first', async () => {
    const work = () => {
      transactions.next = 'stale'
      return 'of the other'
    }
    expect(await bench.stampede.idempotent('invoice:7', work, options)).toBe('of the other')
  })

  it.each([
    ['failed', 'ERR_STAMPEDE_TRANSACTION_LOST', /one of its statements failed/],
    ['ended', 'ERR_STAMPEDE_TRANSACTION_LOST', /ended the transaction itself/],
    ['unknown', 'ERR_STAMPEDE_STORE_UNAVAILABLE', /may be rolled back/],
  ] as const)('rejects if the commit is %s, and may run again', async (reply, code, message) => {
    const work = () => {
      transactions.next = reply
    }
    const lost = bench.stampede.idempotent('invoice:7', work, options)
    await expect(lost).rejects.toEqual(coded(code, message))
    expect(await bench.stampede.idempotent('invoice:7', () => 'made', options)).toBe('made')
  })

  it('rejects with its own error, and is rolled back', async () => {
    const work = async (attempt: { tx: unknown }) => {
      await txOf(attempt).write('invoice 7')
      throw new Error('mine')
    }
    await expect(bench.stampede.idempotent('invoice:7', work, options)).rejects.toThrow('mine')
    expect(transactions.writes).toEqual([])
  })
})

describe('the option transaction', () => {
  const runner: TransactionRunner = { begin: (run) => run(1), query: async () => [] }

  it.each([
    [true, {}],
    [false, undefined],
    [runner, { runner }],
    [
      { runner, isolation: 'serializable' },
      { runner, isolation: 'serializable' },
    ],
    [{ isolation: 'repeatable read' }, { isolation: 'repeatable read' }],
  ] as const)('tells the store how to begin: %#', async (transaction, rules) => {
    const request = await bench.route({ transaction })()
    expect(bench.store.begins.at(-1)?.transaction).toEqual(rules)
    await request.answer()
  })

  it.each<[object, RegExp]>([
    [{ transaction: 'yes' }, /transaction: received "yes"; pass true, { isolation }/],
    [{ transaction: new Map() }, /(Map).; pass true, { isolation }, or a runner/],
    [{ transaction: { isolation: 'none' } }, /isolation: received "none"; use one of/],
    [{ transaction: { runner: 1 } }, /runner: received 1; pass an object with begin and query/],
    [{ transaction: { level: 1 } }, /transaction.level: .* there is no such option/],
    [{ transaction: true, leaseMs: 1_000 }, /leaseMs: .* has no lease/],
    [{ transaction: true, onLeaseExpired: 'takeover' }, /onLeaseExpired: .* has no lease/],
  ])('is refused with what it contradicts: %j', async (given, message) => {
    const refused = coded('ERR_STAMPEDE_OPTION', message)
    expect(() => bench.route(given)).toThrow(refused)
    const job = bench.stampede.idempotent('job', () => 1, given)
    await expect(job).rejects.toEqual(refused)
  })

  it("is refused with onStoreError: 'proceed', and for a store without transactions", async () => {
    const proceed = { transaction: true, onStoreError: 'proceed' } as const
    expect(() => bench.route(proceed)).toThrow(/there is no transaction without the store/)
    const plain = createStampede()
    const scope = () => 'user'
    const create = () => createHttpIdempotency({ stampede: plain, scope, transaction: true })
    const refused = coded(
      'ERR_STAMPEDE_OPTION',
      /transaction: received true; pass a store with transactions/,
    )
    expect(create).toThrow(refused)
    const job = plain.idempotent('job', () => 1, { transaction: true })
    await expect(job).rejects.toEqual(refused)
    await plain.close()
  })

  it('is needed for tx and rollback()', async () => {
    const request = await bench.route()()
    expect(() => request.attempt.tx).toThrow(/attempt.tx: .* transaction: true/)
    expect(() => request.attempt.rollback()).toThrow(/attempt.rollback: .* transaction: true/)
    await request.answer()
  })

  it('refuses step() before its work is done, release() and uncertain()', async () => {
    const request = await ask()
    const work = vi.fn()
    const refused = coded('ERR_STAMPEDE_OPTION', /rolled back with the transaction/)
    await expect(request.attempt.step('pay', work)).rejects.toEqual(refused)
    expect(work).not.toHaveBeenCalled()
    for (const word of ['release', 'uncertain'] as const)
      expect(() => request.attempt[word]()).toThrow(coded('ERR_STAMPEDE_OPTION', /roll it back/))
    await request.answer()
  })
})

describe('the option idempotency.store', () => {
  it('keeps the records of idempotency keys, apart from the store of entries', async () => {
    const store = memoryStore()
    const stampede = createStampede({ idempotency: { store } })
    expect(await stampede.idempotent('job', () => 1)).toBe(1)
    const other = createStampede({ store })
    await expect(other.idempotent('job', () => 2)).rejects.toThrow(/already in use/)
    await stampede.close()
    await other.close()
  })

  it.each([[1], [{}], [{ idempotency: {} }]])('is refused if it is no store: %j', (store) => {
    const create = () => createStampede({ idempotency: { store: store as never } })
    expect(create).toThrow(
      coded('ERR_STAMPEDE_OPTION', /idempotency.store: .* postgresStore\(pool\)/),
    )
  })
})

describe('types of tx', () => {
  it('come from the runner, and tx does not exist without the option', async () => {
    const runner: TransactionRunner<ListTransaction> = {
      begin: (run) => run({ write: async () => {} }),
      query: async () => [],
    }
    const { stampede } = bench
    await stampede.idempotent('a', ({ tx }) => tx.write('typed'), { transaction: runner })
    await stampede.idempotent('b', ({ tx }) => tx.write('typed'), { transaction: { runner } })
    // @ts-expect-error: without the option, there is no tx.
    const none = stampede.idempotent('c', ({ tx }) => tx.write('typed'))
    await expect(none).rejects.toThrow('transaction: true')
    await settled()
  })
})
