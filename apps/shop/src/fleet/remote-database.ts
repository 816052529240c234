// The database as a shop process of the fleet sees it. Each query is a message to the parent, which
// has the only PostgreSQL.

import type { Database, Query } from '../database.ts'
import type { DatabaseCall, FromProcess, ToProcess } from './messages.ts'
import { fromSent } from './sent-error.ts'

type Send = (message: FromProcess) => void

interface Pending {
  resolve(rows: readonly unknown[]): void
  reject(error: Error): void
}

export interface RemoteDatabase {
  readonly database: Database
  /** Hands over a reply of the parent. */
  receive(message: Extract<ToProcess, { type: 'result' }>): void
}

export function createRemoteDatabase(
  send: Send,
  { latencyMs, connections }: Pick<Database, 'latencyMs' | 'connections'>,
): RemoteDatabase {
  const pending = new Map<number, Pending>()
  let last = 0

  const call = (request: DatabaseCall): { id: number; rows: Promise<readonly unknown[]> } => {
    const id = ++last
    const rows = new Promise<readonly unknown[]>((resolve, reject) => {
      pending.set(id, { resolve, reject })
    })
    send({ type: 'database', id, request })
    return { id, rows }
  }

  const query: Query = async <Row>(sql: string, params: readonly unknown[]) =>
    (await call({ call: 'query', sql, params }).rows) as Row[]

  async function transaction<T>(work: (query: Query) => Promise<T>): Promise<T> {
    const { id, rows: begun } = call({ call: 'begin' })
    await begun
    const end = (commit: boolean) => call({ call: 'end', transaction: id, commit }).rows
    try {
      const run: Query = async <Row>(sql: string, params: readonly unknown[]) =>
        (await call({ call: 'run', transaction: id, sql, params }).rows) as Row[]
      const result = await work(run)
      await end(true)
      return result
    } catch (error) {
      await end(false).catch(() => {})
      throw error
    }
  }

  return {
    // The lab in the parent connects and disconnects the database, not this process.
    database: {
      latencyMs,
      connections,
      connected: true,
      query,
      transaction,
      close: async () => {},
    },
    receive({ id, rows, error }) {
      const waiting = pending.get(id)
      pending.delete(id)
      if (error === undefined) waiting?.resolve(rows ?? [])
      else waiting?.reject(fromSent(error))
    },
  }
}
