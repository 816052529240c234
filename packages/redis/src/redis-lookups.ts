// A look-up, by the cheapest of three ways that can tell: what this process was told with the word that woke it, a plain read of the
// record, or the script that reads and leases.

import { type LookupReply, type LookupRequest, storeUnavailable } from '@stampede/core'
import { Awaited } from './awaited.ts'
import { readFilled } from './filled-message.ts'
import type { RedisLink } from './link.ts'
import { type RawLookup, readLookup } from './lookup-reply.ts'
import { ReadFirst } from './read-first.ts'
import { lookupOrLease } from './scripts.generated.ts'

/** A fence that nothing has. */
const NONE = '-'

export class RedisLookups {
  readonly #link: RedisLink
  readonly #readFirst: ReadFirst
  readonly #awaited = new Awaited()
  readonly #keepMs: number

  /** A record without an entry outlives its lease by `keepMs`. */
  constructor(link: RedisLink, keepMs: number) {
    this.#link = link
    this.#readFirst = new ReadFirst(link)
    this.#keepMs = keepMs
  }

  async find(key: string, request: LookupRequest): Promise<LookupReply> {
    const told = this.#awaited.take(key, request, this.#link.clockOf(key))
    if (told !== undefined) return told
    const found = this.#readFirst.pays(request) ? await this.#readFirst.find(key) : undefined
    const reply = found ?? (await this.#lookupInTime(key, request))
    this.#readFirst.learn(reply)
    return reply
  }

  /** A process that waits is told what was made. The key of it, if it can be read. */
  hear(message: Buffer): string | undefined {
    const filled = readFilled(message)
    if (filled !== undefined) this.#awaited.fill(filled)
    return filled?.key
  }

  /** Whatever is purged, what was told before it is the past. */
  forgetTold(): void {
    this.#awaited.forget()
  }

  async #lookupInTime(key: string, request: LookupRequest): Promise<LookupReply> {
    const reply = await this.#lookupOnce(key, request)
    if (reply !== 'late') return reply
    // The server's clock was set forward, or our estimate of it was poor; now it is exact.
    const again = await this.#lookupOnce(key, request)
    if (again === 'late') {
      throw storeUnavailable('redis', 'lookup', new Error('answered too late'))
    }
    return again
  }

  async #lookupOnce(key: string, request: LookupRequest): Promise<LookupReply | 'late'> {
    // In a cluster each message goes to every node.
    const isTold = !this.#link.isCluster && request.leaseMs > 0 && this.#awaited.mayBegin()
    try {
      const { reply, busyFence } = await this.#run(key, request, isTold)
      if (isTold && busyFence) this.#awaited.add(key, request.token, busyFence)
      return reply
    } finally {
      if (isTold) this.#awaited.ended()
    }
  }

  async #run(key: string, request: LookupRequest, isTold: boolean): Promise<RawLookup> {
    const { budgetMs, processId } = this.#link
    const clock = this.#link.clockOf(key)
    const sentAt = clock.now()
    const raw = await this.#link.run(lookupOrLease, key, [
      request.token,
      request.leaseMs,
      processId,
      request.knownFence ?? '',
      request.outdated?.fence ?? NONE,
      request.outdated?.soft ? 1 : 0,
      request.early ? 1 : 0,
      // A command that waits in a frozen server's buffer runs when it thaws, long after its caller went
      // on without it, and would take a lease that nobody holds. So it says until when it is wanted.
      clock.notAfter(budgetMs),
      this.#keepMs,
      isTold ? 1 : 0,
    ])
    const read = readLookup(raw, key, request)
    clock.observe(read.serverNow, sentAt)
    const { reply } = read
    if (reply !== 'late' && 'busyForMs' in reply) this.#link.watch(reply.busyForMs)
    return read
  }
}
