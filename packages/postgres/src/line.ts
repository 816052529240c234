// The connection of one transaction: from the pool, or from the transaction of an ORM.

import { optionError, type TransactionRunner } from '@stampede/core/store'
import type { Pool, PoolClient } from 'pg'

export type Rows = ReadonlyArray<Readonly<Record<string, unknown>>>

/** The rows of each statement in a message. The result of pg is a list only if it has several. */
export function rowsOfEach(result: unknown): readonly Rows[] {
  return [(result ?? []) as { rows: Rows }].flat().map(({ rows }) => rows)
}

/** A connection in a transaction. The first of `commit`, `rollback`, `giveBack` ends its use. */
export interface Line {
  /** The client with which the handler writes. */
  readonly tx: unknown
  /** Whether the transaction has ended without `commit` or `rollback`. */
  readonly isBroken: boolean
  /** Runs statements that have no parameters. Returns the rows of each. */
  send(statements: readonly string[]): Promise<readonly Rows[]>
  /** Runs statements, then commits. If it rejects, the connection is not given back yet. */
  commit(statements: readonly string[]): Promise<void>
  /** Rolls back, then runs a statement outside of the transaction. Never rejects. */
  rollback(after?: string): Promise<void>
  /** With an error, the connection is closed: the outcome of its last statement is unknown. */
  giveBack(error?: unknown): void
}

/** Sends statements in one message, so each end of a transaction is one round trip. */
export class PooledLine implements Line {
  isBroken = false
  readonly tx: PoolClient
  #isOpen = false
  #isGivenBack = false
  // Without a listener, an error of the connection would end the process.
  readonly #onError = (): void => {
    this.isBroken = true
  }

  constructor(client: PoolClient) {
    this.tx = client
    client.on('error', this.#onError)
  }

  async send(statements: readonly string[]): Promise<readonly Rows[]> {
    const all = this.#isOpen ? statements : ['begin', ...statements]
    this.#isOpen = true
    const rows = rowsOfEach(await this.tx.query(all.join('; ')))
    return rows.slice(all.length - statements.length)
  }

  async commit(statements: readonly string[]): Promise<void> {
    await this.send([...statements, 'commit'])
    this.giveBack()
  }

  async rollback(after?: string): Promise<void> {
    try {
      await this.send(after === undefined ? ['rollback'] : ['rollback', after])
      this.giveBack()
    } catch (error) {
      this.giveBack(error)
    }
  }

  giveBack(error?: unknown): void {
    if (this.#isGivenBack) return
    this.#isGivenBack = true
    this.tx.off('error', this.#onError)
    this.tx.release(error as Error)
  }
}

const RETURN_ROWS = 'return the rows as an array: result.rows'
const ROLLED_BACK = new Error('Stampede rolls this transaction back')

/** An ORM may send only one statement a message. */
export class RunnerLine implements Line {
  tx: unknown
  isBroken = false
  readonly #runner: TransactionRunner
  readonly #pool: Pool
  #end: () => void = () => {}
  #fail: (error: unknown) => void = () => {}
  /** Settles when the ORM has committed or rolled back. */
  #ended: Promise<void> = Promise.resolve()

  /** Rejects if the ORM cannot begin. */
  static async open(runner: TransactionRunner, pool: Pool): Promise<RunnerLine> {
    const line = new RunnerLine(runner, pool)
    await new Promise<void>((resolve, reject) => {
      const run = (tx: unknown) =>
        new Promise<void>((end, fail) => {
          // A runner that retries would wait for ever: the handler has ended.
          if (line.tx !== undefined) throw new Error('the runner called run twice')
          line.tx = tx
          line.#end = end
          line.#fail = fail
          resolve()
        })
      line.#ended = runner.begin(run)
      line.#ended.catch((error) => {
        line.isBroken = true
        reject(error)
      })
    })
    return line
  }

  private constructor(runner: TransactionRunner, pool: Pool) {
    this.#runner = runner
    this.#pool = pool
  }

  async send(statements: readonly string[]): Promise<readonly Rows[]> {
    const all: Rows[] = []
    for (const text of statements) {
      const rows: unknown = await this.#runner.query(this.tx, text, [])
      // The runner of an app may return the result of its driver.
      if (!Array.isArray(rows)) throw optionError('transaction.runner.query', rows, RETURN_ROWS)
      all.push(rows)
    }
    return all
  }

  async commit(statements: readonly string[]): Promise<void> {
    await this.send(statements)
    this.#end()
    await this.#ended
  }

  async rollback(after?: string): Promise<void> {
    this.#fail(ROLLED_BACK)
    await this.#ended.catch(() => {})
    if (after !== undefined) await this.#pool.query(after).catch(() => {})
  }

  giveBack(error: unknown): void {
    this.#fail(error)
  }
}
