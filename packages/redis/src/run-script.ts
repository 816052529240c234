// Runs a script in one command: EVALSHA, and EVAL the first time and when the server lost its scripts.
// Each call has a time budget of its own; what ioredis does after that no longer matters.

import type { Connection, Writes } from './client.ts'
import type { Script } from './scripts.generated.ts'

export type ScriptArgument = string | number | Buffer

export class ScriptRunner {
  readonly #connection: Connection
  readonly #budgetMs: number
  readonly #sent = new Set<string>()

  constructor(connection: Connection, budgetMs: number) {
    this.#connection = connection
    this.#budgetMs = budgetMs
  }

  /** Rejects with what Redis or ioredis said, or when the budget is spent. */
  run(script: Script, keys: readonly string[], args: readonly ScriptArgument[]): Promise<unknown> {
    return withBudget(this.#budgetMs, this.#send(script, keys, args))
  }

  async #send(
    script: Script,
    keys: readonly string[],
    args: readonly ScriptArgument[],
  ): Promise<unknown> {
    const connection = this.#connection
    if (this.#sent.has(script.sha1)) {
      try {
        return await send(connection, 'EVALSHA', script.sha1, keys.length, ...keys, ...args)
      } catch (error) {
        if (!(error instanceof Error) || !error.message.startsWith('NOSCRIPT')) throw error
      }
    }
    const reply = await send(connection, 'EVAL', script.source, keys.length, ...keys, ...args)
    this.#sent.add(script.sha1)
    return reply
  }
}

export class NotSent extends Error {
  constructor() {
    super('not connected')
  }
}

/** ioredis would keep what is sent to a cluster that is away, without a bound. */
export function send(
  connection: Connection,
  command: string,
  ...args: ScriptArgument[]
): Promise<unknown> {
  if (connection.status !== 'ready') return Promise.reject(new NotSent())
  if (connection.stream !== undefined) writeTogether(connection.stream)
  return connection.callBuffer(command, ...args)
}

const held = new WeakSet<Writes>()

/** What is sent in one turn of the event loop leaves in one write: a system call for each is most of what a command costs. */
function writeTogether(stream: Writes): void {
  if (held.has(stream)) return
  held.add(stream)
  stream.cork()
  // After the promises that settle in this turn, and send what follows.
  process.nextTick(() => {
    held.delete(stream)
    stream.uncork()
  })
}

/**
 * Rejects when the budget is spent. Timers run before sockets are read: after a blocked event loop the reply is
 * there already, so the loop gets two turns to hand it over before it is called late.
 */
export function withBudget<T>(budgetMs: number, promise: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const late = () => reject(new Error(`no answer within ${budgetMs} ms`))
    const timer = setTimeout(() => setImmediate(() => setImmediate(late)), budgetMs)
    promise.then(
      (value) => {
        clearTimeout(timer)
        resolve(value)
      },
      (error) => {
        clearTimeout(timer)
        reject(error)
      },
    )
  })
}
