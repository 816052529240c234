// What this process waits for, and what it was told of it with the word that woke it: then it need not ask again. Used only for the
// very fill that it was told to wait for, only at once, and not after a purge of anything.

import type { LookupReply, LookupRequest } from '@stampede/core'
import type { Filled } from './filled-message.ts'
import { duration } from './reply-parts.ts'
import type { ServerClock } from './server-clock.ts'

/** What comes later than this is the past: whoever is woken by it asks. */
const LATE_MS = 500
/** At once. With the longest frames it is what Redis lets pile up for a subscriber that does not read (8 MiB, for a minute). */
const MOST = 500
/** Of keys and frames: how long a URL is, is the client's. */
const MOST_BYTES = 8 * 1024 * 1024
const OVERHEAD_BYTES = 600

interface Wait {
  readonly token: string
  readonly fence: string
  /** Kept of all that came from the socket with it: a frame of its own. */
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

  /** Before a look-up: whether it may be told, if it has to wait. Where there is no room, who gave up waiting makes some. */
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

  /** The look-up is over, however it ended. */
  ended(): void {
    this.#asking -= 1
  }

  /** The store said: busy, under this fence. It has noted that `token` waits. */
  add(key: string, token: string, fence: string): void {
    this.#end(key)
    this.#waits.set(key, { token, fence, filled: undefined })
    this.#bytes += keyBytes(key)
    this.#bound()
  }

  /** Ignored, if it is not that for which this process waits. */
  fill(filled: Filled): void {
    const wait = this.#waits.get(filled.key)
    if (wait?.token !== filled.token || wait.fence !== filled.fence) return
    const frame = Buffer.allocUnsafeSlow(filled.frame.byteLength)
    frame.set(filled.frame)
    this.#bytes += frame.byteLength - frameBytes(wait)
    wait.filled = { ...filled, frame }
    this.#bound()
  }

  /** What the next look-up would find, as far as was told. The wait is over. */
  take(
    key: string,
    { token, leaseMs, outdated, early }: LookupRequest,
    clock: Pick<ServerClock, 'agoAtMost'>,
  ): LookupReply | undefined {
    // Who only reads, for a HEAD, does not wait, and ends nobody's wait.
    if (leaseMs === 0) return undefined
    const wait = this.#end(key)
    if (wait?.filled === undefined || wait.token !== token || outdated || early) return undefined
    return replyFrom(wait.filled, clock)
  }

  /** Something was purged, or may have been: what is told from now on may be older. */
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

  /** The oldest go: who comes for one of them asks. */
  #bound(): void {
    for (const oldest of this.#waits.keys()) {
      if (this.#waits.size <= MOST && this.#bytes <= MOST_BYTES) return
      this.#end(oldest)
    }
  }
}

/** Here, and in what was told. */
function keyBytes(key: string): number {
  return OVERHEAD_BYTES + 4 * key.length
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
      patch: undefined,
      ageMs,
      freshForMs: duration(freshMs - ageMs),
      staleWhileRevalidateMs: duration(windows.staleWhileRevalidateMs),
      staleIfErrorMs: duration(windows.staleIfErrorMs),
      keepMs: duration(windows.keepMs),
    },
  }
}
