// The link of one store to Redis: its commands by the names of keys and scripts, while it is open.
// The cache, locks and idempotency keys share it.

import { randomBytes } from 'node:crypto'
import { type Clock, type Grant, groupOf, storeUnavailable } from '@stampede/core/store'
import type { Names } from '../protocol/keys.ts'
import { type ScriptArgument, send } from '../protocol/run-script.ts'
import type { Script } from '../protocol/scripts.generated.ts'
import { patienceMs, withBudget } from './budget.ts'
import type { IoredisClient } from './client-types.ts'
import { OpenLink } from './open-link.ts'
import {
  type Job,
  Operation,
  type OperationOptions,
  type Receiver,
  type Turn,
} from './operation.ts'
import { isRefusal, withHint } from './refusal.ts'
import { ScriptBatch } from './script-batch.ts'
import type { ServerClock } from './servers.ts'
import type { LinkListener } from './subscription.ts'

/** Delay before a command is repeated while the connection is lost. */
const RETRY_MS = 20

/** How long a record stays after its lease, so that an expired holder may still renew or commit. */
export const KEEP_MS = 60_000

export class RedisLink {
  readonly names: Names
  readonly budgetMs: number
  /** Random name of this process in channels and queues. */
  readonly processId: string = randomBytes(9).toString('base64url')
  /** In a cluster, PUBLISH counts only the receivers on its own node. */
  readonly isCluster: boolean
  readonly #redis: IoredisClient
  /** Undefined while the connections are closed. */
  current: OpenLink | undefined
  /** The batch of the jobs that begin now. Undefined: each one is a command of its own. */
  #batch: ScriptBatch | undefined

  constructor(redis: IoredisClient, names: Names, budgetMs: number) {
    this.#redis = redis
    this.isCluster = redis.isCluster
    this.names = names
    this.budgetMs = budgetMs
  }

  /** Opens the connections if they are closed. `listener` gets messages and lost connections. */
  open(clock: Clock, listener: LinkListener): void {
    this.current ??= new OpenLink(this.#redis, this, clock)
    this.current.listeners.add(listener)
  }

  /** Closes the connections if no other listener is left. A later `open` opens new connections. */
  close(listener: LinkListener): void {
    const current = this.current
    if (!current?.listeners.has(listener)) return
    if (current.listeners.size > 1) {
      current.listeners.delete(listener)
      return
    }
    this.current = undefined
    // The last listener hears that the connections close, so that its waiters go on.
    current.close()
  }

  /** Clock of the server that has this record. */
  clockOf(key: string): ServerClock {
    return this.#requireOpen().servers.of(this.isCluster ? this.names.record(key) : '').clock
  }

  /** Clock of the server that has the purge log. */
  get logClock(): ServerClock {
    return this.#requireOpen().servers.of(this.names.purges[0]).clock
  }

  /** False while the connection is lost, or while the breaker of a server is open. */
  get isAvailable(): boolean {
    const current = this.current
    return current?.connection.status === 'ready' && !current.servers.hasOpenBreaker
  }

  /** Whether messages arrive, as far as this process knows. */
  get isReceiving(): boolean {
    return this.current?.subscription.isReceiving ?? false
  }

  /** Checks the subscription more often for `forMs`, because a caller waits for a wake-up. */
  watch(forMs: number): void {
    this.current?.subscription.watch(forMs)
  }

  /** Begins a job. Its receiver gets `ERR_STAMPEDE_STORE_UNAVAILABLE` if it fails. */
  begin<T>(job: Job<T>): void {
    const link = this.current
    if (link === undefined) rejectNotOpen(job.receiver)
    else if (this.#batch === undefined) new Operation(link, job)
    else this.#batch.add(job as Job<unknown>)
  }

  /** The jobs that `run` begins are sent in few commands. */
  together(run: () => void): void {
    const link = this.current
    if (link === undefined || this.#batch !== undefined) return run()
    const batch = new ScriptBatch(link, (more) => this.together(more))
    this.#batch = batch
    try {
      run()
    } finally {
      this.#batch = undefined
      batch.end()
    }
  }

  /** Runs a script on the record of a key, or on these keys of Redis. `read` parses its reply. */
  run<T>(
    script: Script,
    key: string | readonly string[],
    args: readonly ScriptArgument[],
    read: (raw: never, turn: Turn) => T,
    options: OperationOptions = {},
  ): Promise<T> {
    const keys = typeof key === 'string' ? this.keysOf(script, key) : key
    return new Promise((resolve, reject) => {
      const receiver = { resolve, reject }
      this.begin({ script, keys, options, receiver, args: () => args, read })
    })
  }

  /** The record of a key. For a script with two keys, also that of the vary group. */
  keysOf(script: Script, key: string): readonly [record: string, ...group: string[]] {
    const record = this.names.record(key)
    const group = script.keys === 1 ? key : groupOf(key)
    return group === key ? [record] : [record, this.names.record(group)]
  }

  /** Extends each lease with its own command. `prefix` comes before each key. */
  renew(
    script: Script,
    grants: readonly Grant[],
    leaseMs: number,
    prefix = '',
  ): Promise<boolean[]> {
    const isRenewed = (reply: unknown) => String(reply) === 'RENEWED'
    const renewOne = ({ key, token, fence }: Grant) =>
      this.run(script, prefix + key, [token, fence, Math.ceil(leaseMs), KEEP_MS], isRenewed)
    return Promise.all(grants.map(renewOne))
  }

  /** See `OpenLink`. */
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
        const isOver = this.current === undefined || clock.now() >= until
        if (isOver || isRefusal((error as Error).cause)) throw error
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS))
      }
    }
  }

  /** Sends a plain command for background work. */
  ask(command: string, ...args: string[]): Promise<unknown> {
    return this.askBy(command, ({ connection }) => send(connection, command, ...args))
  }

  /** Like `ask`, but `command` sends the command itself. */
  async askBy<T>(name: string, command: (link: OpenLink) => Promise<T>): Promise<T> {
    const link = this.#requireOpen()
    try {
      const waits = !link.isOpen && link.clock.now() < link.patientUntil
      if (waits) await withBudget(patienceMs(this.budgetMs), link.opened).catch(() => {})
      return await withBudget(this.budgetMs, command(link))
    } catch (error) {
      throw storeUnavailable('redis', name, link.connectionError ?? withHint(error))
    }
  }

  #requireOpen(): OpenLink {
    if (this.current !== undefined) return this.current
    throw notOpen()
  }
}

/** Later, because a receiver may not be ready for a result before the call returns. */
export function rejectNotOpen(receiver: Receiver<never>): void {
  queueMicrotask(() => receiver.reject(notOpen()))
}

export function notOpen(): Error {
  return storeUnavailable('redis', 'run', new Error('pass the store to createStampede first'))
}
