// Plain read before the script. Most lookups find a fresh entry, and reading the record without a
// script costs the server a third. If the entry is not fresh, the script runs as well, so this pays
// only where nearly every lookup is a hit.

import type { LookupReply, LookupRequest } from '@stampede/core/store'
import { isReply, type RedisLink } from '../connection/link.ts'
import { readLife } from './life.ts'
import type { RecordRead } from './read-record.ts'
import { duration } from './reply-parts.ts'

const FIELDS = ['life', 'frame', 'group']
const STAMPS = ['variants']

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
   * tell. The record is read before that of its group, so a purge that came between is seen.
   */
  async find(key: string, deadline: number): Promise<LookupReply | undefined> {
    try {
      const found = freshIn(await this.#link.read(key, FIELDS, STAMPS, deadline))
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

/** Whether no purge came since the variant was leased. False without the group's record. */
function isOfGroup(group: unknown, [variants]: readonly unknown[]): boolean {
  return Buffer.isBuffer(group) && Buffer.isBuffer(variants) && group.equals(variants)
}

function freshIn({ serverNow, fields, stamps }: RecordRead): LookupReply | undefined {
  const [text, frame, group] = fields
  const life = readLife(text)
  if (life === undefined || !Buffer.isBuffer(frame)) return undefined
  const { fence, made, fresh } = life
  // The server's clock was set back, so the age is unknown. The script drops the entry.
  if (serverNow < made) return undefined
  if (stamps !== undefined && !isOfGroup(group, stamps)) return undefined
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
