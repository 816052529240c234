// Lookups by the cheapest of three ways: the entry of a wake-up, a plain read, or the script that
// reads and leases.

import { type LookupReply, type LookupRequest, storeUnavailable } from '@stampede/core/store'
import type { RedisLink } from '../connection/link.ts'
import type { Deliveries } from '../delivery/deliveries.ts'
import { type RawLookup, readLookup } from '../protocol/lookup-reply.ts'
import { ReadFirst } from '../protocol/read-first.ts'
import { endLease, lookupOrLease } from '../protocol/scripts.generated.ts'
import { mayHaveRun, Undos } from './undo.ts'

/**
 * Matches any fence. Without a reply, the fence of the lease is unknown; the token alone names it.
 */
const ANY_FENCE = '*'
/** Matches no fence. */
const NONE = '-'

export class RedisLookups {
  readonly #link: RedisLink
  readonly #readFirst: ReadFirst
  readonly #deliveries: Deliveries
  readonly #undos = new Undos()
  readonly #keepMs: number

  /** A record without an entry outlives its lease by `keepMs`. */
  constructor(link: RedisLink, deliveries: Deliveries, keepMs: number) {
    this.#link = link
    this.#deliveries = deliveries
    this.#readFirst = new ReadFirst(link)
    this.#keepMs = keepMs
  }

  /** Settles by `deadline`, whichever ways the lookup takes. */
  async find(key: string, request: LookupRequest, deadline: number): Promise<LookupReply> {
    const delivered = this.#deliveries.take(key, request)
    if (delivered !== undefined) return delivered
    const readFirst = this.#readFirst.pays(request, deadline)
    const found = readFirst ? await this.#readFirst.find(key, deadline) : undefined
    const reply = found ?? (await this.#lookupInTime(key, request, deadline))
    this.#readFirst.learn(reply)
    return reply
  }

  async #lookupInTime(key: string, request: LookupRequest, deadline: number): Promise<LookupReply> {
    // A caller that repeats its token keeps the lease, so its undo must stop first.
    if (this.#undos.size > 0) {
      await this.#link.within(deadline, 'lookup', this.#undos.stop(request.token))
    }
    try {
      const reply = await this.#lookupOnce(key, request, deadline)
      if (reply !== 'late') return reply
      // The server's clock was set forward, or our estimate of it was poor. The reply made it
      // exact.
      const again = await this.#lookupOnce(key, request, deadline)
      if (again !== 'late') return again
    } catch (error) {
      if (mayHaveRun(error)) this.giveBack(key, request)
      throw error
    }
    throw storeUnavailable('redis', 'lookup', new Error('answered too late'))
  }

  /**
   * Ends the lease that a failed lookup may have taken. Otherwise others would wait for it, although
   * no process fills.
   */
  giveBack(key: string, { token, leaseMs }: LookupRequest): void {
    if (leaseMs === 0) return
    const ending = [token, ANY_FENCE, 0, 0, '', key, this.#link.names.wakePrefix, 0]
    this.#undos.start(token, leaseMs, () => this.#link.run(endLease, key, ending))
  }

  #lookupOnce(
    key: string,
    request: LookupRequest,
    deadline: number,
  ): Promise<LookupReply | 'late'> {
    const run = (isWanted: boolean) => this.#run(key, request, isWanted, deadline)
    return this.#deliveries.lookup(key, request, run)
  }

  async #run(
    key: string,
    request: LookupRequest,
    isWanted: boolean,
    deadline: number,
  ): Promise<RawLookup> {
    const { processId } = this.#link
    const clock = this.#link.clockOf(key)
    const sentAt = clock.now()
    const args = [
      request.token,
      request.leaseMs,
      processId,
      request.knownFence ?? '',
      request.outdated?.fence ?? NONE,
      request.outdated?.soft ? 1 : 0,
      request.early ? 1 : 0,
      // A frozen server runs the command when it thaws, long after the caller has gone on. The
      // command would take a lease that no process uses. So it carries the deadline of its caller.
      clock.notAfter(this.#link.leftMs(deadline)),
      this.#keepMs,
      isWanted ? 1 : 0,
      request.like ?? '',
    ]
    const raw = await this.#link.run(lookupOrLease, key, args, false, deadline)
    const read = readLookup(raw, key, request)
    clock.observe(read.serverNow, sentAt)
    const { reply } = read
    if (reply !== 'late' && 'busyForMs' in reply) this.#link.watch(reply.busyForMs)
    return read
  }
}
