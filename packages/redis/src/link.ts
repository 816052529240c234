// The two connections of one store, shared by everything that is built on it: commands, with a budget and a
// breaker, and the subscription. Opened by the first who needs them.

import { randomBytes } from 'node:crypto'
import { type Clock, groupOf, storeUnavailable } from '@stampede/core'
import { withBudget } from './budget.ts'
import { type Connection, type Connections, connect, type RedisClient } from './client.ts'
import type { Names } from './keys.ts'
import { lastErrorOf, NotSent, rememberErrors } from './last-error.ts'
import { Opening } from './opening.ts'
import { type RecordRead, readRecord } from './read-record.ts'
import { type ScriptArgument, ScriptRunner, send } from './run-script.ts'
import type { Script } from './scripts.generated.ts'
import type { ServerClock } from './server-clock.ts'
import { type Server, Servers } from './servers.ts'
import { type Hearer, Subscription } from './subscription.ts'

const RETRY_MS = 20

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

  /** Opens the connections if nobody did, and tells `hearer` what is heard on them. */
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
    // Of one node of a cluster. Whoever waits for what it has looks again, and the others look once too often.
    connection.on('node error', (error: Error) => hearer.onError('connect', error))
    connection.on('-node', lost)
  }

  /** Closes the connections when the last who opened them is done; whoever comes later opens new ones. */
  close(hearer: Hearer): void {
    const live = this.#live
    if (live === undefined || !live.subscription.hearers.delete(hearer)) return
    this.#users -= 1
    if (this.#users > 0) return
    this.#live = undefined
    live.subscription.close()
    live.connection.disconnect()
  }

  /** Of the server that has this record. */
  clockOf(key: string): ServerClock {
    return this.#serverOf(this.names.record(key)).clock
  }

  /** Of the server that has the log of purges. */
  get logClock(): ServerClock {
    return this.#serverOf(this.names.purges[0]).clock
  }

  /** Whether messages are heard now. */
  get hearing(): boolean {
    return this.#live?.subscription.hearing ?? false
  }

  /** Somebody waits to be woken within `forMs`. */
  watch(forMs: number): void {
    this.#live?.subscription.watch(forMs)
  }

  /** Rejects with `ERR_STAMPEDE_STORE_UNAVAILABLE`; `insist` tries even while the breaker is open. */
  run(
    script: Script,
    key: string,
    args: readonly ScriptArgument[],
    insist = false,
  ): Promise<unknown> {
    return this.#run(script, this.#keysOf(script, key), args, insist)
  }

  /** The same, for a script that works on the log of purges. */
  runOnLog(script: Script, args: readonly ScriptArgument[], insist: boolean): Promise<unknown> {
    return this.#run(script, this.names.purges, args, insist)
  }

  /** Reads fields of a record, and of that of its group if it has one. */
  read(key: string, fields: readonly string[], stamps: readonly string[]): Promise<RecordRead> {
    const record = this.names.record(key)
    const groupKey = groupOf(key)
    const group = groupKey === key ? undefined : this.names.record(groupKey)
    return this.#attempt('read', record, false, ({ connection }, { clock }) =>
      readRecord(connection, clock, this.budgetMs, { record, fields, group, stamps }),
    )
  }

  #run(
    script: Script,
    keys: readonly string[],
    args: readonly ScriptArgument[],
    insist: boolean,
  ): Promise<unknown> {
    const run = ({ scripts }: Live) => scripts.run(script, keys, args)
    return this.#attempt(script.name, keys[0] ?? '', insist, run)
  }

  /** Whatever is asked of the server that has this record, unless it is known to be away. */
  async #attempt<T>(
    operation: string,
    record: string,
    insist: boolean,
    attempt: (live: Live, server: Server) => Promise<T>,
  ): Promise<T> {
    const live = this.#need()
    const server = this.#serverOf(record)
    const { breaker } = server
    if (!breaker.mayTry() && !insist) throw storeUnavailable('redis', operation, this.#whyNotSent())
    try {
      if (!live.opening.isOver) await this.#opened()
      const reply = await attempt(live, server)
      breaker.succeeded()
      return reply
    } catch (error) {
      // A server that refuses is there: the breaker is about one that does not answer.
      if (isReply(error)) breaker.succeeded()
      else breaker.failed()
      throw storeUnavailable('redis', operation, error)
    }
  }

  /** Settles when both connections were first usable: may never be, so nothing that is waited for waits for it alone. */
  get opened(): Promise<unknown> {
    return this.#need().opened
  }

  /**
   * What may be done twice is tried for a budget's time while the connection is lost: mostly it is made anew at once, as after a
   * fail-over.
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

  /** A question about the server itself; not one that a request waits for. */
  async ask(command: string, ...args: string[]): Promise<unknown> {
    const { connection } = this.#need()
    await this.#opened()
    return withBudget(this.budgetMs, send(connection, command, ...args))
  }

  /** The first operations wait for the first connection, so that a start is not a stampede. */
  async #opened(): Promise<void> {
    const { connection, opening } = this.#need()
    await opening.within(this.budgetMs).catch((late: Error) => {
      throw new NotSent(lastErrorOf(connection) ?? late)
    })
  }

  /** What is left alone may be so because it is not there. */
  #whyNotSent(): NotSent | undefined {
    const { connection } = this.#need()
    const error = connection.status === 'ready' ? undefined : lastErrorOf(connection)
    return error && new NotSent(error)
  }

  /** Scripts of two keys are given the record of the group, too. */
  #keysOf(script: Script, key: string): string[] {
    const record = this.names.record(key)
    return script.keys === 1 ? [record] : [record, this.names.record(groupOf(key))]
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
    const servers = new Servers(clock)
    const ready = new Promise<void>((resolve) =>
      connection.on('ready', () => {
        // It has just answered. What a cluster says of itself says nothing of its nodes.
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
      scripts: new ScriptRunner(connection, this.budgetMs),
      servers,
      serverOf,
      opened,
      opening: new Opening(opened),
    }
  }
}

/** What Redis itself said, as opposed to a connection that failed; but not that it is the wrong server, or not ready. */
export function isReply(error: unknown): boolean {
  if (!(error instanceof Error) || error.name !== 'ReplyError') return false
  return !/^(LOADING|READONLY|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|BUSY)/.test(error.message)
}
