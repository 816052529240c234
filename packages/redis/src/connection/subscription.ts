// The one subscriber connection of the process, with its own channels and the shared ones. After a
// reconnection, messages may have been missed, and hearers are notified.

import type { Clock } from '@stampede/core/store'
import type { Names } from '../protocol/keys.ts'
import { withBudget } from './budget.ts'
import type { SubscriberConnection } from './connection.ts'

/** A dead connection is as silent as a quiet one; only a PING tells them apart. */
const HEARTBEAT_MS = 5_000
/** How often while a caller waits for a wake-up. */
const WATCH_MS = 1_500

/** Listener for messages, and for gaps in them. */
export interface Hearer {
  /** A key, or a delivery of its entry. */
  onWake?(message: Buffer): void
  onSettled?(key: string): void
  onGrant?(message: string): void
  /** A purge. */
  onLog?(message: string): void
  /** Messages arrive from now on; comes before `onGap`. */
  onHearing?(): void
  onGap(): void
  /** A connection for commands is usable, for the first time or again. */
  onReady?(): void
  onLost(): void
  /** A connection for commands was lost: the next may be to a server that knows less. */
  onDoubt?(): void
  onError(operation: string, error: unknown): void
}

export class Subscription {
  readonly hearers: Set<Hearer> = new Set()
  readonly #connection: SubscriberConnection
  readonly #names: Names
  readonly #wakeChannel: string
  readonly #grantChannel: string
  readonly #clock: Clock
  readonly #budgetMs: number
  readonly #heartbeat: NodeJS.Timeout
  #watchUntil = 0
  #watch: NodeJS.Timeout | undefined
  #closed = false
  #everSubscribed = false
  #hearing = false
  /** Settles with the first subscription. */
  readonly first: Promise<void>
  #resolveFirst: () => void = () => {}

  constructor(
    connection: SubscriberConnection,
    names: Names,
    processId: string,
    clock: Clock,
    budgetMs: number,
  ) {
    this.#connection = connection
    this.#names = names
    this.#wakeChannel = names.wakePrefix + processId
    this.#grantChannel = names.grantPrefix + processId
    this.#clock = clock
    this.#budgetMs = budgetMs
    this.first = new Promise((resolve) => {
      this.#resolveFirst = resolve
    })
    connection.on('error', (error: Error) => this.#report(error))
    connection.on('messageBuffer', (channel: Buffer, message: Buffer) =>
      this.#receive(String(channel), message),
    )
    connection.on('ready', () => void this.#subscribe())
    connection.on('close', () => this.#lost())
    if (connection.status === 'ready') void this.#subscribe()
    this.#heartbeat = setInterval(() => void this.#beat(), HEARTBEAT_MS)
    this.#heartbeat.unref()
  }

  /**
   * A caller waits for a wake-up within `forMs`: until then the connection is checked more often.
   */
  watch(forMs: number): void {
    this.#watchUntil = Math.max(this.#watchUntil, this.#clock.now() + forMs)
    if (this.#watch !== undefined) return
    this.#watch = setInterval(
      () => {
        if (this.#clock.now() < this.#watchUntil) void this.#beat()
        else this.#unwatch()
      },
      Math.max(WATCH_MS, 2 * this.#budgetMs),
    )
    this.#watch.unref()
  }

  close(): void {
    this.#closed = true
    clearInterval(this.#heartbeat)
    this.#unwatch()
    this.#connection.disconnect()
  }

  /**
   * ioredis reports no resubscription and is `ready` before it. So this class subscribes itself,
   * and then waiters look again. It retries until it succeeds: a connected process without a
   * subscription would miss purges unnoticed.
   */
  async #subscribe(attempt = 0): Promise<void> {
    try {
      const { settledChannel, logChannel } = this.#names
      const channels = [this.#wakeChannel, this.#grantChannel, settledChannel, logChannel]
      await withBudget(this.#budgetMs, this.#connection.subscribe(...channels))
      const mayHaveMissed = this.#everSubscribed || attempt > 0
      this.#everSubscribed = true
      this.#hearing = true
      for (const hearer of this.hearers) hearer.onHearing?.()
      this.#resolveFirst()
      if (mayHaveMissed) for (const hearer of this.hearers) hearer.onGap()
    } catch (error) {
      this.#report(error)
      this.#resolveFirst()
      if (this.#closed || this.#connection.status !== 'ready') return
      const delayMs = Math.min(10_000, 100 * 2 ** Math.min(attempt, 10))
      setTimeout(() => void this.#subscribe(attempt + 1), delayMs).unref()
    }
  }

  #receive(channel: string, message: Buffer): void {
    for (const hearer of this.hearers) {
      if (channel === this.#wakeChannel) hearer.onWake?.(message)
      else if (channel === this.#grantChannel) hearer.onGrant?.(String(message))
      else if (channel === this.#names.logChannel) hearer.onLog?.(String(message))
      else hearer.onSettled?.(String(message).slice(1))
    }
  }

  async #beat(): Promise<void> {
    if (this.#connection.status !== 'ready') return
    try {
      await withBudget(this.#budgetMs, this.#connection.ping())
    } catch {
      this.#lost()
      this.#connection.disconnect(true)
    }
  }

  /** Whether messages arrive now, as far as is known. */
  get hearing(): boolean {
    return this.#hearing
  }

  #lost(): void {
    this.#hearing = false
    if (this.#closed) return
    for (const hearer of this.hearers) hearer.onLost()
  }

  #unwatch(): void {
    clearInterval(this.#watch)
    this.#watch = undefined
  }

  #report(error: unknown): void {
    if (this.#closed) return
    for (const hearer of this.hearers) hearer.onError('subscribe', error)
  }
}
