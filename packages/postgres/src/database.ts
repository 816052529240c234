// Calls of the functions in `sql/` over the pool of the app. Checks the tables, and turns errors of
// the driver into those that core expects. No call keeps a connection.

import { optionError, show, storeUnavailable } from '@stampede/core/store'
import type { Pool } from 'pg'
import { type Rows, rowsOfEach } from './line.ts'
import { LAYOUT } from './migrations.ts'
import { Notices } from './notices.ts'

/** An argument of a function in `sql/`. Strings and bytes arrive there as `bytea`. */
export type Argument = string | Uint8Array | number

const MISSING = 'tables are missing in schema {schema}; await store.migrate(), or run migrations()'
/** Time between two deletions of expired records. One process at a time deletes. */
const SWEEP_MS = 60_000
/** Limit of records that one call deletes. */
const SWEPT_AT_ONCE = 1_000

export class Database {
  readonly pool: Pool
  readonly schema: string
  readonly notices: Notices
  #layout: Promise<void> | undefined
  /** Statements around a call. Other isolations would reject a call that had to wait for a row. */
  #around: readonly [string, string] = ['', '']
  #sweeper: NodeJS.Timeout | undefined

  constructor(pool: Pool, schema: string, listens: boolean) {
    this.pool = pool
    this.schema = schema
    this.notices = new Notices(pool, schema, listens, (isUsed) => {
      clearInterval(this.#sweeper)
      if (isUsed) this.#sweeper = setInterval(() => void this.#sweep(), SWEEP_MS).unref()
    })
  }

  /**
   * The statement that calls a function, without placeholders, so that it can be part of a message
   * of several statements. It has only hex digits and whole numbers in it.
   */
  text(name: string, ...args: readonly Argument[]): string {
    return `select "${this.schema}".${name}(${args.map(literal).join(', ')}) as reply`
  }

  /**
   * Calls a function in a transaction of its own, in one round trip. Rejects with
   * `ERR_STAMPEDE_STORE_UNAVAILABLE`, or with `ERR_STAMPEDE_OPTION` if tables are missing or newer.
   */
  async call<T>(name: string, ...args: readonly Argument[]): Promise<T> {
    try {
      await this.checked()
      const [before, after] = this.#around
      const sent = this.pool.query(before + this.text(name, ...args) + after)
      return readReply<T>(rowsOfEach(await sent)[before === '' ? 0 : 1])
    } catch (error) {
      throw this.errorOf(name, error)
    }
  }

  /** Resolves if the tables have the layout of this version. Only the first call asks. */
  checked(): Promise<void> {
    this.#layout ??= this.#checkLayout().catch((error) => {
      this.#layout = undefined
      throw error
    })
    return this.#layout
  }

  /** The error of an operation, for core. */
  errorOf(operation: string, error: unknown): Error {
    const code = stateOf(error)
    // Undefined table, schema or function.
    if (code !== undefined && ['42P01', '3F000', '42883'].includes(code))
      return this.#wrongTables(MISSING)
    if (Object(error).code === 'ERR_STAMPEDE_OPTION') return error as Error
    const text = error instanceof Error ? error.message : show(error)
    const message = code === undefined ? text : `${text} (SQLSTATE ${code})`
    const cause = new Error(message, { cause: error })
    // Core then knows that the operation did not take effect.
    if (isRefusal(error)) cause.name = 'ReplyError'
    return storeUnavailable('postgres', operation, cause)
  }

  async #sweep(): Promise<void> {
    try {
      for (const name of ['sweep', 'lock_sweep'])
        while ((await this.call<number>(name)) >= SWEPT_AT_ONCE);
    } catch (error) {
      this.notices.report('sweep', error)
    }
  }

  async #checkLayout(): Promise<void> {
    const isolation = `current_setting('default_transaction_isolation') as isolation`
    const text = `select count(*) as layout, ${isolation} from "${this.schema}".migration`
    const row = (await this.pool.query(text)).rows[0]
    const layout = Number(row?.layout)
    if (row?.isolation !== 'read committed')
      this.#around = ['begin isolation level read committed; ', '; commit']
    if (layout < LAYOUT) throw this.#wrongTables(MISSING)
    const problem = `table layout ${layout} is newer than this version (${LAYOUT})`
    if (layout > LAYOUT) throw this.#wrongTables(`${problem}; update @stampede/postgres`)
  }

  #wrongTables(problem: string): Error {
    const text = problem.replace('{schema}', `"${this.schema}"`)
    return optionError('postgresStore.schema', this.schema, text)
  }
}

/** The reply of a function in `sql/`: JSON as text, which each driver returns as it is. */
export function readReply<T>(rows: Rows = []): T {
  return JSON.parse(String(rows[0]?.reply ?? null))
}

function literal(value: Argument): string {
  if (typeof value === 'number') return String(Math.ceil(value))
  // Without E, its meaning would depend on the setting standard_conforming_strings.
  return `E'\\\\x${hex(value)}'`
}

export function hex(value: string | Uint8Array): string {
  if (typeof value === 'string') return Buffer.from(value).toString('hex')
  return Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('hex')
}

/**
 * The SQLSTATE of an error of pg, or of the error inside one of an ORM. Undefined if the server did
 * not reply with an error.
 */
export function stateOf(error: unknown): string | undefined {
  const codes = chainOf(error).flatMap(({ code, meta, originalCode }) => {
    return [code, Object(meta).code, originalCode] as const
  })
  // EPIPE is a code of Node, P2034 one of Prisma.
  return codes.find((code) => /^(?!E|P[1-9])[0-9A-Z]{5}$/.test(String(code))) as string | undefined
}

/** An error with its causes. An ORM puts that of pg inside its own. */
export function chainOf(error: unknown): Record<string, unknown>[] {
  const chain: Record<string, unknown>[] = []
  // A chain of causes may be a circle.
  for (let e = Object(error); 'message' in e && chain.length < 5; e = Object(e.cause)) chain.push(e)
  return chain
}

/**
 * Whether the server refused a statement, so that it had no effect. After an error of the
 * connection, the server or its operator (classes 08, 53, 57, 58, XX), it may have had one.
 */
export function isRefusal(error: unknown): boolean {
  const code = stateOf(error)
  return code !== undefined && !/^(08|53|57|58|XX)/.test(code)
}
