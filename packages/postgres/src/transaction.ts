// The transaction of an attempt: the writes of the handler and the stored response commit together
// or not at all.

import { setTimeout as sleep } from 'node:timers/promises'
import { StampedeError } from '@stampede/core'
import type { Grant, IdempotencyStore } from '@stampede/core/store'
import type { PoolClient } from 'pg'
import { chainOf, type Database, isRefusal, stateOf } from './database.ts'
import { type Line, PooledLine } from './line.ts'

export type Finish = Parameters<IdempotencyStore['finish']>[1]
export type Fingerprints = Parameters<IdempotencyStore['finish']>[2]
export type FinishReply = Awaited<ReturnType<IdempotencyStore['finish']>>

type Begun = Extract<Awaited<ReturnType<IdempotencyStore['begin']>>, { status: 'begun' }>
type OpenTransaction = NonNullable<Begun['transaction']>

type NumberedGrant = Grant & { readonly attempt: number }

/** The state before the first statement of the handler. */
export const SAVEPOINT = 'stampede_handler'

/** The constraint of the record's key in `sql/`. */
const PRIMARY_KEY = 'stampede_idempotency_pkey'
/** Pauses between two looks for the outcome of a commit. */
const FIRST_PAUSE_MS = 20
const LAST_PAUSE_MS = 1_000

export class Transaction implements OpenTransaction {
  readonly tx: unknown
  readonly #db: Database
  readonly #line: Line
  readonly #attempt: NumberedGrant
  readonly #idleMs: number
  #isSealed = false

  /** `idleMs`: how long the end may take, and then how long an unknown outcome is looked up. */
  constructor(db: Database, line: Line, attempt: NumberedGrant, idleMs: number) {
    this.#db = db
    this.#line = line
    this.#attempt = attempt
    this.#idleMs = idleMs
    this.tx = line instanceof PooledLine ? this.#queryOf(line.tx) : this.#guard(Object(line.tx))
  }

  /** Whether the database still has the transaction, as far as this process knows. */
  get isOpen(): boolean {
    return !this.#line.isBroken
  }

  async rollback(): Promise<void> {
    this.#check()
    await this.#line.send([`rollback to savepoint ${SAVEPOINT}`])
  }

  seal(): void {
    this.#isSealed = true
  }

  /** Rolls back, and wakes the waiters. */
  async abandon(): Promise<'finished'> {
    this.seal()
    const rolledBack = this.#line.rollback(this.#db.text('wake', this.#attempt.key))
    await this.#inTime(rolledBack).catch((error) => this.#line.giveBack(error))
    return 'finished'
  }

  /** Ends the transaction. Never rejects. */
  async finish(finish: Finish, { exact, canonical }: Fingerprints): Promise<FinishReply> {
    if (finish.as !== 'completed') return this.abandon()
    this.seal()
    const { key, token, fence, attempt } = this.#attempt
    const record = [key, token, exact, canonical, fence, attempt] as const
    const keep = this.#db.text('keep', ...record, finish.keepMs, finish.frame)
    try {
      await this.#inTime(this.#line.commit([`release savepoint ${SAVEPOINT}`, keep]))
      return 'finished'
    } catch (error) {
      const reply = isRefusal(error) ? replyFor(error) : undefined
      if (reply === undefined || reply === 'unknown') this.#db.notices.report('commit', error)
      if (reply !== undefined) {
        await this.abandon()
        return reply
      }
      this.#line.giveBack(error)
      return this.#lookUp()
    }
  }

  /** The connection was lost during the commit, so another one looks for the outcome. */
  #lookUp(): Promise<FinishReply> {
    const inTime = { ref: false, signal: AbortSignal.timeout(this.#idleMs) }
    const look = async (pauseMs: number): Promise<FinishReply> => {
      const { key, token } = this.#attempt
      const reply = await this.#db
        .call<FinishReply | 'busy'>('outcome', key, token)
        .catch(() => 'busy' as const)
      if (reply !== 'busy') return reply
      await sleep(pauseMs, undefined, inTime)
      return look(Math.min(pauseMs * 2, LAST_PAUSE_MS))
    }
    // A server that is frozen does not reply to a look either.
    return this.#inTime(look(FIRST_PAUSE_MS)).catch(() => 'unknown' as const)
  }

  /**
   * Rejects if the end takes too long: the server is frozen, or a cursor of the handler is open,
   * and each later statement of the connection waits for it.
   */
  #inTime<T>(end: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const late = () => reject(new Error(`no reply within ${this.#idleMs} ms`))
      const timer = setTimeout(late, this.#idleMs)
      end.then(resolve, reject).finally(() => clearTimeout(timer))
    })
  }

  #check(): void {
    if (!this.#isSealed) return
    const why = 'the attempt has ended its response, so its transaction is over'
    throw new StampedeError('ERR_STAMPEDE_TRANSACTION_OVER', `${why}; await each statement before`)
  }

  /** A client of pg that can only run statements. After the end, a callback gets the error. */
  #queryOf(client: PoolClient): object {
    const query = (...args: unknown[]): unknown => {
      if (!this.#isSealed) return Reflect.apply(client.query, client, args)
      const over = Promise.resolve().then(() => this.#check())
      const callback = args.at(-1)
      return typeof callback === 'function' ? void over.catch(callback as never) : over
    }
    return { query }
  }

  /**
   * The transaction object of an ORM, which throws after the end, as do methods read before. They
   * are bound, because a proxy has no private fields. A constructor is not: ORMs compare it.
   */
  #guard(tx: object): object {
    return new Proxy(tx, {
      get: (target, name) => {
        this.#check()
        const value: unknown = Reflect.get(target, name)
        if (typeof value !== 'function' || name === 'constructor') return value
        // With the functions that it has itself, such as `sql.typed.point` of postgres.js.
        return this.#guard(Object.setPrototypeOf(value.bind(target), value))
      },
      apply: (target, self, args) => {
        this.#check()
        return Reflect.apply(target as never, self, args)
      },
    })
  }
}

/** The reply for a commit that the server refused. */
function replyFor(error: unknown): FinishReply {
  const code = stateOf(error)
  // Without a transaction, and in one that the handler began.
  if (code === '25P01' || code === '3B001') return 'ended'
  if (code === '40001' || code === '40P01') return 'stale'
  // The role may not write our table, or PostgreSQL ended the transaction because it was idle.
  if (code === '42501' || code === '25P03') return 'unknown'
  const isOurs = chainOf(error).some(({ message }) => String(message).includes(PRIMARY_KEY))
  return code === '23505' && isOurs ? 'stale' : 'failed'
}
