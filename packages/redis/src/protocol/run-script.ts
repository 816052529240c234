// Runs scripts: with EVAL at first and after NOSCRIPT, otherwise with EVALSHA. Purges always use
// EVAL.

import type { Connection } from '../connection/connection.ts'
import { lastErrorOf, NotSent } from '../connection/last-error.ts'
import { turnOf } from '../connection/turn.ts'
import { appendPurge, purge, type Script } from './scripts.generated.ts'

/**
 * The scripts of purges, which are always sent with EVAL. After NOSCRIPT, an EVALSHA is repeated as
 * EVAL. Plain reads that this process sent in between would then run before the purge.
 */
const ALWAYS_EVAL: ReadonlySet<Script> = new Set([purge, appendPurge])

export type ScriptArgument = string | number | Buffer

export class ScriptRunner {
  readonly #connection: Connection
  readonly #loaded = new Set<string>()

  constructor(connection: Connection) {
    this.#connection = connection
  }

  /** Rejects with the error of Redis or ioredis. */
  run(script: Script, keys: readonly string[], args: readonly ScriptArgument[]): Promise<unknown> {
    if (!this.#loaded.has(script.sha1)) return this.#evalSource(script, keys, args)
    return send(this.#connection, 'EVALSHA', script.sha1, keys.length, ...keys, ...args).catch(
      (error: Error) => {
        if (!error.message.startsWith('NOSCRIPT')) throw error
        return this.#evalSource(script, keys, args)
      },
    )
  }

  async #evalSource(
    script: Script,
    keys: readonly string[],
    args: readonly ScriptArgument[],
  ): Promise<unknown> {
    const { source, sha1 } = script
    const reply = await send(this.#connection, 'EVAL', source, keys.length, ...keys, ...args)
    if (!ALWAYS_EVAL.has(script)) this.#loaded.add(sha1)
    return reply
  }
}

/**
 * Sends a command only on a ready connection. While a cluster is unavailable, ioredis would queue
 * commands without a bound.
 */
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
