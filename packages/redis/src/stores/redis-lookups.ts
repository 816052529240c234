// Lookups in Redis. The reply comes from the cheapest possible source: a delivered entry, a plain
// read or the script. Only the script can take a lease.

import { type LookupReply, type LookupRequest, storeUnavailable } from '@stampede/core/store'
import { KEEP_MS, type RedisLink } from '../connection/link.ts'
import type { Operation } from '../connection/operation.ts'
import type { PendingDeliveries } from '../delivery/pending-deliveries.ts'
import { readLookup } from '../protocol/lookup-reply.ts'
import { PlainReads } from '../protocol/plain-read.ts'
import type { ScriptArgument } from '../protocol/run-script.ts'
import { lookupOrLease } from '../protocol/scripts.generated.ts'

/** A step of a lookup that calls `next` at its end. */
type Confirm = (operation: Operation<LookupReply>, next: () => void) => void

export class RedisLookups {
  readonly #link: RedisLink
  readonly #plainReads: PlainReads
  readonly #deliveries: PendingDeliveries

  constructor(link: RedisLink, deliveries: PendingDeliveries) {
    this.#link = link
    this.#deliveries = deliveries
    this.#plainReads = new PlainReads(link)
  }

  /**
   * All steps of a lookup share one time budget. `confirm` calls `next` when the process has
   * confirmed that it missed no purge, which it usually has.
   */
  find(key: string, request: LookupRequest, confirm: Confirm): Promise<LookupReply> {
    const keys = this.#link.keysOf(lookupOrLease, key)
    const options = { begins: true, onQueued: request.onQueued }
    return this.#link.operate<LookupReply>('lookup', keys[0], options, (operation) => {
      const onReply = (reply: LookupReply) => {
        this.#plainReads.count(reply)
        // If the lookup took long, the confirmation may be too old now. Then the entry may have
        // been purged meanwhile. After an error, the caller has to end the lease.
        operation.onFailed = (error) => {
          const isLeased = 'grant' in reply && reply.grant !== undefined
          return isLeased ? storeUnavailable('redis', 'lookup', new Error(String(error))) : error
        }
        confirm(operation, () => operation.resolve(reply))
      }
      confirm(operation, () => {
        const delivered = this.#deliveries.take(key, request, operation.server.clock)
        if (delivered !== undefined) onReply(delivered)
        else if (this.#plainReads.isWorthwhile(request, operation)) {
          this.#plainReads.find(keys, operation, (fresh) => {
            if (fresh !== undefined) onReply(fresh)
            else this.#runScript(keys, key, request, operation, onReply)
          })
        } else this.#runScript(keys, key, request, operation, onReply)
      })
    })
  }

  #runScript(
    keys: readonly string[],
    key: string,
    request: LookupRequest,
    operation: Operation<LookupReply>,
    onReply: (reply: LookupReply) => void,
  ): void {
    // In a cluster a wake-up carries no entry, because each message goes to every node.
    const mayAsk = !this.#link.isCluster && request.leaseMs > 0
    const asksForEntry = mayAsk && this.#deliveries.reserve(key)
    operation.onFailed = (error) => {
      if (asksForEntry) this.#deliveries.release()
      return error
    }
    const args = this.#arguments(request, asksForEntry)
    operation.run(lookupOrLease, keys, args, (raw: unknown) => {
      const { reply, busyFence, serverNow } = readLookup(raw, key, request)
      operation.observe(serverNow)
      if ('busyForMs' in reply) this.#link.watch(reply.busyForMs)
      if (asksForEntry && busyFence) this.#deliveries.add(key, request.token, busyFence)
      if (asksForEntry) this.#deliveries.release()
      onReply(reply)
    })
  }

  /**
   * The arguments of the script. The optional ones are left out if the request has none of them.
   */
  #arguments(request: LookupRequest, asksForEntry: boolean): ScriptArgument[] {
    const { token, leaseMs, knownFence, outdated, like } = request
    const required = [token, leaseMs, KEEP_MS, this.#link.processId, asksForEntry ? 1 : 0]
    if (!(knownFence || outdated || like)) return required
    const { fence = '', soft = false } = outdated ?? {}
    return [...required, knownFence ?? '', fence, soft ? 1 : 0, like ?? '']
  }
}
