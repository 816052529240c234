// Commands on the purge log. The log is in one Cluster slot, so one server has all of it. The clock
// of that server numbers all purges of the fleet.

import { randomInt } from 'node:crypto'
import type { RedisLink } from '../connection/link.ts'
import type { OperationOptions, Turn } from '../connection/operation.ts'
import { millisOf, type ScriptArgument } from '../protocol/run-script.ts'
import { appendPurge, readPurges, type Script } from '../protocol/scripts.generated.ts'
import {
  type AppendReply,
  type EventId,
  type Position,
  type Purge,
  type PurgePage,
  readAppendReply,
  readId,
  readPosition,
  readPurgePage,
  writeEvent,
} from './purge-events.ts'

/** Limit of events in the log. A process that missed more purges drops all its copies. */
const MAX_LOG_EVENTS = 10_000
/**
 * Limit of the log in bytes, because clients choose the length of the URLs that their unsafe
 * requests purge. The limit in events is computed as if all were as long as the longest new one.
 */
const MAX_LOG_BYTES = 16 * 1024 * 1024
/** Limit of marks in Redis. A mark is the newest purge of one subject, such as a tag or a path. */
const MAX_MARKS = 100_000
/**
 * Limits of one reply, which must arrive within the time budget even on a slow link: 256 KiB in 250
 * ms are 8 Mbit/s.
 */
const MAX_REPLY_EVENTS = 1_000
const MAX_REPLY_BYTES = 256 * 1024

export type PurgeCommands = Pick<RedisPurgeCommands, 'append' | 'read' | 'last'>

export class RedisPurgeCommands {
  readonly #link: RedisLink

  constructor(link: RedisLink) {
    this.#link = link
  }

  /**
   * Appends purges to the log. `known` is the newest purge that the caller knows. Runs even while
   * the breaker is open. Otherwise a purge could fail although Redis is available again.
   */
  append(purges: readonly Purge[], known: EventId): Promise<AppendReply> {
    const events = purges.map(writeEvent)
    const longest = Math.max(...events.map((event) => Buffer.byteLength(event)))
    const bounds = [Math.min(MAX_LOG_EVENTS, Math.ceil(MAX_LOG_BYTES / longest)), MAX_MARKS]
    const args = [known, this.#link.names.logChannel, ...bounds, newRandom(), ...events]
    return this.#link.retry(() =>
      this.#run(appendPurge, args, { ignoreBreaker: true }, readAppendReply),
    )
  }

  /**
   * Reads the purges after `known`. `run` is the run_id of the server that sent `known`. With
   * `ignoreBreaker`, the command is sent even while the breaker is open.
   */
  read(known: EventId, run: string, ignoreBreaker: boolean): Promise<PurgePage> {
    const args = [known, run, MAX_REPLY_EVENTS, MAX_REPLY_BYTES, newRandom()]
    return this.#run(readPurges, args, { ignoreBreaker }, readPurgePage)
  }

  /**
   * ID of the newest purge. Undefined if the history was lost. Rejects if the server refuses
   * writes.
   *
   * Sends plain commands, because each heartbeat sends them and a script would cost more. PERSIST
   * changes nothing here. A server that may not write, such as a replica, replies to it with an
   * error. Such a server may lack purges.
   */
  async last(): Promise<EventId | undefined> {
    const [meta] = this.#link.names.purges
    const [, raw] = await Promise.all([
      this.#link.ask('PERSIST', meta),
      this.#link.ask('HMGET', meta, 'last', 'floor'),
      this.#readTime(),
    ])
    const [last, floor] = Array.isArray(raw) ? raw : []
    return readPosition(floor) === undefined ? undefined : readId(last)
  }

  /**
   * Updates the estimate of the server's clock in an idle process. Not in a Cluster: TIME has no
   * key, so ioredis cannot route it to the log's server.
   */
  async #readTime(): Promise<void> {
    if (this.#link.isCluster) return
    const clock = this.#link.logClock
    const sentAt = clock.now()
    clock.observe(millisOf(await this.#link.ask('TIME')), sentAt)
  }

  #run<T extends { now: Position }>(
    script: Script,
    args: readonly ScriptArgument[],
    options: OperationOptions,
    parse: (raw: unknown) => T,
  ): Promise<T> {
    const read = (raw: unknown, { server, startedAt }: Turn): T => {
      const reply = parse(raw)
      server.clock.observe(Math.floor(reply.now / 1000), startedAt)
      return reply
    }
    return this.#link.run(script, this.#link.names.purges, args, read, options)
  }
}

/**
 * Random part of an event's ID, from 1 to 2⁴⁸ − 2. The number 0 stands for an unknown random part.
 */
function newRandom(): number {
  return randomInt(1, 2 ** 48 - 1)
}
