// What this process waits for, and what it was told of it with the word that woke it: then it need not ask again. Used only for the
// very fill that it was told to wait for, only at once, and not after a purge of anything.

import type { LookupReply, LookupRequest } from '@stampede/core'
import type { Filled } from './filled-message.ts'
import { duration } from './reply-parts.ts'
import type { ServerClock } from './server-clock.ts'

/** What comes later than this is the past: whoever is woken by it asks. */
const LATE_MS = 500
const MOST = 10_000

interface Wait {
  readonly token: string
  readonly fence: string
  filled: Filled | undefined
}

export class Awaited {
  readonly #waits = new Map<string, Wait>()

  get size(): number {
    return this.#waits.size
  }

  /** The store said: busy, under this fence. It has noted that `token` waits. */
  add(key: string, token: string, fence: string): void {
    this.#waits.delete(key)
    this.#waits.set(key, { token, fence, filled: undefined })
    if (this.#waits.size <= MOST) return
    for (const oldest of this.#waits.keys()) {
      this.#waits.delete(oldest)
      break
    }
  }

  /** Ignored, if it is not that for which this process waits. */
  fill(filled: Filled): void {
    const wait = this.#waits.get(filled.key)
    if (wait?.token === filled.token && wait.fence === filled.fence) wait.filled = filled
  }

  /** What the next look-up would find, as far as was told. The wait is over. */
  take(
    key: string,
    { token, outdated, early }: LookupRequest,
    clock: Pick<ServerClock, 'agoAtMost'>,
  ): LookupReply | undefined {
    const wait = this.#waits.get(key)
    if (wait === undefined) return undefined
    this.#waits.delete(key)
    if (wait.filled === undefined || wait.token !== token || outdated || early) return undefined
    return replyFrom(wait.filled, clock)
  }

  /** Something was purged, or may have been: what is told from now on may be older. */
  forget(): void {
    this.#waits.clear()
  }
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
