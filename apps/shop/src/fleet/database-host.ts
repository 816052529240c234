// Runs the queries and transactions of one shop process on the database in the parent.

import type { Database, Query } from '../database.ts'
import type { DatabaseCall, ToProcess } from './messages.ts'
import { toSent } from './sent-error.ts'

export interface DatabaseHost {
  handle(id: number, request: DatabaseCall): Promise<void>
  /** Rolls back the open transactions of a process that has ended. */
  close(): void
}

interface OpenTransaction {
  readonly query: Query
  /** Resolves after the commit, and rejects if there was none. */
  finished(): Promise<void>
  commit(): void
  rollback(): void
}

/** A transaction without an end after this time is rolled back, for example of a frozen process. */
const LONGEST_TRANSACTION_MS = 5_000

/** `opening`: the processes start while the database opens. */
export function createDatabaseHost(
  opening: Promise<Database>,
  send: (message: ToProcess) => void,
): DatabaseHost {
  const open = new Map<number, OpenTransaction>()

  const begin = (database: Database, id: number) =>
    new Promise<readonly unknown[]>((resolve, reject) => {
      const done = database.transaction(async (query) => {
        let timer: NodeJS.Timeout | undefined
        const ended = new Promise<void>((commit, fail) => {
          const rollback = () => fail(new Error('the transaction was rolled back'))
          timer = setTimeout(rollback, LONGEST_TRANSACTION_MS)
          open.set(id, { query, commit, rollback, finished: () => done })
        })
        resolve([])
        await ended.finally(() => {
          clearTimeout(timer)
          open.delete(id)
        })
      })
      // Before `begin` was confirmed, this is its failure. Later, `end` reports it.
      done.catch(reject)
    })

  const perform = async (id: number, request: DatabaseCall): Promise<readonly unknown[]> => {
    const database = await opening
    if (request.call === 'query') return database.query(request.sql, request.params)
    if (request.call === 'begin') return begin(database, id)
    const transaction = open.get(request.transaction)
    if (transaction === undefined) throw new Error('the transaction is over')
    if (request.call === 'run') return transaction.query(request.sql, request.params)
    if (request.commit) transaction.commit()
    else transaction.rollback()
    await transaction.finished().catch((error) => {
      if (request.commit) throw error
    })
    return []
  }

  return {
    async handle(id, request) {
      try {
        send({ type: 'result', id, rows: await perform(id, request) })
      } catch (error) {
        send({ type: 'result', id, error: toSent(error) })
      }
    },
    close() {
      for (const transaction of open.values()) transaction.rollback()
    },
  }
}
