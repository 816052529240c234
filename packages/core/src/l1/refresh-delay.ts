// When this process may refresh a stale copy again after a refresh without a result.

import type { Clock } from '../ports/clock.ts'
import type { L1 } from './l1.ts'

/** The parts of the runtime that this file needs. */
interface DelayRuntime {
  readonly l1: L1
  readonly clock: Pick<Clock, 'now'>
  readonly failureBackoffMs: number
  readonly seenDigests: Set<string>
}

/**
 * After a refresh without a result, this process starts no other refresh of the key for `forMs`.
 * Without this pause, each request would start one. With the digest of the request that failed, one
 * unlike request may still start one.
 */
export function delayRefresh(
  rt: DelayRuntime,
  key: string,
  failedDigest?: string,
  forMs: number = rt.failureBackoffMs,
): void {
  const item = rt.l1.get(key)
  if (item?.type !== 'copy') return
  item.nextLookupAt = rt.clock.now() + forMs
  item.failedDigest = failedDigest
}

/** Limit of `Runtime.seenDigests`. */
const MOST_SEEN = 4_096

/**
 * Whether this request may refresh a stale entry at once, although the refresh of another request
 * failed less than `failureBackoffMs` ago. If its refresh fails too, all requests wait.
 *
 * One of the two digests must have been seen before. A client that invents a new one for each
 * request would otherwise lead both refreshes of each back-off.
 */
export function mayLeadInstead(
  rt: DelayRuntime,
  own: string | undefined,
  failedDigest: string,
): boolean {
  if (!own) return false
  const { seenDigests } = rt
  const isKnown = seenDigests.has(own)
  if (seenDigests.size >= MOST_SEEN) seenDigests.clear()
  seenDigests.add(own)
  return own !== failedDigest && (isKnown || seenDigests.has(failedDigest))
}
