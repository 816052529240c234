import { describe, expect, it } from 'vitest'
import { PooledLine } from './line.ts'
import { Transaction } from './transaction.ts'

const OVER = expect.objectContaining({ code: 'ERR_STAMPEDE_TRANSACTION_OVER' })

/** The transaction of an attempt on this line. */
function transactionOn(line: unknown): Transaction {
  return new Transaction(undefined as never, line as never, undefined as never, 1_000)
}

describe('the transaction object of an ORM', () => {
  it('keeps the functions of its functions, until its end', () => {
    const typed = Object.assign((value: number) => value, { point: (x: number) => [x] })
    const transaction = transactionOn({ tx: { typed } })
    const tx = transaction.tx as { typed: typeof typed }
    expect([tx.typed(1), tx.typed.point(1)]).toEqual([1, [1]])
    const { point } = tx.typed
    transaction.seal()
    expect(() => point(1)).toThrow(OVER)
  })
})

describe('the client of pg', () => {
  it('passes its error after the end to the callback of a statement', async () => {
    const transaction = transactionOn(new PooledLine({ on() {}, query() {} } as never))
    transaction.seal()
    const { query } = transaction.tx as { query(...args: unknown[]): unknown }
    await expect(query('select 1')).rejects.toEqual(OVER)
    const error = await new Promise((resolve) => {
      query('select 1', resolve)
    })
    expect(error).toEqual(OVER)
  })
})
