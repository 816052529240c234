// Lookups by the cheapest of three ways: the entry of a wake-up, a plain read, or the script that
// reads and leases.

import { type LookupReply, type LookupRequest, storeUnavailable } from '@stampede/core/store'
import { KEEP_MS, type RedisLink } from '../connection/link.ts'
import type { Awaited } from '../delivery/awaited.ts'
import { readLookup } from '../protocol/lookup-reply.ts'
import { ReadFirst } from '../protocol/read-first.ts'
import type { ScriptArgument } from '../protocol/run-script.ts'
import { endLease, lookupOrLease } from '../protocol/scripts.generated.ts'
import { ANY_FENCE, mayHaveRun, Undos } from './undo.ts'

export class RedisLookups {
  readonly #link: RedisLink
  readonly #readFirst: ReadFirst
  readonly #awaited: Awaited
  readonly #undos = new Undos()

  constructor(link: RedisLink, awaited: Awaited) {
    this.#link = link
    this.#awaited = awaited
    this.#readFirst = new ReadFirst(link)
  }

  /** Settles by `deadline`, or one budget later, whichever ways the lookup takes. */
  async find(key: string, request: LookupRequest, deadline: number): Promise<LookupReply> {
    const delivered = this.#awaited.take(key, request, this.#link.clockOf(key))
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
      // A second try if the server's clock was set forward, or our estimate of it was poor. The
      // first reply made it exact.
      for (let attempt = 0; attempt < 2; attempt++) {
        const reply = await this.#lookupOnce(key, request, deadline)
        if (reply !== 'late') return reply
      }
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
    // The first try goes out even while the breaker is open. A frozen Redis that thaws then runs it
    // right after the lookup.
    let insist = true
    const end = () => {
      const ended = this.#link.run(endLease, key, ending, { insist })
      insist = false
      return ended
    }
    this.#undos.start(token, leaseMs, end)
  }

  /** If the caller has to wait, its wake-up shall bring the entry. */
  async #lookupOnce(
    key: string,
    request: LookupRequest,
    deadline: number,
  ): Promise<LookupReply | 'late'> {
    const { token, leaseMs } = request
    // Never in a cluster: there each message goes to every node.
    const isWanted = !this.#link.isCluster && leaseMs > 0 && this.#awaited.mayBegin(key)
    const clock = this.#link.clockOf(key)
    const sentAt = clock.now()
    try {
      // A frozen server runs the command when it thaws, long after the caller has gone on. The
      // command would take a lease that no process uses. So it carries the deadline of its caller.
      const notAfter = this.#link.notAfter(key, deadline)
      const args = this.#arguments(request, notAfter, isWanted)
      const raw = await this.#link.run(lookupOrLease, key, args, { deadline, patient: true })
      const { serverNow, reply, busyFence } = readLookup(raw, key, request)
      clock.observe(serverNow, sentAt)
      if (reply !== 'late' && 'busyForMs' in reply) this.#link.watch(reply.busyForMs)
      if (isWanted && busyFence) this.#awaited.add(key, token, busyFence)
      return reply
    } finally {
      if (isWanted) this.#awaited.ended()
    }
  }

  /** Those of a plain lookup, and the others only if one of them is wanted. */
  #arguments(request: LookupRequest, notAfter: number, isWanted: boolean): ScriptArgument[] {
    const { token, leaseMs, knownFence, outdated, early, like } = request
    const plain = [token, leaseMs, this.#link.processId, notAfter, KEEP_MS, isWanted ? 1 : 0]
    if (!(knownFence || outdated || early || like)) return plain
    const { fence = '', soft = false } = outdated ?? {}
    return [...plain, knownFence ?? '', fence, soft ? 1 : 0, early ? 1 : 0, like ?? '']
  }
}
