// Keys this process waits for, and entries delivered with their wake-up message. Such an entry
// saves a lookup. It is used only for the fill that the lookup was told to wait for, only at once,
// and not after any purge.

import type { LookupReply, LookupRequest } from '@stampede/core'
import type { ServerClock } from '../connection/server-clock.ts'
import type { Filled } from '../protocol/filled-message.ts'
import { duration } from '../protocol/reply-parts.ts'

/** A wake-up older than this does not deliver its entry; the waiter looks it up. */
const LATE_MS = 500
/**
 * Waits at the same time. With the longest frames, they fill what Redis buffers for a subscriber
 * that does not read (8 MiB, for a minute).
 */
const MOST = 500
/** Of keys and frames: clients choose the length of URLs. */
const MOST_BYTES = 8 * 1024 * 1024
/** Map slot, the objects of a wait and of what was told: measured by `test/soak/heap.test.ts`. */
const OVERHEAD_BYTES = 900

interface Wait {
  readonly token: string
  readonly fence: string
  /** A copy, so that it does not keep the whole buffer of the socket alive. */
  filled: Filled | undefined
}

export class Awaited {
  readonly #waits = new Map<string, Wait>()
  #bytes = 0
  #asking = 0

  get size(): number {
    return this.#waits.size
  }

  get bytes(): number {
    return this.#bytes
  }

  /**
   * Before a lookup: whether it may ask for the entry with its wake-up. If there is no room, the
   * oldest wait ends, since its waiter may have given up.
   */
  mayBegin(): boolean {
    if (this.#asking + this.#waits.size < MOST) {
      this.#asking += 1
      return true
    }
    for (const oldest of this.#waits.keys()) {
      this.#end(oldest)
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
    this.#end(key)
    this.#waits.set(key, { token, fence, filled: undefined })
    this.#bytes += keyBytes(key)
    this.#bound()
  }

  /** Ignored unless this process waits for exactly this fill. */
  fill(filled: Filled): void {
    const wait = this.#waits.get(filled.key)
    if (wait?.token !== filled.token || wait.fence !== filled.fence) return
    const frame = Buffer.allocUnsafeSlow(filled.frame.byteLength)
    frame.set(filled.frame)
    this.#bytes += frame.byteLength - frameBytes(wait)
    wait.filled = { ...filled, frame }
    this.#bound()
  }

  /** The reply that the next lookup would get, if its wake-up brought the entry. Ends the wait. */
  take(
    key: string,
    { token, leaseMs, outdated, early }: LookupRequest,
    clock: Pick<ServerClock, 'agoAtMost'>,
  ): LookupReply | undefined {
    // A HEAD request only reads. It does not wait, and must not end the wait of another.
    if (leaseMs === 0) return undefined
    const wait = this.#end(key)
    if (wait?.filled === undefined || wait.token !== token || outdated || early) return undefined
    return replyFrom(wait.filled, clock)
  }

  /** Something was purged, or may have been: entries delivered from now on may be older. */
  forget(): void {
    this.#waits.clear()
    this.#bytes = 0
  }

  #end(key: string): Wait | undefined {
    const wait = this.#waits.get(key)
    if (wait === undefined) return undefined
    this.#waits.delete(key)
    this.#bytes -= keyBytes(key) + frameBytes(wait)
    return wait
  }

  /** Evicts the oldest waits; their waiters look up instead. */
  #bound(): void {
    for (const oldest of this.#waits.keys()) {
      if (this.#waits.size <= MOST && this.#bytes <= MOST_BYTES) return
      this.#end(oldest)
    }
  }
}

/** The key is held twice: in the map and in the entry. */
function keyBytes(key: string): number {
  const characterBytes = /[^\0-\xff]/.test(key) ? 2 : 1
  return OVERHEAD_BYTES + 2 * characterBytes * key.length
}

function frameBytes({ filled }: Wait): number {
  return filled?.frame.byteLength ?? 0
}

function replyFrom(
  { at, fence, frame, freshMs, ...windows }: Filled,
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
