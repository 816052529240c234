// The two connections of one store: one for commands, with time budgets and circuit breakers, and
// one that subscribes. The cache, locks and idempotency keys share both.

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
import { type ScriptArgument, ScriptRunner, send } from '../protocol/run-script.ts'
import { renew, type Script } from '../protocol/scripts.generated.ts'
import { withBudget } from './budget.ts'
import { connect } from './client.ts'
import type { Connection, Connections, RedisClient } from './connection.ts'
import type { ExtraBudget } from './extra-budget.ts'
import { lastErrorOf, NotSent, rememberErrors } from './last-error.ts'
import { Opening } from './opening.ts'
import { isRefusal } from './refusal.ts'
import type { ServerClock } from './server-clock.ts'
import { type Server, Servers } from './servers.ts'
import { type LinkListener, Subscription } from './subscription.ts'

/** Delay before a command is repeated while the connection is lost. */
const RETRY_MS = 20

/** How long a record stays after its lease, so that an expired holder may still renew or commit. */
export const KEEP_MS = 60_000

/** Options of one command. */
export interface CommandOptions {
  /** Sends the command even while the breaker is open. */
  readonly ignoreBreaker?: boolean
  /** End of the caller's wait, on this process's clock. Default: one budget from now. */
  readonly deadline?: number
  /** Allows the extra budget: the first late reply of a server gets one more budget. */
  readonly mayExtend?: boolean
}

/** The open connections, with the state that is dropped when they are closed. */
interface OpenLink {
  readonly clock: Clock
  readonly connection: Connection
  readonly scripts: ScriptRunner
  readonly subscription: Subscription
  readonly servers: Servers
  readonly serverOf: Connections['serverOf']
  /** Resolves when both connections are usable for the first time. May stay pending. */
  readonly opened: Promise<unknown>
  readonly opening: Opening
}

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
    this.#current ??= this.#connect(clock)
    const { connection, subscription } = this.#current
    subscription.listeners.add(listener)
    connection.on('error', (error: Error) => listener.onError('connect', error))
    const onLost = () => {
      listener.onCommandsLost?.()
      listener.onLost()
    }
    connection.on('close', onLost)
    // The `ready` listener of `#connect` runs first and closes the breaker. So `onReady` can send.
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
    current.subscription.close()
    current.connection.disconnect()
  }

  /** Clock of the server that has this record. */
  clockOf(key: string): ServerClock {
    return this.#serverOf(this.isCluster ? this.names.record(key) : '').clock
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

  /** Deadline of an operation that begins now, on this process's clock. */
  deadline(): number {
    return this.#requireOpen().clock.now() + this.budgetMs
  }

  /**
   * Time left until `deadline`, but at least a tenth of the budget. Without that minimum, Redis
   * would seem unavailable although only the event loop of this process was blocked.
   */
  leftMs(deadline: number): number {
    return Math.max(this.budgetMs / 10, deadline - this.#requireOpen().clock.now())
  }

  /**
   * The moment at which the caller stops waiting, with the extra budget, in ms of the clock of the
   * server that has the record. 0 if that clock is unknown.
   */
  notAfter(key: string, deadline: number): number {
    const { clock, extraBudget } = this.#serverOf(this.isCluster ? this.names.record(key) : '')
    const leftMs = this.leftMs(deadline)
    return clock.notAfter(leftMs + extraBudget.availableMs(leftMs))
  }

  /**
   * Waits for `promise` until `deadline`, plus the extra budget of the purge log's server. Rejects
   * with `ERR_STAMPEDE_STORE_UNAVAILABLE` after that, or if `promise` rejects with any error that
   * is no `StampedeError`.
   */
  async withDeadline<T>(deadline: number, operation: string, promise: Promise<T>): Promise<T> {
    // The next line throws if the store was closed. Nothing else would handle the rejection.
    promise.catch(() => {})
    const { extraBudget } = this.#serverOf(this.names.purges[0])
    try {
      return await withBudget(this.leftMs(deadline), promise, this.#bounded(extraBudget, deadline))
    } catch (error) {
      if (error instanceof StampedeError) throw error
      throw storeUnavailable('redis', operation, this.#connectionError() ?? error)
    }
  }

  /** Runs a script on the record of a key. With two keys, the second is that of the vary group. */
  run(
    script: Script,
    key: string,
    args: readonly ScriptArgument[],
    options?: CommandOptions,
  ): Promise<unknown> {
    const record = this.names.record(key)
    const group = script.keys === 1 ? key : groupOf(key)
    const keys = group === key ? [record] : [record, this.names.record(group)]
    const command = ({ scripts }: OpenLink) => scripts.run(script, keys, args)
    return this.attempt(script.name, record, command, options)
  }

  /** Runs a script on the purge log. */
  runOnLog(
    script: Script,
    args: readonly ScriptArgument[],
    options: CommandOptions,
  ): Promise<unknown> {
    const keys = this.names.purges
    const command = ({ scripts }: OpenLink) => scripts.run(script, keys, args)
    return this.attempt(script.name, keys[0], command, options)
  }

  /** Like `run`, if the second field of the reply is the server's time. Updates `clockOf(key)`. */
  async runTimed(
    script: Script,
    key: string,
    args: readonly ScriptArgument[],
    options?: CommandOptions,
  ): Promise<unknown[]> {
    const clock = this.clockOf(key)
    const sentAt = clock.now()
    const raw = await this.run(script, key, args, options)
    if (!Array.isArray(raw)) throw unknownReply('redis', script.name, 'the reply is not an array')
    clock.observe(Number(raw[1]), sentAt)
    return raw
  }

  /** Extends each lease with its own command. `prefix` comes before each key. */
  async renew(grants: readonly Grant[], leaseMs: number, prefix = ''): Promise<boolean[]> {
    const replies = grants.map(({ key, token, fence }) =>
      this.run(renew, prefix + key, [token, fence, Math.ceil(leaseMs), KEEP_MS]),
    )
    return (await Promise.all(replies)).map((reply) => String(reply) === 'RENEWED')
  }

  /**
   * Runs `command`, unless the breaker of the record's server is open. Rejects with
   * `ERR_STAMPEDE_STORE_UNAVAILABLE`.
   */
  async attempt<T>(
    operation: string,
    record: string,
    command: (link: OpenLink, server: Server) => Promise<T>,
    { ignoreBreaker = false, deadline = this.deadline(), mayExtend = false }: CommandOptions = {},
  ): Promise<T> {
    const link = this.#requireOpen()
    const server = this.#serverOf(record)
    const { breaker, extraBudget } = server
    if (!breaker.mayTry() && !ignoreBreaker)
      throw storeUnavailable('redis', operation, this.#connectionError())
    try {
      if (!link.opening.isDone) await this.#waitUntilOpen(this.leftMs(deadline))
      // Both throw if the store was closed. Then the command must not be sent.
      const leftMs = this.leftMs(deadline)
      const extra = mayExtend ? this.#bounded(extraBudget, deadline) : undefined
      const reply = await withBudget(leftMs, command(link, server), extra)
      breaker.succeeded()
      return reply
    } catch (error) {
      // A server that refuses a command is running. So the refusal counts as a success.
      if (isRefusal(error)) breaker.succeeded()
      else breaker.failed()
      throw storeUnavailable('redis', operation, error)
    }
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
        if (clock.now() >= until || isRefusal((error as Error).cause)) throw error
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS))
      }
    }
  }

  /** Sends a plain command for background work, without breaker and extra budget. */
  ask(command: string, ...args: string[]): Promise<unknown> {
    return this.askBy(({ connection }) => send(connection, command, ...args))
  }

  /** Like `ask`, but `command` sends the command itself. */
  async askBy<T>(command: (link: OpenLink) => Promise<T>): Promise<T> {
    const current = this.#requireOpen()
    await this.#waitUntilOpen(this.budgetMs)
    return withBudget(this.budgetMs, command(current))
  }

  /**
   * Limits `extra` to one budget after `deadline`. The steps of one lookup may go to several nodes.
   * Without the limit, each node could add an extra budget of its own.
   */
  #bounded(extra: ExtraBudget, deadline: number): Pick<ExtraBudget, 'startMs'> {
    const { clock } = this.#requireOpen()
    const until = deadline + this.budgetMs
    return { startMs: () => Math.min(extra.startMs(), until - clock.now()) }
  }

  /** Without this wait, all first requests of a process would run the origin. */
  async #waitUntilOpen(budgetMs: number): Promise<void> {
    const { connection, opening } = this.#requireOpen()
    await opening.wait(budgetMs).catch((timeout: Error) => {
      throw new NotSent(lastErrorOf(connection) ?? timeout)
    })
  }

  /** The last error of the connection, if commands cannot be sent now. */
  #connectionError(): NotSent | undefined {
    const { connection } = this.#requireOpen()
    const error = connection.status === 'ready' ? undefined : lastErrorOf(connection)
    return error && new NotSent(error)
  }

  #serverOf(record: string): Server {
    const { servers, serverOf } = this.#requireOpen()
    return servers.get(serverOf(record))
  }

  #requireOpen(): OpenLink {
    if (this.#current !== undefined) return this.#current
    throw storeUnavailable('redis', 'run', new Error('pass the store to createStampede first'))
  }

  #connect(clock: Clock): OpenLink {
    const { commands: connection, subscriber, serverOf } = connect(this.#redis, this.budgetMs)
    rememberErrors(connection)
    const servers = new Servers(clock, this.budgetMs)
    const ready = new Promise<void>((resolve) =>
      connection.on('ready', () => {
        // The server has just replied. In a cluster, `ready` says nothing about a single node.
        if (!this.isCluster) servers.get('').breaker.succeeded()
        resolve()
      }),
    )
    const { names, processId, budgetMs } = this
    const subscription = new Subscription(subscriber, names, processId, clock, budgetMs)
    const opened = Promise.all([ready, subscription.first])
    return {
      clock,
      connection,
      subscription,
      scripts: new ScriptRunner(connection),
      servers,
      serverOf,
      opened,
      opening: new Opening(opened),
    }
  }
}
