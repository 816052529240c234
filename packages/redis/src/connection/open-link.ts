// An open link: one connection for commands, with the state of its servers, and one that
// subscribes. Both report to the listeners of the link.

import type { Clock } from '@stampede/core/store'
import { ScriptRunner } from '../protocol/run-script.ts'
import { patienceMs } from './budget.ts'
import type { Connection, IoredisClient } from './client-types.ts'
import { connect } from './open-client.ts'
import { lastErrorOf, NotSent, rememberErrors } from './refusal.ts'
import { Servers, TimeLimits } from './servers.ts'
import { type LinkFacts, type LinkListener, Subscription } from './subscription.ts'

/** The connections of a link, and the state of its servers. */
export class OpenLink {
  readonly clock: Clock
  readonly budgetMs: number
  readonly connection: Connection
  readonly scripts: ScriptRunner
  readonly listeners: Set<LinkListener> = new Set()
  readonly subscription: Subscription
  readonly servers: Servers
  readonly limits: TimeLimits
  /**
   * Resolves when both connections are usable for the first time. It may stay pending, so a request
   * must not wait for it without a time limit.
   */
  readonly opened: Promise<unknown>
  /**
   * Until then, operations wait for the first connection beyond their time budgets, unless
   * connecting has failed. After it is open, each step has a whole budget for a moment. A process
   * that starts is busy, and its first lookups also read the purge log. Without this time, they
   * would all run the origin and store nothing.
   */
  patientUntil: number
  /** The operations that wait until the connections are usable. */
  readonly opening: Set<{ onReply(value: unknown): void }> = new Set()
  isOpen = false
  isClosed = false

  constructor(redis: IoredisClient, facts: LinkFacts, clock: Clock) {
    const { budgetMs } = facts
    const { commands: connection, subscriber, serverOf } = connect(redis, budgetMs)
    rememberErrors(connection)
    this.clock = clock
    this.budgetMs = budgetMs
    this.patientUntil = clock.now() + patienceMs(budgetMs)
    this.connection = connection
    this.scripts = new ScriptRunner(connection)
    this.servers = new Servers(clock, serverOf)
    this.limits = new TimeLimits(clock)
    const ready = new Promise<void>((resolve) =>
      connection.on('ready', () => {
        // The server has just replied. In a cluster, this server has the records of unknown nodes,
        // and from now on they are known.
        this.servers.get('').breaker.succeeded()
        resolve()
      }),
    )
    const hear = (event: string, call: (listener: LinkListener, error: Error) => void) =>
      connection.on(event, (error: Error) => {
        for (const listener of this.listeners) call(listener, error)
      })
    // The `ready` listener above runs first and closes the breaker. So `onReady` can send.
    for (const event of ['ready', '+node']) hear(event, (listener) => listener.onReady?.())
    for (const event of ['error', 'node error'])
      hear(event, (listener, error) => listener.onError('connect', error))
    // `-node`: a node has left the cluster. All waiters look up again, even for keys of other
    // nodes.
    for (const event of ['close', '-node'])
      hear(event, (listener) => {
        listener.onCommandsLost?.()
        listener.onLost()
      })
    this.subscription = new Subscription(subscriber, facts, clock, this.listeners)
    this.opened = Promise.all([ready, this.subscription.first])
    void this.opened.then(() => {
      this.isOpen = true
      this.patientUntil = clock.now() + patienceMs(budgetMs)
      this.#endWaits()
    })
  }

  close(): void {
    this.isClosed = true
    this.#endWaits()
    this.subscription.close()
    this.connection.disconnect()
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
