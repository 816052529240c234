// The link of one store to Redis: its commands by the names of keys and scripts, while it is open.
// The cache, locks and idempotency keys share it.

import { randomBytes } from 'node:crypto'
import { StampedeError } from '@stampede/core'
import {
  type Clock,
  type Grant,
  groupOf,
  storeUnavailable,
  unknownReply,
} from '@stampede/core/store'
import type { Names } from '../protocol/keys.ts'
import { type ScriptArgument, send } from '../protocol/run-script.ts'
import { renew, type Script } from '../protocol/scripts.generated.ts'
import { type Budget, withBudget } from './budget.ts'
import type { RedisClient } from './connection.ts'
import { type Command, type CommandOptions, OpenLink } from './open-link.ts'
import { isRefusal } from './refusal.ts'
import type { ServerClock } from './server-clock.ts'
import type { Server } from './servers.ts'
import type { LinkListener } from './subscription.ts'

/** Delay before a command is repeated while the connection is lost. */
const RETRY_MS = 20

/** Text of the error for a command that reached Redis after its deadline. */
export const RAN_LATE = 'Redis got the command after its deadline and ignored it'

/** How long a record stays after its lease, so that an expired holder may still renew or commit. */
export const KEEP_MS = 60_000

/**
 * The arguments of a script. If one is the caller's deadline in ms of the server's clock (0: none),
 * the arguments are computed when the command is sent.
 */
type Arguments = readonly ScriptArgument[] | ((notAfter: number) => readonly ScriptArgument[])

export class RedisLink {
  readonly names: Names
  readonly budgetMs: number
  /** Random name of this process in channels and queues. */
  readonly processId: string = randomBytes(9).toString('base64url')
  /** In a cluster, PUBLISH counts only the receivers on its own node. */
  readonly isCluster: boolean
  readonly #redis: RedisClient
  #current: OpenLink | undefined
  #users = 0

  constructor(redis: RedisClient, names: Names, budgetMs: number) {
    this.#redis = redis
    this.isCluster = 'isCluster' in redis ? redis.isCluster : 'nodeClient' in redis
    this.names = names
    this.budgetMs = budgetMs
  }

  /** Opens the connections if they are closed. `listener` gets messages and lost connections. */
  open(clock: Clock, listener: LinkListener): void {
    this.#users += 1
    this.#current ??= new OpenLink(this.#redis, this, clock)
    const { connection, subscription } = this.#current
    subscription.listeners.add(listener)
    connection.on('error', (error: Error) => listener.onError('connect', error))
    const onLost = () => {
      listener.onCommandsLost?.()
      listener.onLost()
    }
    connection.on('close', onLost)
    // The `ready` listener of `OpenLink` runs first and closes the breaker. So `onReady` can send.
    connection.on('ready', () => listener.onReady?.())
    connection.on('+node', () => listener.onReady?.())
    connection.on('node error', (error: Error) => listener.onError('connect', error))
    // A node has left the cluster. All waiters look up again, even for keys of other nodes.
    connection.on('-node', onLost)
  }

  /** Closes the connections if no other listener is left. A later `open` opens new connections. */
  close(listener: LinkListener): void {
    const current = this.#current
    if (current === undefined || !current.subscription.listeners.delete(listener)) return
    this.#users -= 1
    if (this.#users > 0) return
    this.#current = undefined
    current.close()
  }

  /** Clock of the server that has this record. */
  clockOf(key: string): ServerClock {
    return this.#serverOfKey(key).clock
  }

  /** Clock of the server that has the purge log. */
  get logClock(): ServerClock {
    return this.#serverOf(this.names.purges[0]).clock
  }

  /** False while the connection is lost, or while the breaker of a server is open. */
  get isAvailable(): boolean {
    const current = this.#current
    return current?.connection.status === 'ready' && !current.servers.hasOpenBreaker
  }

  /** Whether messages arrive, as far as this process knows. */
  get isReceiving(): boolean {
    return this.#current?.subscription.isReceiving ?? false
  }

  /** Checks the subscription more often for `forMs`, because a caller waits for a wake-up. */
  watch(forMs: number): void {
    this.#current?.subscription.watch(forMs)
  }

  /**
   * Calls `work` when fewer operations are in flight than the server of the key can use. Its
   * commands share one time budget, which begins there.
   */
  inTurn<T>(
    operation: string,
    key: string,
    options: CommandOptions,
    work: (budget: Budget) => Promise<T>,
  ): Promise<T> {
    return this.#requireOpen().inTurn(operation, this.#serverOfKey(key), options, work)
  }

  /**
   * Waits for `promise` within `budget`. Rejects with `ERR_STAMPEDE_STORE_UNAVAILABLE` after that,
   * or if `promise` rejects with any error that is no `StampedeError`.
   */
  async withBudget<T>(budget: Budget, operation: string, promise: Promise<T>): Promise<T> {
    // The next line throws if the store was closed. Nothing else would handle the rejection.
    promise.catch(() => {})
    const link = this.#requireOpen()
    try {
      return await link.spend(budget, () => promise)
    } catch (error) {
      if (error instanceof StampedeError) throw error
      throw storeUnavailable('redis', operation, link.connectionError ?? error)
    }
  }

  /** Runs a script on the record of a key. With two keys, the second is that of the vary group. */
  run(script: Script, key: string, args: Arguments, options?: CommandOptions): Promise<unknown> {
    const record = this.names.record(key)
    const group = script.keys === 1 ? key : groupOf(key)
    const keys = group === key ? [record] : [record, this.names.record(group)]
    const command = ({ scripts }: OpenLink, { clock }: Server, leftMs: number) =>
      scripts.run(script, keys, typeof args === 'function' ? args(clock.notAfter(leftMs)) : args)
    return this.attempt(script.name, record, command, options)
  }

  /** Runs a script on the purge log. `args` is called when the command is sent. */
  runOnLog(
    script: Script,
    args: () => readonly ScriptArgument[],
    options: CommandOptions,
  ): Promise<unknown> {
    const keys = this.names.purges
    const command = ({ scripts }: OpenLink) => scripts.run(script, keys, args())
    return this.attempt(script.name, keys[0], command, options)
  }

  /** Like `run`, if the second field of the reply is the server's time. Updates `clockOf(key)`. */
  async runTimed(
    script: Script,
    key: string,
    args: Arguments,
    options?: CommandOptions,
  ): Promise<unknown[]> {
    const clock = this.clockOf(key)
    let sentAt = 0
    const timed = (notAfter: number) => {
      sentAt = clock.now()
      return typeof args === 'function' ? args(notAfter) : args
    }
    const raw = await this.run(script, key, timed, options)
    if (!Array.isArray(raw)) throw unknownReply('redis', script.name, 'the reply is not an array')
    clock.observe(Number(raw[1]), sentAt)
    return raw
  }

  /**
   * Like `runTimed`, for a script that replies `LATE` after the caller's deadline. Without a
   * deadline, a frozen server could run the command after the caller gave up. After `LATE`, the
   * command is sent once more: the server's clock was set forward, or the estimate of that clock
   * was wrong. The first reply corrects the estimate.
   */
  async runInTime(
    script: Script,
    key: string,
    args: Arguments,
    options?: CommandOptions,
  ): Promise<unknown[]> {
    for (let attempt = 0; attempt < 2; attempt++) {
      const raw = await this.runTimed(script, key, args, options)
      if (String(raw[0]) !== 'LATE') return raw
    }
    throw storeUnavailable('redis', script.name, new Error(RAN_LATE))
  }

  /** Extends each lease with its own command. `prefix` comes before each key. */
  async renew(grants: readonly Grant[], leaseMs: number, prefix = ''): Promise<boolean[]> {
    const replies = grants.map(({ key, token, fence }) =>
      this.run(renew, prefix + key, [token, fence, Math.ceil(leaseMs), KEEP_MS]),
    )
    return (await Promise.all(replies)).map((reply) => String(reply) === 'RENEWED')
  }

  /** Sends one command in its turn. Rejects with `ERR_STAMPEDE_STORE_UNAVAILABLE`. */
  async attempt<T>(
    operation: string,
    record: string,
    command: Command<T>,
    options: CommandOptions = {},
  ): Promise<T> {
    const link = this.#requireOpen()
    const server = link.server(record)
    const { budget, ignoreBreaker = false } = options
    const within = (given: Budget) => link.trySend(operation, server, command, given, ignoreBreaker)
    return budget === undefined ? link.inTurn(operation, server, options, within) : within(budget)
  }

  /**
   * Resolves when both connections are usable for the first time. It may stay pending, so a request
   * must not wait for it without a time limit.
   */
  get opened(): Promise<unknown> {
    return this.#requireOpen().opened
  }

  /**
   * Repeats an idempotent `attempt` for one budget, or until Redis replies. A fail-over usually
   * ends within that time.
   */
  async retry<T>(attempt: () => Promise<T>): Promise<T> {
    const { clock } = this.#requireOpen()
    const until = clock.now() + this.budgetMs
    for (;;) {
      try {
        return await attempt()
      } catch (error) {
        const isOver = this.#current === undefined || clock.now() >= until
        if (isOver || isRefusal((error as Error).cause)) throw error
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS))
      }
    }
  }

  /** Sends a plain command for background work, without breaker and queue. */
  ask(command: string, ...args: string[]): Promise<unknown> {
    return this.askBy(({ connection }) => send(connection, command, ...args))
  }

  /** Like `ask`, but `command` sends the command itself. */
  async askBy<T>(command: (link: OpenLink) => Promise<T>): Promise<T> {
    const current = this.#requireOpen()
    await current.waitUntilOpen()
    return withBudget(this.budgetMs, command(current))
  }

  #serverOfKey(key: string): Server {
    return this.#serverOf(this.isCluster ? this.names.record(key) : '')
  }

  #serverOf(record: string): Server {
    return this.#requireOpen().server(record)
  }

  #requireOpen(): OpenLink {
    if (this.#current !== undefined) return this.#current
    throw storeUnavailable('redis', 'run', new Error('pass the store to createStampede first'))
  }
}
