// Runs a script in one command: EVALSHA, and EVAL the first time and when the server lost its scripts.
// Each call has a time budget of its own; what ioredis does after that no longer matters.

import { withBudget } from './budget.ts'
import type { Connection } from './client.ts'
import { lastErrorOf, NotSent } from './last-error.ts'
import type { Script } from './scripts.generated.ts'
import { turnOf } from './turn.ts'

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

/** ioredis would keep what is sent to a cluster that is away, without a bound. */
export function send(
  connection: Connection,
  command: string,
  ...args: ScriptArgument[]
): Promise<unknown> {
  if (connection.status !== 'ready') {
    return Promise.reject(new NotSent(lastErrorOf(connection)))
  }
  if (connection.stream !== undefined) turnOf(connection.stream)
  return connection.callBuffer(command, ...args)
}
