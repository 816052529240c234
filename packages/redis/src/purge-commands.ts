// The commands on the log of purges. One slot, and so one node, holds it; its clock numbers all purges of the fleet.

import type { Position } from '@stampede/core'
import type { RedisLink } from './link.ts'
import {
  type Appended,
  type News,
  type Purge,
  readAppended,
  readNews,
  readPosition,
  writeEvent,
} from './purge-news.ts'
import type { ScriptArgument } from './run-script.ts'
import { appendPurge, readPurges, type Script } from './scripts.generated.ts'
import type { ServerClock } from './server-clock.ts'

/** Whoever missed more than this forgets what it has in memory. */
const LONGEST_LOG = 10_000
/** With names as long as the one that is added; whoever may send an unsafe request chooses how long a URL is. */
const LARGEST_LOG_BYTES = 16 * 1024 * 1024
const MOST_MARKS = 100_000
const MARKS_IN_ONE_REPLY = 10_000
/** What was made earlier than this and still lives was made with longer lifetimes than this process has ever given. */
const DAY_MS = 24 * 3600 * 1000

export interface PurgeCommands {
  append(purge: Purge, known: Position): Promise<Appended>
  /** `insist`: also while the breaker is open. */
  read(known: Position, insist: boolean): Promise<News>
  /** Position of the newest purge; undefined if that is not known any more. */
  last(): Promise<Position | undefined>
}

export class RedisPurgeCommands implements PurgeCommands {
  readonly #link: RedisLink
  #longestMs = 0
  /** Whichever server has the log just now: in a cluster it may move. */
  readonly clock: Pick<ServerClock, 'now' | 'agoAtMost'> = {
    now: () => this.#link.logClock.now(),
    agoAtMost: (serverMs) => this.#link.logClock.agoAtMost(serverMs),
  }

  constructor(link: RedisLink) {
    this.#link = link
  }

  /** A mark is remembered for longer than anything lives that was made before it. */
  madeFor(physicalMs: number): void {
    this.#longestMs = Math.max(this.#longestMs, Math.ceil(physicalMs))
  }

  /** Tried even while the breaker is open: a purge that was not said must not be taken for one that was. */
  append(purge: Purge, known: Position): Promise<Appended> {
    const event = writeEvent(purge)
    const longest = Math.ceil(LARGEST_LOG_BYTES / Buffer.byteLength(event))
    const bounds = [Math.min(LONGEST_LOG, longest), MOST_MARKS, DAY_MS + this.#longestMs]
    const args = [event, known, this.#link.names.logChannel, ...bounds]
    return this.#link.persist(() => this.#run(appendPurge, args, true, readAppended))
  }

  read(known: Position, insist: boolean): Promise<News> {
    return this.#run(readPurges, [known, MARKS_IN_ONE_REPLY], insist, readNews)
  }

  async last(): Promise<Position | undefined> {
    const [meta] = this.#link.names.purges
    const raw = await this.#link.ask('HMGET', meta, 'last', 'floor')
    const [last, floor] = Array.isArray(raw) ? raw.map(readPosition) : []
    return floor === undefined ? undefined : last
  }

  async #run<T extends { now: Position }>(
    script: Script,
    args: readonly ScriptArgument[],
    insist: boolean,
    read: (raw: unknown) => T,
  ): Promise<T> {
    const clock = this.#link.logClock
    const sentAt = clock.now()
    const reply = read(await this.#link.runOnLog(script, args, insist))
    clock.observe(Math.floor(reply.now / 1000), sentAt)
    return reply
  }
}
