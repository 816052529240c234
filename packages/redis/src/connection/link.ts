// The two connections of one store: commands, with a budget and a breaker, and the subscription.
// Cache, locks and idempotency share them. The first user opens them.

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
import { lastErrorOf, NotSent, rememberErrors } from './last-error.ts'
import { Opening } from './opening.ts'
import type { Patience } from './patience.ts'
import type { ServerClock } from './server-clock.ts'
import { type Server, Servers } from './servers.ts'
import { type Hearer, Subscription } from './subscription.ts'

const RETRY_MS = 20

/** A record outlives a lease by this much, so that a late holder or a later caller is told apart. */
export const KEEP_MS = 60_000

/** How one command is run. */
export interface Terms {
  /** Tries even while the breaker is open. */
  readonly insist?: boolean
  /** When the caller gives up, on this process's clock. Default: in one budget. */
  readonly deadline?: number
  /** Waits beyond the deadline for the first late reply of the server, for one budget at most. */
  readonly patient?: boolean
}

interface Live {
  readonly clock: Clock
  readonly connection: Connection
  readonly scripts: ScriptRunner
  readonly subscription: Subscription
  readonly servers: Servers
  readonly serverOf: Connections['serverOf']
  /** Settles when both connections were first usable. */
  readonly opened: Promise<unknown>
  readonly opening: Opening
}

export class RedisLink {
  readonly names: Names
  readonly budgetMs: number
  /** Names this process in channels and queues. */
  readonly processId: string = randomBytes(9).toString('base64url')
  /** PUBLISH counts the receivers of one node only in a cluster. */
  readonly isCluster: boolean
  readonly #redis: RedisClient
  #live: Live | undefined
  #users = 0

  constructor(redis: RedisClient, names: Names, budgetMs: number) {
    this.#redis = redis
    this.isCluster = redis.isCluster === true
    this.names = names
    this.budgetMs = budgetMs
  }

  /** Opens the connections if they are closed, and passes messages on to `hearer`. */
  open(clock: Clock, hearer: Hearer): void {
    this.#users += 1
    this.#live ??= this.#connect(clock)
    const { connection, subscription } = this.#live
    subscription.hearers.add(hearer)
    connection.on('error', (error: Error) => hearer.onError('connect', error))
    const lost = () => {
      hearer.onDoubt?.()
      hearer.onLost()
    }
    connection.on('close', lost)
    // Registered after the listener that closes the breaker, so that commands are sent from here
    // on.
    connection.on('ready', () => hearer.onReady?.())
    connection.on('+node', () => hearer.onReady?.())
    // A connection to one node of a cluster. All waiters look again, although only those of that
    // node have to.
    connection.on('node error', (error: Error) => hearer.onError('connect', error))
    connection.on('-node', lost)
  }

  /** Closes the connections with their last user. A later user opens new ones. */
  close(hearer: Hearer): void {
    const live = this.#live
    if (live === undefined || !live.subscription.hearers.delete(hearer)) return
    this.#users -= 1
    if (this.#users > 0) return
    this.#live = undefined
    live.subscription.close()
    live.connection.disconnect()
  }

  /** Clock of the server that has this record. */
  clockOf(key: string): ServerClock {
    return this.#serverOf(this.isCluster ? this.names.record(key) : '').clock
  }

  /** Clock of the server that has the log of purges. */
  get logClock(): ServerClock {
    return this.#serverOf(this.names.purges[0]).clock
  }

  /** Whether messages are heard now. */
  get hearing(): boolean {
    return this.#live?.subscription.hearing ?? false
  }

  /** A caller waits for a wake-up within `forMs`, so the subscription is checked more often. */
  watch(forMs: number): void {
    this.#live?.subscription.watch(forMs)
  }

  /** When an operation that begins now has to end, on this process's clock. */
  deadline(): number {
    return this.#need().clock.now() + this.budgetMs
  }

  /**
   * Time left until `deadline`, but at least a tenth of the budget: a blocked event loop of this
   * process is no reason to go on without Redis.
   */
  leftMs(deadline: number): number {
    return Math.max(this.budgetMs / 10, deadline - this.#need().clock.now())
  }

  /**
   * When the caller of a patient command gives up at the latest, in ms of the server that has this
   * record; 0: not known.
   */
  notAfter(key: string, deadline: number): number {
    const { clock, patience } = this.#serverOf(this.isCluster ? this.names.record(key) : '')
    const leftMs = this.leftMs(deadline)
    return clock.notAfter(leftMs + patience.mostMs(leftMs))
  }

  /**
   * Rejects with what `promise` does, or with `ERR_STAMPEDE_STORE_UNAVAILABLE` when the time is over.
   * Patient with the server that has the log of purges.
   */
  async within<T>(deadline: number, operation: string, promise: Promise<T>): Promise<T> {
    const { patience } = this.#serverOf(this.names.purges[0])
    try {
      return await withBudget(this.leftMs(deadline), promise, this.#bounded(patience, deadline))
    } catch (error) {
      if (error instanceof StampedeError) throw error
      throw storeUnavailable('redis', operation, this.#whyNotSent() ?? error)
    }
  }

  /** Runs a script on the record of a key. A script of two keys gets the record of the group, too. */
  run(
    script: Script,
    key: string,
    args: readonly ScriptArgument[],
    terms?: Terms,
  ): Promise<unknown> {
    const record = this.names.record(key)
    const group = script.keys === 1 ? key : groupOf(key)
    const keys = group === key ? [record] : [record, this.names.record(group)]
    return this.attempt(
      script.name,
      record,
      ({ scripts }) => scripts.run(script, keys, args),
      terms,
    )
  }

  /** The same, for a script that works on the log of purges. */
  runOnLog(script: Script, args: readonly ScriptArgument[], terms: Terms): Promise<unknown> {
    const keys = this.names.purges
    return this.attempt(
      script.name,
      keys[0],
      ({ scripts }) => scripts.run(script, keys, args),
      terms,
    )
  }

  /** `run` for a script that replies with the server's time in second place, which makes its clock exact. */
  async runTimed(
    script: Script,
    key: string,
    args: readonly ScriptArgument[],
    terms?: Terms,
  ): Promise<unknown[]> {
    const clock = this.clockOf(key)
    const sentAt = clock.now()
    const raw = await this.run(script, key, args, terms)
    if (!Array.isArray(raw)) throw unknownReply('redis', script.name, 'the reply is not an array')
    clock.observe(Number(raw[1]), sentAt)
    return raw
  }

  /** Extends leases, each by a command of its own. `prefix` is that of their keys. */
  async renew(grants: readonly Grant[], leaseMs: number, prefix = ''): Promise<boolean[]> {
    const replies = grants.map(({ key, token, fence }) =>
      this.run(renew, prefix + key, [token, fence, Math.ceil(leaseMs), KEEP_MS]),
    )
    return (await Promise.all(replies)).map((reply) => String(reply) === 'RENEWED')
  }

  /**
   * Sends to the server that has this record, unless its breaker is open. Rejects with
   * `ERR_STAMPEDE_STORE_UNAVAILABLE`.
   */
  async attempt<T>(
    operation: string,
    record: string,
    command: (live: Live, server: Server) => Promise<T>,
    { insist = false, deadline = this.deadline(), patient = false }: Terms = {},
  ): Promise<T> {
    const live = this.#need()
    const server = this.#serverOf(record)
    const { breaker, patience } = server
    if (!breaker.mayTry() && !insist) throw storeUnavailable('redis', operation, this.#whyNotSent())
    try {
      if (!live.opening.isOver) await this.#opened(this.leftMs(deadline))
      const running = command(live, server)
      const extra = patient ? this.#bounded(patience, deadline) : undefined
      const reply = await withBudget(this.leftMs(deadline), running, extra)
      breaker.succeeded()
      return reply
    } catch (error) {
      // A server that refuses a command is alive. The breaker counts only missing replies.
      if (isReply(error)) breaker.succeeded()
      else breaker.failed()
      throw storeUnavailable('redis', operation, error)
    }
  }

  /**
   * Settles when both connections were first usable. That may be never, so do not wait for it
   * without a time limit.
   */
  get opened(): Promise<unknown> {
    return this.#need().opened
  }

  /**
   * Repeats an idempotent `attempt` for one budget while the connection is lost. After a fail-over
   * the new connection is usually there within that time.
   */
  async persist<T>(attempt: () => Promise<T>): Promise<T> {
    const { clock } = this.#need()
    const until = clock.now() + this.budgetMs
    for (;;) {
      try {
        return await attempt()
      } catch (error) {
        if (clock.now() >= until || isReply((error as Error).cause)) throw error
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS))
      }
    }
  }

  /** A command about the server itself. No request waits for it. */
  async ask(command: string, ...args: string[]): Promise<unknown> {
    const { connection } = this.#need()
    await this.#opened(this.budgetMs)
    return withBudget(this.budgetMs, send(connection, command, ...args))
  }

  /**
   * Extra time that ends one budget after `deadline`, for all steps of a lookup together. They go
   * to several nodes, and a server may give its patience again between two of them.
   */
  #bounded(patience: Patience, deadline: number): Pick<Patience, 'moreMs'> {
    const { clock } = this.#need()
    const until = deadline + this.budgetMs
    return { moreMs: () => Math.min(patience.moreMs(), until - clock.now()) }
  }

  /** The first operations wait for the first connection, so that a start is not a stampede. */
  async #opened(withinMs: number): Promise<void> {
    const { connection, opening } = this.#need()
    await opening.within(withinMs).catch((late: Error) => {
      throw new NotSent(lastErrorOf(connection) ?? late)
    })
  }

  /** Why a command is not sent: the last connection error, if there is no connection. */
  #whyNotSent(): NotSent | undefined {
    const { connection } = this.#need()
    const error = connection.status === 'ready' ? undefined : lastErrorOf(connection)
    return error && new NotSent(error)
  }

  #serverOf(record: string): Server {
    const { servers, serverOf } = this.#need()
    return servers.get(serverOf(record))
  }

  #need(): Live {
    if (this.#live !== undefined) return this.#live
    throw storeUnavailable('redis', 'run', new Error('pass the store to createStampede first'))
  }

  #connect(clock: Clock): Live {
    const { commands: connection, subscriber, serverOf } = connect(this.#redis, this.budgetMs)
    rememberErrors(connection)
    const servers = new Servers(clock, this.budgetMs)
    const ready = new Promise<void>((resolve) =>
      connection.on('ready', () => {
        // A ready connection has just replied. In a cluster that says nothing about single nodes.
        if (!this.isCluster) servers.get('').breaker.succeeded()
        resolve()
      }),
    )
    const subscription = new Subscription(
      subscriber,
      this.names,
      this.processId,
      clock,
      this.budgetMs,
    )
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

/**
 * Whether Redis itself refused the command. False for connection errors, and for replies of the
 * wrong server or of one that is not ready.
 */
export function isReply(error: unknown): boolean {
  if (!(error instanceof Error) || error.name !== 'ReplyError') return false
  return !/^(LOADING|READONLY|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|BUSY)/.test(error.message)
}
