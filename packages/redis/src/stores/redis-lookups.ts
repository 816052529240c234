// Lookups in Redis. The reply comes from the cheapest possible source: a delivered entry, a plain
// read or the script. Only the script can take a lease.

import { type LookupReply, type LookupRequest, storeUnavailable } from '@stampede/core/store'
import type { Connection } from '../connection/connection.ts'
import { KEEP_MS, notOpen, type RedisLink } from '../connection/link.ts'
import type { OpenLink } from '../connection/open-link.ts'
import { Operation } from '../connection/operation.ts'
import { isRefusal } from '../connection/refusal.ts'
import type { ServerClock } from '../connection/servers.ts'
import type { PendingDeliveries } from '../delivery/pending-deliveries.ts'
import { duration, readLookup } from '../protocol/lookup-reply.ts'
import { type ScriptArgument, type ServerTime, send, turnOf } from '../protocol/run-script.ts'
import { lookupOrLease } from '../protocol/scripts.generated.ts'

/** The parts of the store that its lookups share. */
interface LookupParts {
  readonly link: RedisLink
  readonly deliveries: PendingDeliveries
  readonly plainReads: PlainReads
  /**
   * Undefined if the process recently confirmed that it missed no purge, which it usually has.
   * Otherwise a promise that resolves when it has confirmed that.
   */
  confirm(): Promise<void> | undefined
}

export class RedisLookups {
  readonly #parts: LookupParts

  constructor(link: RedisLink, deliveries: PendingDeliveries, confirm: LookupParts['confirm']) {
    this.#parts = { link, deliveries, plainReads: new PlainReads(link), confirm }
  }

  /** All steps of a lookup share one time budget. */
  find(key: string, request: LookupRequest): Promise<LookupReply> {
    const { link } = this.#parts
    if (link.current === undefined) return Promise.reject(notOpen())
    return new Lookup(this.#parts, link.current, key, request).promise
  }
}

class Lookup extends Operation<LookupReply> {
  readonly #parts: LookupParts
  readonly #key: string
  readonly #request: LookupRequest
  readonly #keys: readonly [record: string, ...group: string[]]
  /** Whether the script was asked for a wake-up that carries the entry. */
  #asksForEntry = false
  #reply: LookupReply | undefined

  constructor(parts: LookupParts, link: OpenLink, key: string, request: LookupRequest) {
    const keys = parts.link.keysOf(lookupOrLease, key)
    const options = { begins: true, onQueued: request.onQueued }
    super(link, link.server(keys[0]), 'lookup', options, Lookup.prototype.begin)
    this.#parts = parts
    this.#key = key
    this.#request = request
    this.#keys = keys
  }

  begin(): void {
    const { deliveries, plainReads, confirm } = this.#parts
    const confirmation = confirm()
    if (confirmation !== undefined) return this.wait(confirmation, this.begin)
    const delivered = deliveries.take(this.#key, this.#request, this.server.clock)
    if (delivered !== undefined) return this.#end(delivered)
    if (!plainReads.isWorthwhile(this.#request, this)) return this.#runScript()
    plainReads.find(this.#keys, this, (fresh) => {
      if (fresh === undefined) this.#runScript()
      else this.#end(fresh)
    })
  }

  #runScript(): void {
    const { link, deliveries } = this.#parts
    const { token, leaseMs, knownFence, outdated, like } = this.#request
    // In a cluster a wake-up carries no entry, because each message goes to every node.
    const mayAsk = !link.isCluster && leaseMs > 0
    this.#asksForEntry = mayAsk && deliveries.reserve(this.#key)
    const args: ScriptArgument[] = [token, leaseMs, KEEP_MS, link.processId]
    args.push(this.#asksForEntry ? 1 : 0)
    // The optional arguments are left out if the request has none of them.
    if (knownFence || outdated || like) {
      const { fence = '', soft = false } = outdated ?? {}
      args.push(knownFence ?? '', fence, soft ? 1 : 0, like ?? '')
    }
    this.run(lookupOrLease, this.#keys, args, this.#read)
  }

  #read(raw: unknown): void {
    const { link, deliveries } = this.#parts
    const { reply, busyFence, serverNow } = readLookup(raw, this.#key, this.#request)
    this.observe(serverNow)
    if ('busyForMs' in reply) link.watch(reply.busyForMs)
    if (this.#asksForEntry) {
      if (busyFence) deliveries.add(this.#key, this.#request.token, busyFence)
      deliveries.release()
      this.#asksForEntry = false
    }
    this.#end(reply)
  }

  /**
   * If the lookup took long, the confirmation may be too old now. Then the entry may have been
   * purged meanwhile.
   */
  #end(reply: LookupReply): void {
    const { plainReads, confirm } = this.#parts
    this.#reply = reply
    const confirmation = confirm()
    if (confirmation !== undefined) return this.wait(confirmation, () => this.#end(reply))
    plainReads.count(reply)
    this.resolve(reply)
  }

  override onFailed(error: unknown): unknown {
    if (this.#asksForEntry) this.#parts.deliveries.release()
    // The caller has to end the lease that Redis gave.
    const isLeased = this.#reply && 'grant' in this.#reply && this.#reply.grant !== undefined
    return isLeased ? storeUnavailable('redis', 'lookup', new Error(String(error))) : error
  }
}

// Plain reads: lookups of fresh entries without the script. They take Redis a third of the time of
// the script. If the entry is not fresh, the script has to run as well. So a plain read pays off
// only if nearly every lookup is a hit.

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
  const [text, frame] = list(fields)
  const life = readLife(text)
  if (life === undefined || !Buffer.isBuffer(frame)) return undefined
  const { fence, made, fresh } = life
  // The server's clock was set back, so the age is unknown. The script deletes the entry.
  if (serverNow < made) return undefined
  // No grant has fence 0. If `serverNow` is NaN, the comparison is false.
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

// Parses `life`, the lifetime of an entry in its record: `fence made fresh swr sie keep`, six whole
// numbers. It parses byte by byte, because splitting the text was the slowest part of a hit.

export interface Life {
  readonly fence: number
  /** Moments of the commit and of the end of the logical TTL, in ms of the server's clock. */
  readonly made: number
  readonly fresh: number
  /** Durations in ms, counted from `fresh`. */
  readonly swr: number
  readonly sie: number
  readonly keep: number
}

const PARTS = 6
const SPACE = 0x20
const ZERO = 0x30

/** Parses the field. Undefined if it is missing or malformed. */
export function readLife(text: unknown): Life | undefined {
  if (!Buffer.isBuffer(text)) return undefined
  const parts = [0, 0, 0, 0, 0, 0]
  let part = 0
  let number = 0
  let digits = 0
  for (let i = 0; i < text.length; i++) {
    const byte = text[i] as number
    if (byte === SPACE && digits > 0 && part < PARTS - 1) {
      parts[part] = number
      part += 1
      number = 0
      digits = 0
      continue
    }
    if (byte < ZERO || byte > ZERO + 9) return undefined
    number = number * 10 + (byte - ZERO)
    // A number this large is no longer exact, and no script writes one.
    if (number > Number.MAX_SAFE_INTEGER) return undefined
    digits += 1
  }
  if (digits === 0 || part !== PARTS - 1) return undefined
  const [fence = 0, made = 0, fresh = 0, swr = 0, sie = 0] = parts
  return { fence, made, fresh, swr, sie, keep: number }
}
