// Lookups in Redis. The reply comes from the cheapest possible source: a delivered entry, a plain
// read or the script. Only the script can take a lease.

import { type LookupReply, type LookupRequest, storeUnavailable } from '@stampede/core/store'
import { KEEP_MS, type RedisLink } from '../connection/link.ts'
import type { PendingDeliveries } from '../delivery/pending-deliveries.ts'
import { readLookup } from '../protocol/lookup-reply.ts'
import { PlainReads } from '../protocol/plain-read.ts'
import type { ScriptArgument } from '../protocol/run-script.ts'
import { endLease, lookupOrLease } from '../protocol/scripts.generated.ts'
import { ANY_FENCE, mayHaveRun, RAN_LATE, Undos } from './undo.ts'

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

  /** Settles by `deadline`, or one extra budget after it at most. */
  async find(key: string, request: LookupRequest, deadline: number): Promise<LookupReply> {
    const delivered = this.#deliveries.take(key, request, this.#link.clockOf(key))
    if (delivered !== undefined) return delivered
    const readsPlain = this.#plainReads.isWorthwhile(request, deadline)
    const found = readsPlain ? await this.#plainReads.find(key, deadline) : undefined
    const reply = found ?? (await this.#runScript(key, request, deadline))
    this.#plainReads.count(reply)
    return reply
  }

  async #runScript(key: string, request: LookupRequest, deadline: number): Promise<LookupReply> {
    // If an earlier lookup got no reply, its lease is being ended in the background (the undo).
    // This lookup may have the same token, and so get that lease again. So the undo must stop
    // first. Otherwise it would end the lease during the fill.
    if (this.#undos.size > 0) {
      await this.#link.withDeadline(deadline, 'lookup', this.#undos.stop(request.token))
    }
    try {
      // The script replies LATE if the deadline has passed on the server's clock. The estimate of
      // that clock may have been wrong, and the reply corrects it. So the command is sent once
      // more.
      for (let attempt = 0; attempt < 2; attempt++) {
        const reply = await this.#runOnce(key, request, deadline)
        if (reply !== 'late') return reply
      }
    } catch (error) {
      if (mayHaveRun(error)) this.undoLease(key, request)
      throw error
    }
    throw storeUnavailable('redis', 'lookup', new Error(RAN_LATE))
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

  async #runOnce(
    key: string,
    request: LookupRequest,
    deadline: number,
  ): Promise<LookupReply | 'late'> {
    const { token, leaseMs } = request
    // In a cluster a wake-up carries no entry, because each message goes to every node.
    const asksForEntry = !this.#link.isCluster && leaseMs > 0 && this.#deliveries.reserve(key)
    const clock = this.#link.clockOf(key)
    const sentAt = clock.now()
    try {
      // The command carries the deadline of its caller. Without the deadline, a frozen server could
      // run the command later, and grant a lease that no process uses.
      const notAfter = this.#link.notAfter(key, deadline)
      const args = this.#arguments(request, notAfter, asksForEntry)
      const raw = await this.#link.run(lookupOrLease, key, args, { deadline, mayExtend: true })
      const { serverNow, reply, busyFence } = readLookup(raw, key, request)
      clock.observe(serverNow, sentAt)
      if (reply !== 'late' && 'busyForMs' in reply) this.#link.watch(reply.busyForMs)
      if (asksForEntry && busyFence) this.#deliveries.add(key, token, busyFence)
      return reply
    } finally {
      if (asksForEntry) this.#deliveries.release()
    }
  }

  /**
   * The arguments of the script. The optional ones are left out if the request has none of them.
   */
  #arguments(request: LookupRequest, notAfter: number, asksForEntry: boolean): ScriptArgument[] {
    const { token, leaseMs, knownFence, outdated, early, like } = request
    const required = [token, leaseMs, this.#link.processId, notAfter, KEEP_MS, asksForEntry ? 1 : 0]
    if (!(knownFence || outdated || early || like)) return required
    const { fence = '', soft = false } = outdated ?? {}
    return [...required, knownFence ?? '', fence, soft ? 1 : 0, early ? 1 : 0, like ?? '']
  }
}
