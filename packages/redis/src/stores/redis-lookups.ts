// Lookups in Redis. The reply comes from the cheapest possible source: a delivered entry, a plain
// read or the script. Only the script can take a lease.

import type { LookupReply, LookupRequest } from '@stampede/core/store'
import { KEEP_MS, type RedisLink } from '../connection/link.ts'
import type { Operation } from '../connection/operation.ts'
import type { PendingDeliveries } from '../delivery/pending-deliveries.ts'
import { readLookup } from '../protocol/lookup-reply.ts'
import { PlainReads } from '../protocol/plain-read.ts'
import type { ScriptArgument } from '../protocol/run-script.ts'
import { endLease, lookupOrLease } from '../protocol/scripts.generated.ts'
import { ANY_FENCE, mayHaveRun, Undos } from './undo.ts'

/** A step of a lookup that calls `next` at its end. */
type Confirm = (operation: Operation<LookupReply>, next: () => void) => void

export class RedisLookups {
  readonly #link: RedisLink
  readonly #plainReads: PlainReads
  readonly #deliveries: PendingDeliveries
  readonly #undos = new Undos()

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
        // been purged meanwhile. After an error, the caller never uses the lease.
        operation.onFailed = () => {
          if ('grant' in reply && reply.grant !== undefined) this.undoLease(key, request)
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
    // If an earlier lookup got no reply, its lease is being ended in the background (the undo).
    // This lookup may have the same token, and so get that lease again. So the undo must stop
    // first. Otherwise it would end the lease during the fill.
    const stopping = this.#undos.stop(request.token)
    if (stopping !== undefined) {
      operation.wait(stopping, () => this.#runScript(keys, key, request, operation, onReply))
      return
    }
    // In a cluster a wake-up carries no entry, because each message goes to every node.
    const mayAsk = !this.#link.isCluster && request.leaseMs > 0
    const asksForEntry = mayAsk && this.#deliveries.reserve(key)
    operation.onFailed = (error) => {
      if (asksForEntry) this.#deliveries.release()
      if (mayHaveRun(error)) this.undoLease(key, request)
    }
    const args = (notAfter: number) => this.#arguments(request, notAfter, asksForEntry)
    operation.run(lookupOrLease, keys, args, (raw: unknown[]) => {
      const { reply, busyFence } = readLookup(raw, key, request)
      if ('busyForMs' in reply) this.#link.watch(reply.busyForMs)
      if (asksForEntry && busyFence) this.#deliveries.add(key, request.token, busyFence)
      if (asksForEntry) this.#deliveries.release()
      onReply(reply)
    })
  }

  /**
   * Starts to end the lease that a failed lookup may have taken (see undo.ts). Otherwise other
   * processes would wait, although no process fills the key.
   */
  undoLease(key: string, { token, leaseMs }: LookupRequest): void {
    if (leaseMs === 0) return
    const ending = [token, ANY_FENCE, 0, 0, '', key, this.#link.names.wakePrefix, 0]
    // The first try is sent even while the breaker is open. If a frozen Redis continues, it then
    // runs the undo right after the lookup.
    let ignoreBreaker = true
    const end = () => {
      const ended = this.#link.run(endLease, key, ending, String, { ignoreBreaker })
      ignoreBreaker = false
      return ended
    }
    this.#undos.start(token, leaseMs, end)
  }

  /**
   * The arguments of the script. The optional ones are left out if the request has none of them.
   */
  #arguments(request: LookupRequest, notAfter: number, asksForEntry: boolean): ScriptArgument[] {
    const { token, leaseMs, knownFence, outdated, like } = request
    const required = [token, leaseMs, this.#link.processId, notAfter, KEEP_MS, asksForEntry ? 1 : 0]
    if (!(knownFence || outdated || like)) return required
    const { fence = '', soft = false } = outdated ?? {}
    return [...required, knownFence ?? '', fence, soft ? 1 : 0, like ?? '']
  }
}
