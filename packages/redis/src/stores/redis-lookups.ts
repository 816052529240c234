// A lookup in Redis. The reply comes from the cheapest possible source: a delivered entry, a plain
// read or the script. Only the script can take a lease. All steps share one time budget.

import { type Clock, storeUnavailable } from '@stampede/core/store'
import type { Connection } from '../connection/client-types.ts'
import { KEEP_MS, type RedisLink } from '../connection/link.ts'
import type { OpenLink } from '../connection/open-link.ts'
import {
  AGAIN,
  type Job,
  type Operation,
  type OperationOptions,
  type Receiver,
  type Turn,
} from '../connection/operation.ts'
import { isRefusal } from '../connection/refusal.ts'
import type { ServerClock } from '../connection/servers.ts'
import type { PendingDeliveries } from '../delivery/pending-deliveries.ts'
import {
  type LookupReply,
  type LookupRequest,
  readLookup,
  storedFrame,
} from '../protocol/lookup-reply.ts'
import { type ScriptArgument, type ServerTime, send, timeOfTurn } from '../protocol/run-script.ts'
import { lookupOrLease, type Script } from '../protocol/scripts.generated.ts'
import type { RedisPurges } from './purge-log.ts'

/** The parts of the store that its lookups share. */
export interface LookupParts {
  readonly clock: Clock
  readonly link: RedisLink
  readonly deliveries: PendingDeliveries
  readonly plainReads: PlainReads
  readonly purges: RedisPurges
}

const BEGINS: OperationOptions = { begins: true }

export class Lookup implements Job<LookupReply> {
  readonly name = 'lookup'
  readonly script: Script = lookupOrLease
  readonly options: OperationOptions = BEGINS
  readonly keys: readonly [record: string, ...group: string[]]
  readonly receiver: Receiver<LookupReply>
  readonly #parts: LookupParts
  readonly #key: string
  readonly #request: LookupRequest
  /** Whether the script was asked for a wake-up that carries the entry. */
  #asksForEntry = false
  #hasReadPlainly = false
  #isLeased = false

  constructor(
    parts: LookupParts,
    key: string,
    request: LookupRequest,
    receiver: Receiver<LookupReply>,
  ) {
    this.keys = parts.link.keysOf(lookupOrLease, key)
    this.receiver = receiver
    this.#parts = parts
    this.#key = key
    this.#request = request
  }

  onQueued(): void {
    this.#request.onQueued?.()
  }

  /** If the last confirmation is too old, the entry may have been purged. */
  confirm(): Promise<void> | undefined {
    const { clock, purges } = this.#parts
    return clock.now() < purges.confirmedUntil ? undefined : purges.catchUp()
  }

  known(
    { server }: Turn,
    operation?: Operation<LookupReply>,
  ): LookupReply | typeof AGAIN | undefined {
    const { deliveries, plainReads } = this.#parts
    const request = this.#request
    const delivered = deliveries.take(this.#key, request, server.clock)
    if (delivered !== undefined) plainReads.count(delivered)
    if (delivered !== undefined || operation === undefined || this.#hasReadPlainly) return delivered
    if (!plainReads.isWorthwhile(request, operation)) return undefined
    this.#hasReadPlainly = true
    plainReads.find(this.keys, operation, (fresh) => {
      if (fresh === undefined) return operation.begin()
      plainReads.count(fresh)
      operation.end(fresh)
    })
    return AGAIN
  }

  args(): ScriptArgument[] {
    const { link, deliveries } = this.#parts
    const { token, leaseMs, knownFence, outdated, like } = this.#request
    // In a cluster a wake-up carries no entry, because each message goes to every node.
    const mayAsk = !link.isCluster && leaseMs > 0
    this.#asksForEntry = mayAsk && deliveries.mayAdd(this.#key)
    const args: ScriptArgument[] = [token, leaseMs, KEEP_MS, link.processId]
    args.push(this.#asksForEntry ? 1 : 0)
    // The optional arguments are left out if the request has none of them.
    if (knownFence || outdated || like) {
      const { fence = '', soft = false } = outdated ?? {}
      args.push(knownFence ?? '', fence, soft ? 1 : 0, like ?? '')
    }
    return args
  }

  read(raw: unknown, turn: Turn): LookupReply {
    const { link, deliveries, plainReads } = this.#parts
    const { reply, busyFence, serverNow } = readLookup(raw, this.#key, this.#request)
    turn.server.clock.observe(serverNow, turn.startedAt)
    if ('busyForMs' in reply) link.watch(reply.busyForMs)
    if (this.#asksForEntry && busyFence) {
      deliveries.add(this.#key, this.#request.token, busyFence)
    }
    plainReads.count(reply)
    this.#isLeased = 'grant' in reply && reply.grant !== undefined
    return reply
  }

  /** The caller has to end the lease that Redis gave. */
  onFailed(error: unknown): unknown {
    return this.#isLeased ? storeUnavailable('redis', 'lookup', new Error(String(error))) : error
  }
}

// Plain reads: lookups of fresh entries without the script. They take Redis a fifth of the time of
// the script. If the entry is not fresh, the script has to run as well. So a plain read pays off
// only if nearly every lookup is a hit (docs/decisions/0014).

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
