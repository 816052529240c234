// Rules about locks: no two holders of one key see a live lease at the same moment, and fences
// rise.

import type { Lease } from '@stampede/locks'
import { names } from '../../packages/redis/src/protocol/keys.ts'
import type { Message, Seen } from './sim-redis.ts'
import type { Judge } from './violation.ts'

interface Holder {
  readonly process: string
  readonly lease: Lease
}

const { grantPrefix } = names('stampede')

/** The leases that a release announces to queued processes. */
export function handedOver(
  published: readonly Message[],
): Array<{ readonly fence: string; readonly forMs: number }> {
  return published.flatMap(({ channel, text }) => {
    const [, fence = '', until, sentAt] = text.split(' ')
    return channel.startsWith(grantPrefix) ? [{ fence, forMs: Number(until) - Number(sentAt) }] : []
  })
}

export class LockRules {
  readonly #judge: Judge
  readonly #held = new Map<string, Set<Holder>>()
  /** All leases that are held, by key. */
  readonly #highest = new Map<string, bigint>()
  /** The longest lease that was requested, by key. */
  readonly #longestMs = new Map<string, number>()
  /** When the server granted each fence. */
  readonly #given = new Map<string, number>()

  constructor(judge: Judge) {
    this.#judge = judge
  }

  /** The clock was set back and data was lost, so fences may fall. */
  forgetFences(): void {
    this.#highest.clear()
  }

  saw({ command: { name, keys, args }, reply, published }: Seen, at: number): void {
    const [key = ''] = keys
    if (name === 'acquire-lock') this.#checkWait(key, Number(args[1]), reply as unknown[])
    // A process that releases asks for its next turn in the same step.
    if (name === 'release-lock') this.#asked(key, Number(args[9]))
    if (name !== 'acquire-lock' && name !== 'release-lock') return
    const [, , replied] = reply as unknown[]
    for (const fence of [String(replied), ...handedOver(published).map((each) => each.fence)]) {
      if (!this.#given.has(fence)) this.#given.set(fence, at)
    }
  }

  /** No process waits longer than the longest requested lease, in spite of changes to the clock. */
  #checkWait(key: string, leaseMs: number, [status, , , forMs]: unknown[]): void {
    const longestMs = this.#asked(key, leaseMs)
    if (status !== 'BUSY' || Number(forMs) <= longestMs) return
    this.#judge.fail('no longer than set', `${key} is held for ${forMs} ms more`, key)
  }

  #asked(key: string, leaseMs: number): number {
    const longestMs = Math.max(leaseMs, this.#longestMs.get(key) ?? 0)
    this.#longestMs.set(key, longestMs)
    return longestMs
  }

  /**
   * `since`: the server lost data, or its clock was set forward. Older leases may be granted again.
   */
  acquired(key: string, holder: Holder, since: number, now: number): void {
    const { process, lease } = holder
    // The reply was late, and its holder knows that the lease is over.
    if (lease.remainingMs() === 0) return
    const held = this.#held.get(key) ?? new Set()
    this.#held.set(key, held)
    for (const other of held) {
      const leftMs = other.lease.remainingMs()
      if (leftMs === 0) held.delete(other)
      else if ((this.#given.get(String(other.lease.fence)) ?? now) > since) {
        const detail = `${process} has ${key} while ${other.process} holds it for ${leftMs.toFixed(1)} ms more`
        this.#judge.fail('no overlap', detail, key)
      }
    }
    held.add(holder)
    const highest = this.#highest.get(key) ?? 0n
    if (lease.fence <= highest && (this.#given.get(String(lease.fence)) ?? 0) > since) {
      this.#judge.fail('rising fences', `${lease.fence} of ${key} came after ${highest}`, key)
    }
    if (lease.fence > highest) this.#highest.set(key, lease.fence)
  }

  released(key: string, holder: Holder): void {
    this.#held.get(key)?.delete(holder)
  }

  died(process: string): void {
    for (const held of this.#held.values()) {
      for (const holder of held) if (holder.process === process) held.delete(holder)
    }
  }
}
