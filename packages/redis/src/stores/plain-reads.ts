// Plain reads: lookups of fresh entries without the script. They take Redis a fifth of the time of
// the script. If the entry is not fresh, the script has to run as well. So a plain read pays off
// only if nearly every lookup is a hit (docs/decisions/0014).

import type { Connection } from '../connection/client-types.ts'
import type { RedisLink } from '../connection/link.ts'
import type { OpenLink } from '../connection/open-link.ts'
import type { Operation } from '../connection/operation.ts'
import { isRefusal } from '../connection/refusal.ts'
import type { ServerClock } from '../connection/servers.ts'
import { type LookupReply, type LookupRequest, storedFrame } from '../protocol/lookup-reply.ts'
import { type ServerTime, send, turnOf } from '../protocol/run-script.ts'

/**
 * A hit adds 1 to the score. A miss subtracts this number, because a miss costs an extra round
 * trip.
 */
const MISS_PENALTY = 4
/** Score from which a plain read pays off. */
const MIN_SCORE = 16
const MAX_SCORE = 32

export class PlainReads {
  readonly #link: RedisLink
  #score = 0

  constructor(link: RedisLink) {
    this.#link = link
  }

  /**
   * Whether a lookup shall begin with a plain read. Never in a cluster, because no command returns
   * the time of the server that has the key. Never if too little time would be left for the script.
   */
  isWorthwhile({ knownFence, outdated }: LookupRequest, budget: { leftMs: number }): boolean {
    if (this.#score < MIN_SCORE || this.#link.isCluster || this.#isHalfSpent(budget)) return false
    return knownFence === undefined && outdated === undefined
  }

  #isHalfSpent({ leftMs }: { leftMs: number }): boolean {
    return 2 * leftMs < this.#link.budgetMs
  }

  /** Updates the score with the result of a plain read or of a script. */
  count(reply: LookupReply): void {
    const isHit = reply.status === 'fresh'
    this.#score = isHit
      ? Math.min(MAX_SCORE, this.#score + 1)
      : Math.max(0, this.#score - MISS_PENALTY)
  }

  /**
   * If the entry is fresh, the reply that lua/lookup-or-lease-2.lua would give. Otherwise
   * undefined, and the script must run.
   */
  find(
    [record, group]: readonly string[],
    operation: Operation<LookupReply>,
    next: (fresh: LookupReply | undefined) => void,
  ): void {
    const read = async ({ connection }: OpenLink) => {
      try {
        return await readFresh(connection, operation.server.clock, record as string, group)
      } catch (error) {
        // The key has another type, or the user may not run the command. The script handles both.
        if (isRefusal(error)) return undefined
        throw error
      }
    }
    operation.command('read', read, (found) => {
      // The read took so long that too little time may be left for the script. So the next lookups
      // begin with the script.
      if (found === undefined && this.#isHalfSpent(operation)) this.#score = 0
      next(found)
    })
  }
}

/**
 * Reads the time, the record and then the record of the vary group. The reads are not atomic, so
 * only this order is safe.
 */
async function readFresh(
  connection: Connection,
  clock: ServerClock,
  record: string,
  group: string | undefined,
): Promise<LookupReply | undefined> {
  const time = timeOfTurn(connection, clock)
  const reading = send(connection, 'HMGET', record, 'life', 'frame', 'group')
  if (group === undefined) return freshIn(await reading, time)
  // Both commands are sent at once. If a purge runs between them, the second reply shows it.
  const [fields, groupFields] = await Promise.all([
    reading,
    send(connection, 'HMGET', group, 'variants'),
  ])
  return isOfGroup(list(fields)[2], list(groupFields)) ? freshIn(fields, time) : undefined
}

/** Sends TIME once per turn of the event loop, and returns an object that gets the reply. */
function timeOfTurn(connection: Connection, clock: ServerClock): ServerTime {
  const turn = connection.stream === undefined ? undefined : turnOf(connection.stream)
  if (turn?.time !== undefined) return turn.time
  const time = { serverNow: Number.NaN }
  const sentAt = clock.now()
  const onReply = (reply: unknown) => {
    time.serverNow = millisOf(reply)
    clock.observe(time.serverNow, sentAt)
  }
  // If TIME fails, `serverNow` stays NaN, and no entry counts as fresh.
  send(connection, 'TIME').then(onReply, () => {})
  if (turn !== undefined) turn.time = time
  return time
}

/** Parses a reply to TIME, in milliseconds. NaN if it is malformed. */
export function millisOf(reply: unknown): number {
  const [seconds, microseconds] = list(reply)
  return Number(seconds) * 1000 + Math.floor(Number(microseconds) / 1000)
}

function list(reply: unknown): readonly unknown[] {
  return Array.isArray(reply) ? reply : []
}

/**
 * Whether the vary group was not purged since the lease under which the variant was stored. False
 * if the group has no record.
 */
function isOfGroup(group: unknown, [variants]: readonly unknown[]): boolean {
  return Buffer.isBuffer(group) && Buffer.isBuffer(variants) && group.equals(variants)
}

function freshIn(fields: unknown, { serverNow }: ServerTime): LookupReply | undefined {
  const [life, frame] = list(fields)
  const [fence = 0, made = 0, fresh = 0, ...windows] = readLife(life) ?? []
  // The server's clock was set back, so the age is unknown. The script deletes the entry.
  if (!Buffer.isBuffer(frame) || serverNow < made) return undefined
  // No grant has fence 0. If `serverNow` is NaN, the comparison is false.
  if (fence === 0 || !(serverNow < fresh)) return undefined
  const stored = storedFrame(String(fence), frame, serverNow - made, fresh - serverNow, windows)
  return { status: 'fresh', stored }
}

const LIFE = /^\d+(?: \d+){5}$/

/**
 * Parses the field `life` of a record, six whole numbers: the fence, the moments of the commit and
 * of the end of the logical TTL in ms of the server's clock, and the three durations after it.
 * Undefined if it is missing or malformed, or if a number is so large that it is not exact. No
 * script writes such a number.
 */
export function readLife(bytes: unknown): number[] | undefined {
  const text = Buffer.isBuffer(bytes) ? bytes.toString('latin1') : ''
  if (!LIFE.test(text)) return undefined
  const numbers = text.split(' ').map(Number)
  return numbers.every(Number.isSafeInteger) ? numbers : undefined
}
