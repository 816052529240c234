// The two connections of one store: one for commands, with queues, time budgets and breakers, and
// one that subscribes.

import { type Clock, storeUnavailable } from '@stampede/core/store'
import type { Names } from '../protocol/keys.ts'
import { ScriptRunner } from '../protocol/run-script.ts'
import { type Budget, withBudget } from './budget.ts'
import { connect } from './client.ts'
import type { Connection, Connections, RedisClient } from './connection.ts'
import { lastErrorOf, NotSent, rememberErrors } from './last-error.ts'
import { Opening } from './opening.ts'
import { isRefusal, withHint } from './refusal.ts'
import { type Server, Servers } from './servers.ts'
import { Subscription } from './subscription.ts'

const CLOSED = 'the store was closed'
const TOO_BUSY = 'the command waited too long behind other commands of this process'

/** Options of one command. */
export interface CommandOptions {
  /** Sends the command even while the breaker is open. */
  readonly ignoreBreaker?: boolean
  /** The command begins something. So queued commands that end something are sent before it. */
  readonly begins?: boolean
  /** Called if the command waits in the queue of its server. */
  readonly onQueued?: (() => void) | undefined
  /** The budget that `inTurn` gave to the operation of this command. */
  readonly budget?: Budget
}

/** Sends a command with this much time left, and returns its reply. */
export type Command<T> = (link: OpenLink, server: Server, leftMs: number) => Promise<T>

/** The parts of a store's link that outlive its connections. */
interface LinkFacts {
  readonly names: Names
  readonly budgetMs: number
  readonly processId: string
  readonly isCluster: boolean
}

export class OpenLink {
  readonly clock: Clock
  readonly connection: Connection
  readonly scripts: ScriptRunner
  readonly subscription: Subscription
  readonly servers: Servers
  readonly serverOf: Connections['serverOf']
  /**
   * Resolves when both connections are usable for the first time. It may stay pending, so a request
   * must not wait for it without a time limit.
   */
  readonly opened: Promise<unknown>
  readonly #opening: Opening
  readonly #budgetMs: number
  #isClosed = false

  constructor(redis: RedisClient, facts: LinkFacts, clock: Clock) {
    const { names, budgetMs, processId, isCluster } = facts
    const { commands: connection, subscriber, serverOf } = connect(redis, budgetMs)
    rememberErrors(connection)
    this.clock = clock
    this.connection = connection
    this.serverOf = serverOf
    this.scripts = new ScriptRunner(connection)
    this.servers = new Servers(clock)
    const ready = new Promise<void>((resolve) =>
      connection.on('ready', () => {
        // The server has just replied. In a cluster, `ready` says nothing about a single node.
        if (!isCluster) this.servers.get('').breaker.succeeded()
        resolve()
      }),
    )
    this.subscription = new Subscription(subscriber, names, processId, clock, budgetMs)
    this.opened = Promise.all([ready, this.subscription.first])
    this.#opening = new Opening(this.opened)
    this.#budgetMs = budgetMs
  }

  close(): void {
    this.#isClosed = true
    this.#opening.close(new Error(CLOSED))
    this.subscription.close()
    this.connection.disconnect()
  }

  server(record: string): Server {
    return this.servers.get(this.serverOf(record))
  }

  /**
   * Calls `work` when fewer operations are in flight than the server can use. The time budget
   * begins there. Rejects with `ERR_STAMPEDE_STORE_UNAVAILABLE`.
   */
  async inTurn<T>(
    operation: string,
    server: Server,
    { begins = false, onQueued, ignoreBreaker = false }: CommandOptions,
    work: (budget: Budget) => Promise<T>,
  ): Promise<T> {
    // A loop may call this function thousands of times in one turn of the event loop. The `await`
    // lets all budgets begin after the loop.
    const isInTime = await server.queue.enter(begins, onQueued)
    try {
      if (!isInTime) throw storeUnavailable('redis', operation, new NotSent(undefined, TOO_BUSY))
      // Without this wait, all first requests of a process would run the origin.
      if (!this.#opening.isDone) {
        const opening = () => this.waitUntilOpen()
        await this.trySend(operation, server, opening, { leftMs: this.#budgetMs }, ignoreBreaker)
      }
      return await work({ leftMs: this.#budgetMs })
    } finally {
      server.queue.leave(server.breaker.isDoubtful)
    }
  }

  /** Sends a command, unless the breaker of its server is open. */
  async trySend<T>(
    operation: string,
    server: Server,
    command: Command<T>,
    budget: Budget,
    ignoreBreaker: boolean,
  ): Promise<T> {
    const { breaker } = server
    if (!breaker.mayTry() && !ignoreBreaker)
      throw storeUnavailable('redis', operation, this.connectionError)
    try {
      // Nothing would handle the rejection of a command that is sent after the store was closed.
      if (this.#isClosed) throw new NotSent(undefined, CLOSED)
      const reply = await this.spend(budget, (leftMs) => command(this, server, leftMs))
      breaker.succeeded()
      return reply
    } catch (error) {
      // A server that refuses a command is running. So the refusal counts as a success.
      if (isRefusal(error)) breaker.succeeded()
      else breaker.failed()
      throw storeUnavailable('redis', operation, withHint(error))
    }
  }

  /**
   * Waits for `work` within the rest of the budget, but at least for a tenth of a whole one.
   * Without that minimum, Redis would seem unavailable although only the event loop of this process
   * was blocked.
   */
  async spend<T>(budget: Budget, work: (leftMs: number) => Promise<T>): Promise<T> {
    const startedAt = this.clock.now()
    const leftMs = Math.max(this.#budgetMs / 10, budget.leftMs)
    try {
      return await withBudget(leftMs, work(leftMs))
    } finally {
      budget.leftMs -= this.clock.now() - startedAt
    }
  }

  async waitUntilOpen(): Promise<void> {
    await this.#opening.wait(this.#budgetMs).catch((timeout: Error) => {
      throw new NotSent(lastErrorOf(this.connection) ?? timeout)
    })
  }

  /** The last error of the connection, if commands cannot be sent now. */
  get connectionError(): NotSent | undefined {
    const error = this.connection.status === 'ready' ? undefined : lastErrorOf(this.connection)
    return error && new NotSent(error)
  }
}
