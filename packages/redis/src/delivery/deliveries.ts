// Wake-ups that carry the new entry, so that a waiting process need not look it up. Without them
// each woken process sends one command more (docs/decisions/0020).

import type { LookupReply, LookupRequest, StoreHooks } from '@stampede/core/store'
import type { RedisLink } from '../connection/link.ts'
import type { RawLookup } from '../protocol/lookup-reply.ts'
import { Awaited } from './awaited.ts'
import { isDelivery, readDelivery } from './delivery-message.ts'

export class Deliveries {
  readonly #link: RedisLink
  readonly #awaited = new Awaited()

  constructor(link: RedisLink) {
    this.#link = link
  }

  /** The reply to this lookup, if a wake-up brought it. */
  take(key: string, request: LookupRequest): LookupReply | undefined {
    return this.#awaited.take(key, request, this.#link.clockOf(key))
  }

  /** Runs a lookup. `isWanted`: if the caller has to wait, its wake-up shall bring the entry. */
  async lookup(
    key: string,
    { token, leaseMs }: LookupRequest,
    run: (isWanted: boolean) => Promise<RawLookup>,
  ): Promise<LookupReply | 'late'> {
    // Never in a cluster: there each message goes to every node.
    const isWanted = !this.#link.isCluster && leaseMs > 0 && this.#awaited.mayBegin(key)
    try {
      const { reply, busyFence } = await run(isWanted)
      if (isWanted && busyFence) this.#awaited.add(key, token, busyFence)
      return reply
    } finally {
      if (isWanted) this.#awaited.ended()
    }
  }

  /** The key that a wake-up is about. Undefined if the message cannot be read. */
  receive(message: Buffer): string | undefined {
    if (!isDelivery(message)) return String(message)
    const delivery = readDelivery(message)
    if (delivery !== undefined) this.#awaited.deliver(delivery)
    return delivery?.key
  }

  /** The same hooks. Any purge first discards the entries that were delivered before it. */
  endedBy(hooks: StoreHooks): StoreHooks {
    const forget = () => this.#awaited.forget()
    return {
      ...hooks,
      onPurge(...purge) {
        forget()
        hooks.onPurge(...purge)
      },
      onMark(mark) {
        forget()
        hooks.onMark(mark)
      },
      onForget(floor) {
        forget()
        hooks.onForget(floor)
      },
    }
  }
}
