import { describe, expect, it } from 'vitest'
import type { Line } from './line.ts'
import { Transaction } from './transaction.ts'

const OVER = expect.objectContaining({ code: 'ERR_STAMPEDE_TRANSACTION_OVER' })

/** The transaction of an attempt whose ORM has this transaction object. */
function transactionOf(tx: object): Transaction {
  return new Transaction(undefined as never, { tx } as Line, undefined as never, 1_000)
}

describe('the transaction object of an ORM', () => {
  it('keeps the functions of its functions, until its end', () => {
    const typed = Object.assign((value: number) => value, { point: (x: number) => [x] })
    const transaction = transactionOf({ typed })
    const tx = transaction.tx as { typed: typeof typed }
    expect([tx.typed(1), tx.typed.point(1)]).toEqual([1, [1]])
    const { point } = tx.typed
    transaction.seal()
    expect(() => point(1)).toThrow(OVER)
  })
})
