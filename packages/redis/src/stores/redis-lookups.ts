// A lookup in Redis. The reply comes from the cheapest possible source: a delivered entry, a plain
// read or the script. Only the script can take a lease. All steps share one time budget.

import type { StampedeStore } from '@stampede/core'
import { storeUnavailable } from '@stampede/core/store'
import { KEEP_MS, type RedisLink } from '../connection/link.ts'
import type { OpenLink } from '../connection/open-link.ts'
import { Operation, type OperationOptions, type Receiver } from '../connection/operation.ts'
import type { PendingDeliveries } from '../delivery/pending-deliveries.ts'
import { readLookup } from '../protocol/lookup-reply.ts'
import type { ScriptArgument } from '../protocol/run-script.ts'
import { lookupOrLease } from '../protocol/scripts.generated.ts'
import type { PlainReads } from './plain-reads.ts'
import type { RedisPurges } from './purge-log.ts'

type LookupReply = Awaited<ReturnType<StampedeStore['lookup']>>
type LookupRequest = Parameters<StampedeStore['lookup']>[1]

/** The parts of the store that its lookups share. */
export interface LookupParts {
  readonly link: RedisLink
  readonly deliveries: PendingDeliveries
  readonly plainReads: PlainReads
  readonly purges: RedisPurges
}

const BEGINS: OperationOptions = { begins: true }

export class Lookup extends Operation<LookupReply> {
  readonly #parts: LookupParts
  readonly #key: string
  readonly #request: LookupRequest
  readonly #keys: readonly [record: string, ...group: string[]]
  /** Whether the script was asked for a wake-up that carries the entry. */
  #asksForEntry = false
  #reply: LookupReply | undefined

  constructor(
    parts: LookupParts,
    link: OpenLink,
    key: string,
    request: LookupRequest,
    receiver: Receiver<LookupReply>,
  ) {
    const keys = parts.link.keysOf(lookupOrLease, key)
    super(link, link.servers.of(keys[0]), 'lookup', BEGINS, Lookup.prototype.begin, receiver)
    this.#parts = parts
    this.#key = key
    this.#request = request
    this.#keys = keys
    if (this.isQueued) request.onQueued?.()
  }

  begin(): void {
    const { deliveries, plainReads, purges } = this.#parts
    const confirmation = purges.confirm()
    if (confirmation !== undefined) return this.wait(confirmation, this.begin)
    const delivered = deliveries.take(this.#key, this.#request, this.server.clock)
    if (delivered !== undefined) return this.#end(delivered)
    // In a batch, a script costs less than a plain read.
    const isWorthwhile = this.batch === undefined && plainReads.isWorthwhile(this.#request, this)
    if (!isWorthwhile) return this.#runScript()
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
    this.#asksForEntry = mayAsk && deliveries.mayAdd(this.#key)
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
    if (this.#asksForEntry && busyFence) {
      deliveries.add(this.#key, this.#request.token, busyFence)
    }
    this.#end(reply)
  }

  /**
   * If the lookup took long, the confirmation may be too old now. Then the entry may have been
   * purged meanwhile.
   */
  #end(reply: LookupReply): void {
    const { plainReads, purges } = this.#parts
    this.#reply = reply
    const confirmation = purges.confirm()
    if (confirmation !== undefined) return this.wait(confirmation, () => this.#end(reply))
    plainReads.count(reply)
    this.resolve(reply)
  }

  override onFailed(error: unknown): unknown {
    // The caller has to end the lease that Redis gave.
    const isLeased = this.#reply && 'grant' in this.#reply && this.#reply.grant !== undefined
    return isLeased ? storeUnavailable('redis', 'lookup', new Error(String(error))) : error
  }
}
