// Plain read before the script. Most lookups find a fresh entry, and reading the record without a
// script costs the server a third. If the entry is not fresh, the script runs as well, so this pays
// only where nearly every lookup is a hit.

import { groupOf, type LookupReply, type LookupRequest } from '@stampede/core/store'
import type { Connection } from '../connection/connection.ts'
import { isReply, type RedisLink } from '../connection/link.ts'
import type { ServerClock } from '../connection/server-clock.ts'
import { type ServerTime, turnOf } from '../connection/turn.ts'
import { readLife } from './life.ts'
import { duration } from './reply-parts.ts'
import { send } from './run-script.ts'

/** A hit adds 1 to the score. A miss takes off as many hits as its extra round trip costs. */
const OF_A_MISS = 4
const PAYS_FROM = 16
const MOST = 32

export class ReadFirst {
  readonly #link: RedisLink
  #score = 0

  constructor(link: RedisLink) {
    this.#link = link
  }

  /**
   * Not in a cluster, where no command tells the time of the server that has a key. And only while
   * enough of the deadline is left for the script to follow.
   */
  pays({ knownFence, outdated, early }: LookupRequest, deadline: number): boolean {
    if (this.#score < PAYS_FROM || this.#link.isCluster || this.#isHalfSpent(deadline)) return false
    return knownFence === undefined && outdated === undefined && early !== true
  }

  #isHalfSpent(deadline: number): boolean {
    return 2 * this.#link.leftMs(deadline) < this.#link.budgetMs
  }

  /** Counts the result of a lookup, by whichever way it was found. */
  learn(reply: LookupReply): void {
    const isHit = reply.status === 'fresh'
    this.#score = isHit ? Math.min(MOST, this.#score + 1) : Math.max(0, this.#score - OF_A_MISS)
  }

  /**
   * The reply of lua/lookup-or-lease-2.lua if the entry is fresh; undefined if only the script can
   * tell.
   */
  async find(key: string, deadline: number): Promise<LookupReply | undefined> {
    const { names } = this.#link
    const record = names.record(key)
    const group = groupOf(key)
    const groupRecord = group === key ? undefined : names.record(group)
    try {
      const found = await this.#link.attempt(
        'read',
        record,
        ({ connection }, { clock }) => readFresh(connection, clock, record, groupRecord),
        { deadline, patient: true },
      )
      // On a link this slow the script may run out of time, so the next lookups begin with the
      // script.
      if (found === undefined && this.#isHalfSpent(deadline)) this.#score = 0
      return found
    } catch (error) {
      // A key of another type, or a command that is not allowed: the script handles both.
      if (isReply((error as Error).cause)) return undefined
      throw error
    }
  }
}

/** The reads are not atomic, so their order matters: the time, the record, the record of its group. */
async function readFresh(
  connection: Connection,
  clock: ServerClock,
  record: string,
  group: string | undefined,
): Promise<LookupReply | undefined> {
  const time = timeOfTurn(connection, clock)
  const reading = send(connection, 'HMGET', record, 'life', 'frame', 'group')
  if (group === undefined) return freshIn(await reading, time)
  // Sent before the first reply is there. A purge that comes between the two is seen.
  const [fields, stamps] = await Promise.all([
    reading,
    send(connection, 'HMGET', group, 'variants'),
  ])
  return isOfGroup(list(fields)[2], list(stamps)) ? freshIn(fields, time) : undefined
}

/** Sends TIME once per turn of the event loop. */
function timeOfTurn(connection: Connection, clock: ServerClock): ServerTime {
  const turn = connection.stream === undefined ? undefined : turnOf(connection.stream)
  if (turn?.time !== undefined) return turn.time
  const time = { serverNow: Number.NaN }
  const sentAt = clock.now()
  const tell = (reply: unknown) => {
    time.serverNow = millisOf(reply)
    clock.observe(time.serverNow, sentAt)
  }
  // Without the time, no entry counts as fresh.
  send(connection, 'TIME').then(tell, () => {})
  if (turn !== undefined) turn.time = time
  return time
}

/** A reply to TIME in milliseconds; NaN for anything else. */
export function millisOf(reply: unknown): number {
  const [seconds, microseconds] = list(reply)
  return Number(seconds) * 1000 + Math.floor(Number(microseconds) / 1000)
}

function list(reply: unknown): readonly unknown[] {
  return Array.isArray(reply) ? reply : []
}

/** Whether no purge came since the variant was leased. False without the group's record. */
function isOfGroup(group: unknown, [variants]: readonly unknown[]): boolean {
  return Buffer.isBuffer(group) && Buffer.isBuffer(variants) && group.equals(variants)
}

function freshIn(fields: unknown, { serverNow }: ServerTime): LookupReply | undefined {
  const [text, frame] = list(fields)
  const life = readLife(text)
  if (life === undefined || !Buffer.isBuffer(frame)) return undefined
  const { fence, made, fresh } = life
  // The server's clock was set back, so the age is unknown. The script drops the entry.
  if (serverNow < made) return undefined
  // Fence 0 is never given. NaN as `serverNow` makes the comparison false.
  if (fence === 0 || !(serverNow < fresh)) return undefined
  return {
    status: 'fresh',
    stored: {
      fence: String(fence),
      frame,
      ageMs: duration(serverNow - made),
      freshForMs: duration(fresh - serverNow),
      staleWhileRevalidateMs: duration(life.swr),
      staleIfErrorMs: duration(life.sie),
      keepMs: duration(life.keep),
    },
  }
}
