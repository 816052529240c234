// Keys that this process waits for, and entries delivered with their wake-ups. A delivered entry
// saves the lookup after the wake-up (docs/decisions/0016). The entry is used once, within half a
// second, and only if it comes from the fill that the BUSY reply named. Any purge discards the
// entry.

import type { ServerClock } from '../connection/servers.ts'
import { type LookupReply, type LookupRequest, storedFrame } from '../protocol/lookup-reply.ts'

/** An entry that was committed longer ago is not used, and the waiter looks up the key again. */
const MAX_DELAY_MS = 500
/**
 * Limit of keys at a time. With the largest frames, the messages of 500 keys fill the buffer that
 * Redis grants to a subscriber that does not read: 8 MiB for a minute. The lookups in flight, 128
 * at most, may add more keys than this limit.
 */
const MAX_WAITS = 370
/**
 * Longest key that is kept in memory here, because clients choose the length of URLs. Waiters for a
 * longer key look up the entry.
 */
const MAX_KEY_LENGTH = 1024

interface Wait {
  readonly token: string
  readonly fence: string
  /**
   * The delivered entry. Its frame is a copy, because a view would keep the whole buffer of the
   * socket in memory.
   */
  delivery: Delivery | undefined
}

export class PendingDeliveries {
  readonly #waits = new Map<string, Wait>()

  get size(): number {
    return this.#waits.size
  }

  /**
   * Whether a lookup may ask for a wake-up that carries the entry. If there is no room, drops the
   * oldest wait, because its waiter may have given up.
   */
  mayAdd(key: string): boolean {
    if (key.length > MAX_KEY_LENGTH) return false
    if (this.#waits.size < MAX_WAITS) return true
    const [oldest = ''] = this.#waits.keys()
    this.#waits.delete(oldest)
    return false
  }

  /**
   * Called when Redis replied BUSY with this fence and has registered the lookup of `token` as a
   * waiter.
   */
  add(key: string, token: string, fence: string): void {
    this.#waits.delete(key)
    this.#waits.set(key, { token, fence, delivery: undefined })
  }

  /** Returns the key of a wake-up. Undefined if the message is malformed. */
  receive(message: Buffer): string | undefined {
    if (!isDelivery(message)) return String(message)
    const delivery = readDelivery(message)
    if (delivery !== undefined) this.deliver(delivery)
    return delivery?.key
  }

  /** Stores the entry if this process waits for exactly this fill. */
  deliver(delivery: Delivery): void {
    const { key, token, fence, frame } = delivery
    const wait = this.#waits.get(key)
    if (wait?.token !== token || wait.fence !== fence || frame.length > MAX_FRAME_BYTES) return
    const copy = Buffer.allocUnsafeSlow(frame.byteLength)
    copy.set(frame)
    wait.delivery = { ...delivery, frame: copy }
  }

  /**
   * Ends the wait for a key. If the wake-up delivered the entry, returns the reply to the lookup.
   */
  take(
    key: string,
    { token, leaseMs, outdated }: LookupRequest,
    clock: Pick<ServerClock, 'agoAtMost'>,
  ): LookupReply | undefined {
    // A lookup without a lease, such as for HEAD, does not wait. It must not end the wait of
    // another lookup.
    if (leaseMs === 0) return undefined
    const wait = this.#waits.get(key)
    if (wait === undefined) return undefined
    this.#waits.delete(key)
    if (wait.delivery === undefined || wait.token !== token || outdated) return undefined
    return replyFrom(wait.delivery, clock)
  }

  /**
   * Called at each purge, and if purges may have been missed. Drops all waits, because entries
   * delivered from now on may be from before the purge.
   */
  clear(): void {
    this.#waits.clear()
  }
}

function replyFrom(
  { at, fence, frame, freshMs, windows }: Delivery,
  clock: Pick<ServerClock, 'agoAtMost'>,
): LookupReply | undefined {
  const agoMs = clock.agoAtMost(at)
  if (agoMs === undefined || agoMs > MAX_DELAY_MS || agoMs >= freshMs) return undefined
  return {
    status: 'fresh',
    stored: storedFrame(fence, frame, agoMs, freshMs - Math.max(0, agoMs), windows),
  }
}

// Parses wake-ups of lua/commit-2.lua that carry the new entry. A message is a line of values, then
// the key, then the frame. The last value of the line is the length of the key. The server is not
// trusted, so each part is checked.

/** Largest frame that lua/commit-2.lua sends in a message. */
export const MAX_FRAME_BYTES: number = 16 * 1024

export interface Delivery {
  readonly key: string
  /** Token of the waiting lookup. */
  readonly token: string
  /** Fence of the commit. */
  readonly fence: string
  /** Moment of the commit, in ms of the server's clock. */
  readonly at: number
  readonly freshMs: number
  /** The durations of stale-while-revalidate, stale-if-error and `keep`. */
  readonly windows: readonly number[]
  /** A view of the message, not a copy. */
  readonly frame: Uint8Array
}

const MAX_LINE_BYTES = 300
const LINE = /^\0([\w-]{1,64}) (\d{1,16})((?: \d{1,16}){6})$/

/**
 * Whether a wake-up carries an entry. A plain wake-up is a key, and no key begins with a zero byte.
 */
export function isDelivery(message: Buffer): boolean {
  return message[0] === 0
}

/** Parses a wake-up that carries an entry. Undefined if the message is malformed. */
export function readDelivery(message: Buffer): Delivery | undefined {
  const end = message.subarray(0, MAX_LINE_BYTES).indexOf(10)
  const found = LINE.exec(message.toString('latin1', 0, Math.max(end, 0)))
  if (found === null) return undefined
  const [, token = '', fence = '', numbers = ''] = found
  const [at = 0, freshMs = 0, ...rest] = numbers.slice(1).split(' ').map(Number)
  const keyBytes = rest.pop() ?? 0
  const keyEnd = end + 1 + keyBytes
  if (keyBytes === 0 || keyEnd > message.length) return undefined
  const key = message.toString('utf8', end + 1, keyEnd)
  return { key, token, fence, at, freshMs, windows: rest, frame: message.subarray(keyEnd) }
}
