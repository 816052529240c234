// The two connections of one store: one for commands, with the state of its servers, and one that
// subscribes.

import type { Clock } from '@stampede/core/store'
import type { Names } from '../protocol/keys.ts'
import { ScriptRunner } from '../protocol/run-script.ts'
import { TimeLimits } from './budget.ts'
import { connect } from './client.ts'
import type { Connection, Connections, RedisClient } from './connection.ts'
import { lastErrorOf, NotSent, rememberErrors } from './refusal.ts'
import { type Server, Servers } from './servers.ts'
import { Subscription } from './subscription.ts'

/** The parts of a store's link that outlive its connections. */
interface LinkFacts {
  readonly names: Names
  readonly budgetMs: number
  readonly processId: string
  readonly isCluster: boolean
}

export class OpenLink {
  readonly clock: Clock
  readonly budgetMs: number
  readonly connection: Connection
  readonly scripts: ScriptRunner
  readonly subscription: Subscription
  readonly servers: Servers
  readonly serverOf: Connections['serverOf']
  readonly limits: TimeLimits
  /**
   * Resolves when both connections are usable for the first time. It may stay pending, so a request
   * must not wait for it without a time limit.
   */
  readonly opened: Promise<unknown>
  /** The operations that wait until the connections are usable. */
  readonly opening: Set<{ onReply(value: unknown): void }> = new Set()
  /** The only server. Undefined in a cluster. */
  readonly #server: Server | undefined
  isOpen = false
  isClosed = false

  constructor(redis: RedisClient, facts: LinkFacts, clock: Clock) {
    const { names, budgetMs, processId, isCluster } = facts
    const { commands: connection, subscriber, serverOf } = connect(redis, budgetMs)
    rememberErrors(connection)
    this.clock = clock
    this.budgetMs = budgetMs
    this.connection = connection
    this.serverOf = serverOf
    this.scripts = new ScriptRunner(connection)
    this.servers = new Servers(clock)
    this.#server = serverOf === undefined ? this.servers.get('') : undefined
    this.limits = new TimeLimits(clock)
    const ready = new Promise<void>((resolve) =>
      connection.on('ready', () => {
        // The server has just replied. In a cluster, `ready` says nothing about a single node.
        if (!isCluster) this.servers.get('').breaker.succeeded()
        resolve()
      }),
    )
    this.subscription = new Subscription(subscriber, names, processId, clock, budgetMs)
    this.opened = Promise.all([ready, this.subscription.first])
    void this.opened.then(() => {
      this.isOpen = true
      this.#endWaits()
    })
  }

  close(): void {
    this.isClosed = true
    this.#endWaits()
    this.subscription.close()
    this.connection.disconnect()
  }

  server(record: string): Server {
    return this.#server ?? this.servers.get(this.serverOf?.(record) ?? '')
  }

  /** The last error of the connection, if commands cannot be sent now. */
  get connectionError(): NotSent | undefined {
    const error = this.connection.status === 'ready' ? undefined : lastErrorOf(this.connection)
    return error && new NotSent(error)
  }

  #endWaits(): void {
    for (const operation of this.opening) operation.onReply(undefined)
    this.opening.clear()
  }
}
