// A lookup in Redis. The reply comes from the cheapest possible source: a delivered entry, a plain
// read or the script. Only the script can take a lease. All steps share one time budget.

import { storeUnavailable } from '@stampede/core/store'
import { KEEP_MS, type RedisLink } from '../connection/link.ts'
import {
  AGAIN,
  type Job,
  type Operation,
  type OperationOptions,
  type Receiver,
  type Turn,
} from '../connection/operation.ts'
import type { PendingDeliveries } from '../delivery/pending-deliveries.ts'
import { type LookupReply, type LookupRequest, readLookup } from '../protocol/lookup-reply.ts'
import type { ScriptArgument } from '../protocol/run-script.ts'
import { lookupOrLease, type Script } from '../protocol/scripts.generated.ts'
import type { PlainReads } from './plain-reads.ts'
import type { RedisPurges } from './purge-log.ts'

/** The parts of the store that its lookups share. */
export interface LookupParts {
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
  /** If the last confirmation is too old, the entry may have been purged. */
  readonly guard: RedisPurges
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
    this.guard = parts.purges
    this.#parts = parts
    this.#key = key
    this.#request = request
  }

  onQueued(): void {
    this.#request.onQueued?.()
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
      const confirmation = this.guard.confirm()
      if (confirmation === undefined) operation.resolve(fresh)
      else operation.wait(confirmation, () => operation.resolve(fresh))
    })
    return AGAIN
  }

  readonly args = (): ScriptArgument[] => {
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
    turn.observe(serverNow)
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
