// Attempts with a transaction, as core begins and finishes them, on stores that PostgreSQL sees as
// processes of their own. Their connections record each message and can be cut off around it.

import { type IdempotencyStore, newToken, systemClock } from '@stampede/core/store'
import { type PostgresStore, postgresStore } from '@stampede/postgres'
import pg from 'pg'

type BeginRequest = Parameters<IdempotencyStore['begin']>[1]
type BeginReply = Awaited<ReturnType<IdempotencyStore['begin']>>
type Finish = Parameters<IdempotencyStore['finish']>[1]
type Begun = Extract<BeginReply, { status: 'begun' }>

export const PRINTS = { exact: 'e', canonical: 'c' }
export const KEEP_MS = 60_000

/** The transaction object of a handler. */
export type Tx = Pick<pg.ClientBase, 'query'>

export interface StoreProcess extends AsyncDisposable {
  readonly store: PostgresStore
  readonly pool: pg.Pool
  /** Keys whose waiters were woken. */
  readonly woken: string[]
  /** Errors that the store reported. */
  readonly errors: unknown[]
  /** Each message to the server, with `listen: ` before one of the connection for notices. */
  readonly sent: string[]
  /** The messages on connections of the pool, without the test of LISTEN. */
  readonly messages: string[]
  /** Cuts the connection that sends this text next, before or after the server has run it. */
  cut: { text: string; when: 'before' | 'after' } | undefined
  /** Whether notices do not arrive, as behind PgBouncer. */
  isDeaf: boolean
  /** Statements that the connection for notices got before the reply to its last one. */
  readonly overlapping: string[]
  begin(key: string, more?: Partial<BeginRequest>): Promise<BeginReply>
  /** Begins an attempt in a transaction. Fails if it does not begin. */
  open(key: string, more?: Partial<BeginRequest>): Promise<Attempt>
}

export class Attempt {
  readonly #store: IdempotencyStore
  readonly begun: Begun

  constructor(store: IdempotencyStore, begun: Begun) {
    this.#store = store
    this.begun = begun
  }

  get tx(): Tx {
    return this.transaction.tx as Tx
  }

  get transaction() {
    if (this.begun.transaction === undefined) throw new Error('there is no transaction')
    return this.begun.transaction
  }

  finish(finish: Finish) {
    this.transaction.seal()
    return this.#store.finish(this.begun.grant, finish, PRINTS)
  }

  complete(text = 'done') {
    return this.finish({ as: 'completed', frame: Buffer.from(text), keepMs: KEEP_MS })
  }

  release() {
    return this.finish({ as: 'released', keepMs: KEEP_MS })
  }
}

export function startStore(
  config: pg.PoolConfig,
  options: Parameters<typeof postgresStore>[1] = {},
): StoreProcess {
  const sent: string[] = []
  const woken: string[] = []
  const errors: unknown[] = []
  const overlapping: string[] = []
  const state = { isDeaf: false, cut: undefined as StoreProcess['cut'] }

  class WatchedClient extends pg.Client {
    #listens = false
    #running = 0

    // biome-ignore lint/suspicious/noExplicitAny: the overloads of pg.
    override query(...args: any[]): any {
      const text = typeof args[0] === 'string' ? args[0] : String(args[0]?.text)
      if (text.startsWith('listen')) this.#listens = true
      sent.push(this.#listens ? `listen: ${text}` : text)
      const { cut } = state
      if (this.#listens && this.#running > 0) overlapping.push(text)
      const run = () => {
        const reply = super.query(...(args as [string]))
        this.#running += 1
        const end = () => {
          this.#running -= 1
        }
        if (reply instanceof Promise) reply.then(end, end)
        return reply
      }
      if (cut === undefined || !text.includes(cut.text)) return run()
      state.cut = undefined
      const { stream } = (this as unknown as { connection: { stream: { destroy(): void } } })
        .connection
      const lost = new Error('the test cut the connection')
      if (cut.when === 'before') {
        stream.destroy()
        return Promise.reject(lost)
      }
      return run().then(() => {
        stream.destroy()
        throw lost
      })
    }

    override emit(event: string | symbol, ...args: unknown[]): boolean {
      return event === 'notification' && state.isDeaf ? false : super.emit(event, ...args)
    }
  }

  const pool = new pg.Pool({ max: 4, ...config, Client: WatchedClient as never })
  pool.on('error', () => {})
  const store = postgresStore(pool, options)
  const { idempotency } = store
  idempotency.attach({
    clock: systemClock,
    onWake: (key) => void woken.push(key),
    onSettled: () => {},
    onGap: () => {},
    onBack: () => {},
    onLost: () => {},
    onError: (_, error) => void errors.push(error),
  })
  const begin = async (key: string, more: Partial<BeginRequest> = {}) =>
    idempotency.begin(key, {
      token: newToken(),
      fingerprints: PRINTS,
      leaseMs: 10_000,
      retentionMs: KEEP_MS,
      maxAttempts: 3,
      keepUncertainMs: KEEP_MS,
      wait: false,
      transaction: {},
      ...more,
    })
  Object.defineProperty(state, 'messages', {
    get: () => sent.filter((text) => !/^listen: |pg_notify/.test(text)),
  })
  return Object.assign(state as typeof state & { readonly messages: string[] }, {
    store,
    pool,
    woken,
    errors,
    overlapping,
    sent,
    begin,
    async open(key: string, more?: Partial<BeginRequest>) {
      const reply = await begin(key, more)
      if (reply.status !== 'begun') throw new Error(`got ${reply.status}`)
      return new Attempt(idempotency, reply)
    },
    async [Symbol.asyncDispose]() {
      await idempotency.close()
      await pool.end()
    },
  })
}
