// Keys this process waits for, and entries delivered with their wake-up message. Such an entry
// saves a lookup: without it, each woken process sends one command more (docs/decisions/0020). It is
// used only for the fill that the BUSY reply named, only at once, and not after any purge.

import type { LookupReply, LookupRequest, StoreHooks } from '@stampede/core/store'
import type { ServerClock } from '../connection/server-clock.ts'
import { duration } from '../protocol/reply-parts.ts'
import { type Delivery, isDelivery, LONGEST_FRAME, readDelivery } from './delivery-message.ts'

/** A wake-up older than this does not deliver its entry; the waiter looks it up. */
const LATE_MS = 500
/**
 * Waits at the same time. With the longest frames, they fill what Redis buffers for a subscriber
 * that does not read (8 MiB, for a minute).
 */
const MOST = 500
/** Clients choose the length of URLs. Waiters for a longer key look up the entry. */
const LONGEST_KEY = 1024

interface Wait {
  readonly token: string
  readonly fence: string
  /** Its frame is a copy, so that it does not keep the whole buffer of the socket alive. */
  delivery: Delivery | undefined
}

export class Awaited {
  readonly #waits = new Map<string, Wait>()
  #asking = 0

  get size(): number {
    return this.#waits.size
  }

  /**
   * Before a lookup: whether it may ask for the entry with its wake-up. If there is no room, the
   * oldest wait ends, since its waiter may have given up.
   */
  mayBegin(key: string): boolean {
    if (key.length > LONGEST_KEY) return false
    if (this.#asking + this.#waits.size < MOST) {
      this.#asking += 1
      return true
    }
    for (const oldest of this.#waits.keys()) {
      this.#waits.delete(oldest)
      break
    }
    return false
  }

  /** The lookup has ended in any way. */
  ended(): void {
    this.#asking -= 1
  }

  /** The store replied BUSY under this fence, and has noted that `token` waits. */
  add(key: string, token: string, fence: string): void {
    this.#waits.delete(key)
    this.#waits.set(key, { token, fence, delivery: undefined })
  }

  /** The key that a wake-up is about. Undefined if the message cannot be read. */
  receive(message: Buffer): string | undefined {
    if (!isDelivery(message)) return String(message)
    const delivery = readDelivery(message)
    if (delivery !== undefined) this.deliver(delivery)
    return delivery?.key
  }

  /** Ignored unless this process waits for exactly this fill. */
  deliver(delivery: Delivery): void {
    const { key, token, fence, frame } = delivery
    const wait = this.#waits.get(key)
    if (wait?.token !== token || wait.fence !== fence || frame.length > LONGEST_FRAME) return
    const copy = Buffer.allocUnsafeSlow(frame.byteLength)
    copy.set(frame)
    wait.delivery = { ...delivery, frame: copy }
  }

  /** The reply that the next lookup would get, if its wake-up brought the entry. Ends the wait. */
  take(
    key: string,
    { token, leaseMs, outdated, early }: LookupRequest,
    clock: Pick<ServerClock, 'agoAtMost'>,
  ): LookupReply | undefined {
    // A HEAD request only reads. It does not wait, and must not end the wait of another.
    if (leaseMs === 0) return undefined
    const wait = this.#waits.get(key)
    if (wait === undefined) return undefined
    this.#waits.delete(key)
    if (wait.delivery === undefined || wait.token !== token || outdated || early) return undefined
    return replyFrom(wait.delivery, clock)
  }

  /** The same hooks. Any purge, or one that may have come, first discards what was delivered before it. */
  endedBy(hooks: StoreHooks): StoreHooks {
    const forget = () => this.forget()
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

  /** Entries delivered from now on may be older. */
  forget(): void {
    this.#waits.clear()
  }
}

function replyFrom(
  { at, fence, frame, freshMs, ...windows }: Delivery,
  clock: Pick<ServerClock, 'agoAtMost'>,
): LookupReply | undefined {
  const agoMs = clock.agoAtMost(at)
  if (agoMs === undefined || agoMs > LATE_MS || agoMs >= freshMs) return undefined
  const ageMs = duration(agoMs)
  return {
    status: 'fresh',
    stored: {
      fence,
      frame,
      ageMs,
      freshForMs: duration(freshMs - ageMs),
      staleWhileRevalidateMs: duration(windows.staleWhileRevalidateMs),
      staleIfErrorMs: duration(windows.staleIfErrorMs),
      keepMs: duration(windows.keepMs),
    },
  }
}
