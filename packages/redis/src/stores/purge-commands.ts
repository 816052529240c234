// Commands on the log of purges. It has one slot, and so one node, whose clock numbers all purges
// of the fleet.

import { randomInt } from 'node:crypto'
import type { Position } from '@stampede/core/store'
import type { RedisLink, Terms } from '../connection/link.ts'
import type { ServerClock } from '../connection/server-clock.ts'
import { millisOf } from '../protocol/read-first.ts'
import type { ScriptArgument } from '../protocol/run-script.ts'
import { appendPurge, readPurges, type Script } from '../protocol/scripts.generated.ts'
import {
  type Appended,
  type EventId,
  type News,
  type Purge,
  readAppended,
  readId,
  readNews,
  readPosition,
  writeEvent,
} from './purge-news.ts'

/** A process that missed more purges than this forgets its copies. */
const LONGEST_LOG = 10_000
/**
 * Bounds the log by bytes, counted with the length of the newest name: clients that send unsafe
 * requests choose the length of URLs.
 */
const LARGEST_LOG_BYTES = 16 * 1024 * 1024
const MOST_MARKS = 100_000
/**
 * A reply must arrive within the budget of a command, also on a slow link: 256 KiB in 250 ms are 8
 * Mbit/s.
 */
const EVENTS_IN_ONE_REPLY = 1_000
const BYTES_IN_ONE_REPLY = 256 * 1024
/**
 * Marks are kept for this much longer than the longest lifetime that this process has given.
 * Another process may give longer ones.
 */
const DAY_MS = 24 * 3600 * 1000

export interface PurgeCommands {
  append(purge: Purge, known: EventId): Promise<Appended>
  /**
   * `run`: run_id of the server that told the caller `known`. `insist`: also while the breaker is
   * open.
   */
  read(known: EventId, run: string, insist: boolean): Promise<News>
  /**
   * ID of the newest purge; undefined if the history was lost. Rejects if the server may not
   * write.
   */
  last(): Promise<EventId | undefined>
}

export class RedisPurgeCommands implements PurgeCommands {
  readonly #link: RedisLink
  #longestMs = 0
  /** Clock of the server that has the log now. In a cluster the log may move. */
  readonly clock: Pick<ServerClock, 'now' | 'agoAtMost'> = {
    now: () => this.#link.logClock.now(),
    agoAtMost: (serverMs) => this.#link.logClock.agoAtMost(serverMs),
  }

  constructor(link: RedisLink) {
    this.#link = link
  }

  /** Records a lifetime, so that marks outlive every entry made before them. */
  madeFor(physicalMs: number): void {
    this.#longestMs = Math.max(this.#longestMs, Math.ceil(physicalMs))
  }

  /** Runs even while the breaker is open: otherwise a purge would fail although Redis is back. */
  append(purge: Purge, known: EventId): Promise<Appended> {
    const event = writeEvent(purge)
    const longest = Math.ceil(LARGEST_LOG_BYTES / Buffer.byteLength(event))
    const bounds = [Math.min(LONGEST_LOG, longest), MOST_MARKS, DAY_MS + this.#longestMs]
    const args = [event, known, this.#link.names.logChannel, ...bounds, newRandom()]
    return this.#link.persist(() => this.#run(appendPurge, args, { insist: true }, readAppended))
  }

  read(known: EventId, run: string, insist: boolean): Promise<News> {
    const args = [known, run, EVENTS_IN_ONE_REPLY, BYTES_IN_ONE_REPLY, newRandom()]
    return this.#run(readPurges, args, { insist, patient: true }, readNews)
  }

  /**
   * Three plain commands, since a script would cost more and this runs all the time. A replica, or
   * a master that may not write, would answer a read for ever. It refuses PERSIST, which changes
   * nothing here.
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
   * Keeps an idle process's estimate of the server's clock. In a cluster no command tells the time
   * of one server.
   */
  async #readTime(): Promise<void> {
    if (this.#link.isCluster) return
    const clock = this.#link.logClock
    const sentAt = clock.now()
    clock.observe(millisOf(await this.#link.ask('TIME')), sentAt)
  }

  async #run<T extends { now: Position }>(
    script: Script,
    args: readonly ScriptArgument[],
    terms: Terms,
    read: (raw: unknown) => T,
  ): Promise<T> {
    const clock = this.#link.logClock
    const sentAt = clock.now()
    const reply = read(await this.#link.runOnLog(script, args, terms))
    clock.observe(Math.floor(reply.now / 1000), sentAt)
    return reply
  }
}

/** For the ID of an event: 1 to 2⁴⁸. 0 would mean that it is unknown. */
function newRandom(): number {
  return randomInt(1, 2 ** 48 - 1)
}
