// Lookups in Redis. The reply comes from the cheapest possible source: a delivered entry, a plain
// read or the script. Only the script can take a lease.

import type { LookupReply, LookupRequest } from '@stampede/core/store'
import type { Budget } from '../connection/budget.ts'
import { KEEP_MS, type RedisLink } from '../connection/link.ts'
import type { PendingDeliveries } from '../delivery/pending-deliveries.ts'
import { readLookup } from '../protocol/lookup-reply.ts'
import { PlainReads } from '../protocol/plain-read.ts'
import type { ScriptArgument } from '../protocol/run-script.ts'
import { endLease, lookupOrLease } from '../protocol/scripts.generated.ts'
import { ANY_FENCE, mayHaveRun, Undos } from './undo.ts'

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

  async find(key: string, request: LookupRequest, budget: Budget): Promise<LookupReply> {
    const delivered = this.#deliveries.take(key, request, this.#link.clockOf(key))
    if (delivered !== undefined) return delivered
    const readsPlain = this.#plainReads.isWorthwhile(request, budget)
    const found = readsPlain ? await this.#plainReads.find(key, budget) : undefined
    const reply = found ?? (await this.#runScript(key, request, budget))
    this.#plainReads.count(reply)
    return reply
  }

  async #runScript(key: string, request: LookupRequest, budget: Budget): Promise<LookupReply> {
    // If an earlier lookup got no reply, its lease is being ended in the background (the undo).
    // This lookup may have the same token, and so get that lease again. So the undo must stop
    // first. Otherwise it would end the lease during the fill.
    if (this.#undos.size > 0) {
      await this.#link.withBudget(budget, 'lookup', this.#undos.stop(request.token))
    }
    const { token, leaseMs } = request
    // In a cluster a wake-up carries no entry, because each message goes to every node.
    const mayAsk = !this.#link.isCluster && leaseMs > 0
    let asksForEntry = false
    try {
      const args = (notAfter: number) => {
        asksForEntry ||= mayAsk && this.#deliveries.reserve(key)
        return this.#arguments(request, notAfter, asksForEntry)
      }
      const raw = await this.#link.runInTime(lookupOrLease, key, args, { budget })
      const { reply, busyFence } = readLookup(raw, key, request)
      if ('busyForMs' in reply) this.#link.watch(reply.busyForMs)
      if (asksForEntry && busyFence) this.#deliveries.add(key, token, busyFence)
      return reply
    } catch (error) {
      if (mayHaveRun(error)) this.undoLease(key, request)
      throw error
    } finally {
      if (asksForEntry) this.#deliveries.release()
    }
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
      const ended = this.#link.run(endLease, key, ending, { ignoreBreaker })
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
