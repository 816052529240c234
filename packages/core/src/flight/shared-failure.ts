// Sharing of failures. One unusual header can make a handler fail, so a failure is first shared
// with like requests only, whose target and header fields are equal. Then one unlike request runs
// the handler. If that run fails too, all requests share the failure.

import { freshnessAt } from '../entry/entry.ts'
import type { Flight } from './flight.ts'
import type { Found } from './lookup-or-lease.ts'
import type { Caller, FillResult, Resolution, Shared } from './resolution.ts'
import type { Runtime } from './runtime.ts'

type Failed = Extract<Resolution, { type: 'failed' }>

/** Adds the digest of the request to a run that failed, unless an unlike request failed before. */
export function withDigest(flight: Flight, caller: Caller, result: FillResult): FillResult {
  if ('entry' in result || (result.type === 'pass' && result.remember)) return result
  const like = caller.requestDigest?.()
  const isConfirmed = flight.failedDigest !== undefined && flight.failedDigest !== like
  if (like === undefined || isConfirmed) return result
  if (result.type !== 'failure') return { ...result, like }
  return { ...result, failure: { ...result.failure, like } }
}

/**
 * After a refresh without a result, this process starts no other refresh of the key for
 * `failureBackoffMs`. Without this pause, each request would start one. With the digest of the
 * request that failed, one unlike request may still start one.
 */
export function delayRefresh(rt: Runtime, key: string, failedDigest?: string): void {
  const item = rt.l1.get(key)
  if (item?.type !== 'copy') return
  item.nextLookupAt = rt.clock.now() + rt.failureBackoffMs
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
export function mayLeadInstead(rt: Runtime, caller: Caller, failedDigest?: string): boolean {
  const own = failedDigest && caller.requestDigest?.()
  if (!own) return false
  const { seenDigests } = rt
  const isKnown = seenDigests.has(own)
  if (seenDigests.size >= MOST_SEEN) seenDigests.clear()
  seenDigests.add(own)
  return own !== failedDigest && (isKnown || seenDigests.has(failedDigest))
}

/**
 * Settles the waiters whose requests are like the failed one. For others, the flight looks up
 * again.
 */
export function shareFailure(flight: Flight, failed: Failed): Shared {
  const { like } = failed.failure
  if (like === undefined) return failed
  flight.waiters.settleEach(({ caller }) => (isLike(caller, like) ? failed : undefined))
  if (flight.waiters.size === 0) return failed
  flight.setFailedDigest(like)
  return 'again'
}

/**
 * Whether the store returned the failure of an unlike request. A store of an earlier version does
 * that, because it ignores `like`. Then all waiters share the failure. Otherwise each further
 * lookup would get the same reply.
 */
function isRepeated(flight: Flight, { failure: { like } }: Pick<Failed, 'failure'>): boolean {
  const first = flight.waiters.first()
  if (like === undefined || flight.failedDigest !== like || first === undefined) return false
  return !isLike(first.caller, like)
}

/** A call of `getOrSet` has no digest, and is like any other. */
function isLike(caller: Caller, like: string): boolean {
  const own = caller.requestDigest?.()
  return own === undefined || own === like
}

/** Shares the failure that the store remembers, or serves the stale entry. */
export function serveFailed(
  rt: Runtime,
  flight: Flight,
  { failure, forMs, held }: Extract<Found, { status: 'failed' }>,
): Shared {
  const { key } = flight
  const isStaleServable = held !== undefined && freshnessAt(held, rt.clock.now()) === 'stale'
  const rest = { retryAfterMs: forMs, error: undefined, previous: held }
  const failed = { type: 'failed', failure, ...rest } as const
  const isForAll = isStaleServable || isRepeated(flight, failed)
  const shared = isForAll ? failed : shareFailure(flight, failed)
  if (shared === 'again') return shared
  rt.events.emit({ type: 'failure.shared', key, failure })
  return isStaleServable ? { type: 'hit', held, stale: true, from: 'l2' } : shared
}
