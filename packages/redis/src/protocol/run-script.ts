// Runs scripts by EVALSHA. The first call of a script, and one after the server lost it, is an
// EVAL. Purges are always an EVAL.

import type { Connection } from '../connection/connection.ts'
import { lastErrorOf, NotSent } from '../connection/last-error.ts'
import { turnOf } from '../connection/turn.ts'
import { appendPurge, purge, type Script } from './scripts.generated.ts'

/**
 * After NOSCRIPT a script is sent again. Plain reads that were sent meanwhile would overtake the
 * purge.
 */
const ALWAYS_WHOLE: ReadonlySet<Script> = new Set([purge, appendPurge])

export type ScriptArgument = string | number | Buffer

export class ScriptRunner {
  readonly #connection: Connection
  readonly #sent = new Set<string>()

  constructor(connection: Connection) {
    this.#connection = connection
  }

  /** Rejects with what Redis or ioredis said. */
  run(script: Script, keys: readonly string[], args: readonly ScriptArgument[]): Promise<unknown> {
    if (!this.#sent.has(script.sha1)) return this.#sendWhole(script, keys, args)
    return send(this.#connection, 'EVALSHA', script.sha1, keys.length, ...keys, ...args).catch(
      (error: Error) => {
        if (!error.message.startsWith('NOSCRIPT')) throw error
        return this.#sendWhole(script, keys, args)
      },
    )
  }

  async #sendWhole(
    script: Script,
    keys: readonly string[],
    args: readonly ScriptArgument[],
  ): Promise<unknown> {
    const { source, sha1 } = script
    const reply = await send(this.#connection, 'EVAL', source, keys.length, ...keys, ...args)
    if (!ALWAYS_WHOLE.has(script)) this.#sent.add(sha1)
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
