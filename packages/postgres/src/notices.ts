// LISTEN on one connection of its own, for all records and locks of the process. A notice is one
// letter for its kind, and text. Notices are hints: callers that wait also ask again.

import { newToken } from '@stampede/core/store'
import type { ClientBase, Pool } from 'pg'
import { type Rows, rowsOfEach } from './line.ts'

/** Callbacks for notices, lost notices and the connection. */
export interface NoticeListener {
  onNotice(kind: string, text: string): void
  /** Notices may have been missed. */
  onGap(): void
  /** The connection was lost. */
  onLost(): void
  onError(operation: string, error: unknown): void
}

type ListenClient = ClientBase & { end(): Promise<void>; unref?(): void }

/** How long a notice to this process may take, until LISTEN counts as not working. */
const ECHO_MS = 1_000
/** Time between two queries that show that the connection is alive. */
const HEARTBEAT_MS = 5_000
/** How long the server may take to confirm the end of the connection. */
const END_MS = 1_000
const FIRST_RETRY_MS = 100
const LAST_RETRY_MS = 10_000

export class Notices {
  /** Names this process in notices. */
  readonly processId: string = newToken()
  /** Whether notices arrive now. */
  isReceiving = false
  /** Resolves when the first notice arrived, or LISTEN has failed. */
  readonly ready: Promise<void>
  readonly #pool: Pool
  readonly #schema: string
  /** For notices to this process only. */
  readonly #ownChannel: string
  readonly #listeners = new Set<NoticeListener>()
  readonly #onUse: (isUsed: boolean) => void
  #listens: boolean
  #client: ListenClient | undefined
  #everReceived = false
  #retryMs = FIRST_RETRY_MS
  #timer: NodeJS.Timeout | undefined
  #isReady: () => void = () => {}
  /** Settles after the last statement: a client of pg runs one statement at a time. */
  #last: Promise<unknown> = Promise.resolve()

  /** `onUse` is called with the first listener, and after the last one was removed. */
  constructor(pool: Pool, schema: string, listens: boolean, onUse: (isUsed: boolean) => void) {
    this.#pool = pool
    this.#onUse = onUse
    this.#schema = schema
    this.#ownChannel = `${schema}:${this.processId}`
    this.#listens = listens
    this.ready = new Promise((resolve) => {
      this.#isReady = resolve
    })
    if (!listens) this.#isReady()
  }

  /** The first listener opens the connection. */
  add(listener: NoticeListener): void {
    this.#listeners.add(listener)
    if (this.#listeners.size > 1) return
    this.#onUse(true)
    if (this.#listens) void this.#connect()
  }

  /** The last listener closes the connection. */
  async remove(listener: NoticeListener): Promise<void> {
    if (!this.#listeners.delete(listener) || this.#listeners.size > 0) return
    this.#onUse(false)
    await this.#disconnect()
  }

  /**
   * Runs statements on the connection, and returns the rows of each. Its session can hold advisory
   * locks. Returns an empty list if there is no connection.
   */
  async query(text: string): Promise<readonly Rows[]> {
    const reply = this.#last.then((): unknown => this.#client?.query(text))
    this.#last = reply.catch(() => {})
    return rowsOfEach(await reply)
  }

  report(operation: string, error: unknown): void {
    for (const listener of this.#listeners) listener.onError(operation, error)
  }

  async #connect(): Promise<void> {
    const { Client, options } = this.#pool as Pool & { Client: new (o: object) => ListenClient }
    const client = new Client(options as object)
    client.on('error', (error) => this.#lost(client, error))
    client.on('end', () => this.#lost(client))
    client.on('notification', ({ payload = '' }) => this.#notice(client, payload))
    this.#client = client
    try {
      await client.connect()
      client.unref?.()
      await client.query(`listen "${this.#schema}"; listen "${this.#ownChannel}"`)
      // By another connection. PgBouncer would send a notice of this one back although LISTEN has
      // no effect there.
      await this.#pool.query(`select pg_notify('${this.#ownChannel}', 'e')`)
      const isCurrent = client === this.#client && !this.isReceiving
      if (isCurrent) this.#after(ECHO_MS, () => void this.#giveUp(client))
    } catch (error) {
      this.#lost(client, error)
    }
  }

  #notice(client: ListenClient, payload: string): void {
    if (client !== this.#client) return
    const [kind = '', text] = [payload.slice(0, 1), payload.slice(1)]
    if (kind !== 'e') for (const listener of this.#listeners) listener.onNotice(kind, text)
    else this.#receives(client)
  }

  #receives(client: ListenClient): void {
    const mayHaveMissed = this.#everReceived
    this.#everReceived = true
    this.isReceiving = true
    this.#retryMs = FIRST_RETRY_MS
    this.#isReady()
    this.#after(HEARTBEAT_MS, () => void this.#beat(client))
    if (mayHaveMissed) for (const listener of this.#listeners) listener.onGap()
  }

  /** A connection whose other end is gone looks like one without notices. */
  async #replies(client: ListenClient): Promise<boolean> {
    this.#after(HEARTBEAT_MS, () => this.#lost(client, new Error('the connection is silent')))
    await this.query('select 1').catch(() => {})
    return client === this.#client
  }

  async #beat(client: ListenClient): Promise<void> {
    if (await this.#replies(client)) this.#after(HEARTBEAT_MS, () => void this.#beat(client))
  }

  /** A notice that was only slow arrives before the reply. */
  async #giveUp(client: ListenClient): Promise<void> {
    if (!(await this.#replies(client)) || this.isReceiving) return
    this.#listens = false
    void this.#disconnect()
    process.emitWarning(
      'Notices of PostgreSQL do not arrive on this connection, so waiting requests poll. Behind ' +
        "PgBouncer, pass wait: 'poll' to postgresStore.",
      { type: 'StampedeWarning', code: 'STAMPEDE_NO_LISTEN' },
    )
  }

  #lost(client: ListenClient, error?: unknown): void {
    if (client !== this.#client) return
    void this.#disconnect()
    if (error !== undefined) this.report('listen', error)
    for (const listener of this.#listeners) listener.onLost()
    this.#after(this.#retryMs, () => void this.#connect())
    this.#retryMs = Math.min(this.#retryMs * 2, LAST_RETRY_MS)
  }

  async #disconnect(): Promise<void> {
    const client = this.#client
    this.#client = undefined
    this.isReceiving = false
    clearTimeout(this.#timer)
    this.#isReady()
    const late = new Promise<void>((resolve) => this.#after(END_MS, resolve))
    await Promise.race([late, client?.end().catch(() => {})])
  }

  /** Replaces the timer. */
  #after(ms: number, run: () => void): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(run, ms)
    this.#timer.unref()
  }
}
