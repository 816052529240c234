// The subscriber connection of one store, on the channels of this process and on the shared ones.
// After a reconnection, messages may be missing, so the listeners are notified.

import type { Clock } from '@stampede/core/store'
import type { Names } from '../protocol/keys.ts'
import { withBudget } from './budget.ts'
import type { SubscriberConnection } from './client-types.ts'
import { hidePassword } from './refusal.ts'

/** Time between two PINGs. Without them, a dead connection looks like one without messages. */
const HEARTBEAT_MS = 5_000
/**
 * The same while a caller waits for a wake-up. A fourth of HEARTBEAT_MS, because one timer serves
 * both.
 */
const WATCH_MS = 1_250

/** Callbacks for messages, lost messages and connections. */
export interface LinkListener {
  /** `message` is a key, or a delivered entry. */
  onWake?(message: Buffer): void
  /** An operator settled this key. */
  onSettled?(key: string): void
  /** A release granted a lock to this process. */
  onGrant?(message: string): void
  /** A purge was published. */
  onLog?(message: string): void
  /** Messages arrive from now on. Called before `onGap`. */
  onSubscribed?(): void
  /** Messages may have been missed. */
  onGap(): void
  /** A connection for commands is usable, for the first time or again. */
  onReady?(): void
  /** A connection was lost. Until that connection is open again, wake-ups may not arrive. */
  onLost(): void
  /** A connection for commands was lost. The next server may lack recent writes. */
  onCommandsLost?(): void
  onError(operation: string, error: unknown): void
}

/** The parts of a link that its connections need. */
export interface LinkFacts {
  readonly names: Names
  readonly processId: string
  readonly budgetMs: number
}

export class Subscription {
  readonly #connection: SubscriberConnection
  readonly #listeners: ReadonlySet<LinkListener>
  /** The callback for the messages of each channel. */
  readonly #channels: ReadonlyMap<string, (listener: LinkListener, message: Buffer) => void>
  readonly #clock: Clock
  readonly #budgetMs: number
  readonly #heartbeat: NodeJS.Timeout
  #watchUntil = 0
  /** When the next PING is due, unless a caller waits for a wake-up. */
  #beatAt = 0
  #closed = false
  #everSubscribed = false
  /** Whether messages arrive, as far as this process knows. */
  isReceiving = false
  /** Resolves after the first attempt to subscribe, even if the attempt failed. */
  readonly first: Promise<void>
  #resolveFirst: () => void = () => {}

  constructor(
    connection: SubscriberConnection,
    { names, processId, budgetMs }: LinkFacts,
    clock: Clock,
    listeners: ReadonlySet<LinkListener>,
  ) {
    this.#connection = connection
    this.#listeners = listeners
    this.#channels = new Map([
      [names.wakePrefix + processId, (to, message) => to.onWake?.(message)],
      [names.grantPrefix + processId, (to, message) => to.onGrant?.(String(message))],
      [names.settledChannel, (to, message) => to.onSettled?.(String(message).slice(1))],
      [names.logChannel, (to, message) => to.onLog?.(String(message))],
    ])
    this.#clock = clock
    this.#budgetMs = budgetMs
    this.first = new Promise((resolve) => {
      this.#resolveFirst = resolve
    })
    connection.on('error', (error: Error) => {
      hidePassword(error)
      this.#report(error)
    })
    connection.on('messageBuffer', (channel: Buffer, message: Buffer) => {
      // The last listener stays until the connections have closed.
      if (this.#closed) return
      const call = this.#channels.get(String(channel))
      for (const listener of this.#listeners) call?.(listener, message)
    })
    connection.on('ready', () => void this.#subscribe())
    connection.on('close', () => this.#lost())
    if (connection.status === 'ready') void this.#subscribe()
    const everyMs = Math.min(HEARTBEAT_MS, Math.max(WATCH_MS, 2 * budgetMs))
    this.#heartbeat = setInterval(() => {
      const now = this.#clock.now()
      if (now < this.#watchUntil || now >= this.#beatAt) void this.#beat(now)
    }, everyMs).unref()
  }

  /** Sends PING more often for `forMs`, because a caller waits for a wake-up. */
  watch(forMs: number): void {
    this.#watchUntil = Math.max(this.#watchUntil, this.#clock.now() + forMs)
  }

  close(): void {
    this.#closed = true
    clearInterval(this.#heartbeat)
    this.#connection.disconnect()
  }

  /**
   * Subscribes. If messages may have been missed before, then calls `onGap`. ioredis could
   * subscribe again by itself, but emits no event when it has done so. This method retries until it
   * succeeds, because without a subscription a connected process would not notice that it misses
   * purges.
   */
  async #subscribe(attempt = 0): Promise<void> {
    try {
      const channels = this.#channels.keys()
      await withBudget(this.#budgetMs, this.#connection.subscribe(...channels))
      const mayHaveMissed = this.#everSubscribed || attempt > 0
      this.#everSubscribed = true
      this.isReceiving = true
      for (const listener of this.#listeners) listener.onSubscribed?.()
      this.#resolveFirst()
      if (mayHaveMissed) for (const listener of this.#listeners) listener.onGap()
    } catch (error) {
      this.#report(error)
      this.#resolveFirst()
      if (this.#closed || this.#connection.status !== 'ready') return
      const delayMs = Math.min(10_000, 100 * 2 ** Math.min(attempt, 10))
      setTimeout(() => void this.#subscribe(attempt + 1), delayMs).unref()
    }
  }

  async #beat(now: number): Promise<void> {
    // A timer may fire a little early.
    this.#beatAt = now + HEARTBEAT_MS - WATCH_MS / 2
    if (this.#connection.status !== 'ready') return
    try {
      await withBudget(this.#budgetMs, this.#connection.ping())
    } catch {
      this.#lost()
      this.#connection.disconnect(true)
    }
  }

  #lost(): void {
    this.isReceiving = false
    if (this.#closed) return
    for (const listener of this.#listeners) listener.onLost()
  }

  #report(error: unknown): void {
    if (this.#closed) return
    for (const listener of this.#listeners) listener.onError('subscribe', error)
  }
}
