// Runs scripts: with EVAL at first and after NOSCRIPT, otherwise with EVALSHA. Purges always use
// EVAL.

import type { ClusterConnection, Connection } from '../connection/client-types.ts'
import { lastErrorOf, NotSent } from '../connection/refusal.ts'
import type { ServerClock } from '../connection/servers.ts'
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

  /** Rejects with the error of Redis or ioredis. After NOSCRIPT, call it with `sendsSource`. */
  run(
    script: Script,
    keys: readonly string[],
    args: readonly ScriptArgument[],
    sendsSource: boolean,
  ): Promise<unknown> {
    if (this.#sent.has(script) && !sendsSource) {
      return send(this.#connection, 'EVALSHA', script.sha1, keys.length, ...keys, ...args)
    }
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
  turnOf(connection)
  return connection.callBuffer(command, ...args)
}

// The commands of one connection in one turn of the event loop. They are sent in one write, because
// a system call for each command would be most of the cost of the command. They share one TIME
// command.

interface Turn {
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

const turns = new WeakMap<Connection, Turn>()

/**
 * The current turn. It begins with its first command and ends at the next tick. Microtasks that run
 * before that tick may add commands. A cluster has a socket to each master.
 */
function turnOf(connection: Connection | ClusterConnection): Turn {
  const present = turns.get(connection)
  if (present !== undefined) return present
  const turn = { time: undefined }
  turns.set(connection, turn)
  const nodes = 'nodes' in connection ? connection.nodes('master') : [connection]
  for (const { stream } of nodes) stream?.cork()
  process.nextTick(() => {
    turns.delete(connection)
    for (const { stream } of nodes) stream?.uncork()
  })
  return turn
}

/** Sends TIME once per turn of the event loop, and returns an object that gets the reply. */
export function timeOfTurn(connection: Connection, clock: ServerClock): ServerTime {
  const turn = turnOf(connection)
  if (turn.time !== undefined) return turn.time
  const time = { serverNow: Number.NaN }
  turn.time = time
  const sentAt = clock.now()
  const onReply = (reply: unknown) => {
    time.serverNow = millisOf(reply)
    clock.observe(time.serverNow, sentAt)
  }
  // If TIME fails, `serverNow` stays NaN, and no entry counts as fresh.
  send(connection, 'TIME').then(onReply, () => {})
  return time
}

/** Parses a reply to TIME, in milliseconds. NaN if it is malformed. */
export function millisOf(reply: unknown): number {
  const [seconds, microseconds] = Array.isArray(reply) ? reply : []
  return Number(seconds) * 1000 + Math.floor(Number(microseconds) / 1000)
}
