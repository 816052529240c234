// Runs scripts: with EVAL at first and after NOSCRIPT, otherwise with EVALSHA. Purges always use
// EVAL.

import type { Connection, Corkable } from '../connection/client-types.ts'
import { lastErrorOf, NotSent } from '../connection/refusal.ts'
import { appendPurge, purge, type Script } from './scripts.generated.ts'

/**
 * The scripts of purges, which are always sent with EVAL. After NOSCRIPT, an EVALSHA is repeated as
 * EVAL. Plain reads that this process sent in between would then run before the purge.
 */
const ALWAYS_EVAL: ReadonlySet<string> = new Set([purge.name, appendPurge.name])

export type ScriptArgument = string | number | Buffer

export class ScriptRunner {
  readonly #connection: Connection
  /** Scripts that were sent as a whole. Redis runs commands in order, so it knows them by then. */
  readonly #sent = new Set<Script>()

  constructor(connection: Connection) {
    this.#connection = connection
  }

  /** Rejects with the error of Redis or ioredis. After NOSCRIPT, call `evaluate`. */
  run(script: Script, keys: readonly string[], args: readonly ScriptArgument[]): Promise<unknown> {
    if (!this.#sent.has(script)) return this.evaluate(script, keys, args)
    return send(this.#connection, 'EVALSHA', script.sha1, keys.length, ...keys, ...args)
  }

  evaluate(
    script: Script,
    keys: readonly string[],
    args: readonly ScriptArgument[],
  ): Promise<unknown> {
    if (!ALWAYS_EVAL.has(script.name)) this.#sent.add(script)
    return send(this.#connection, 'EVAL', script.source, keys.length, ...keys, ...args)
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

// The commands of one connection in one turn of the event loop. They are sent in one write, because
// a system call for each command would be most of the cost of the command. They share one TIME
// command.

export interface Turn {
  /** Set by the first command of the turn that needs the server's time. */
  time: ServerTime | undefined
}

/**
 * The server's time in a turn. Redis replies in order, so the reply to TIME arrives before the
 * replies to the commands after it.
 */
export interface ServerTime {
  /** In milliseconds. NaN before the reply, and after an invalid one. */
  serverNow: number
}

const turns = new WeakMap<Corkable, Turn>()

/**
 * The current turn. It begins with its first command and ends at the next tick. Microtasks that run
 * before that tick may add commands.
 */
export function turnOf(stream: Corkable): Turn {
  const present = turns.get(stream)
  if (present !== undefined) return present
  const turn = { time: undefined }
  turns.set(stream, turn)
  stream.cork()
  process.nextTick(() => {
    turns.delete(stream)
    stream.uncork()
  })
  return turn
}
