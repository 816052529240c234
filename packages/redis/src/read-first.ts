// Most look-ups find what is fresh, and that takes no script: to read the record costs the server a third. Whatever else there
// is to say, only the script says, and it is asked as well. So this pays where nearly every look-up is a hit.

import type { LookupReply, LookupRequest } from '@stampede/core'
import { readLife } from './life.ts'
import { isReply, type RedisLink } from './link.ts'
import type { RecordRead } from './read-record.ts'
import { duration } from './reply-parts.ts'

const FIELDS = ['life', 'frame', 'patch']
const STAMPS = ['purged', 'softened']

/** Hits count one, and what is none as many as the hits that its lost round trip takes to be worth it. */
const OF_A_MISS = 4
const PAYS_FROM = 16
const MOST = 32

export class ReadFirst {
  readonly #link: RedisLink
  #score = 0

  constructor(link: RedisLink) {
    this.#link = link
  }

  /** In a cluster no command tells the time of the server that has a key. */
  pays({ knownFence, outdated, early }: LookupRequest): boolean {
    if (this.#score < PAYS_FROM || this.#link.isCluster) return false
    return knownFence === undefined && outdated === undefined && early !== true
  }

  /** What came of a look-up. If reading it first said nothing, the script did: also of what became fresh meanwhile. */
  learn(reply: LookupReply): void {
    const isHit = reply.status === 'fresh'
    this.#score = isHit ? Math.min(MOST, this.#score + 1) : Math.max(0, this.#score - OF_A_MISS)
  }

  /**
   * What lua/lookup-or-lease-2.lua would say, if that is that it is fresh; undefined if only the script can tell. The record is read
   * before the stamps of its group: a purge that stamped them before is seen.
   */
  async find(key: string): Promise<LookupReply | undefined> {
    try {
      return freshIn(await this.#link.read(key, FIELDS, STAMPS))
    } catch (error) {
      // What is no hash, a command that is not allowed: the script knows what to do about that.
      if (isReply((error as Error).cause)) return undefined
      throw error
    }
  }
}

function freshIn({ serverNow, fields, stamps }: RecordRead): LookupReply | undefined {
  const [text, frame, patch] = fields
  const life = readLife(text)
  if (life === undefined || !Buffer.isBuffer(frame)) return undefined
  const { stored, fence, made, fresh } = life
  const isPatched = fence !== stored
  if (isPatched && !Buffer.isBuffer(patch)) return undefined
  // Also what is no number is for the script to judge.
  const isPurged = !(stored > Number(stamps[0] ?? 0) && fence > Number(stamps[1] ?? 0))
  if (isPurged || !(serverNow < fresh)) return undefined
  return {
    status: 'fresh',
    stored: {
      fence: String(fence),
      frame,
      patch: isPatched ? (patch as Buffer) : undefined,
      ageMs: duration(serverNow - made),
      freshForMs: duration(fresh - serverNow),
      staleWhileRevalidateMs: duration(life.swr),
      staleIfErrorMs: duration(life.sie),
      keepMs: duration(life.keep),
    },
  }
}
