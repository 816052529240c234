// Sharing of failures. One unusual header can make a handler fail, so a failure is first shared
// with like requests only, whose target and header fields are equal. Then one unlike request runs
// the handler. If that run fails too, all requests share the failure.

import { freshnessAt } from '../entry/entry.ts'
import type { Flight } from './flight.ts'
import type { Found } from './lookup-or-lease.ts'
import type { Caller, FillResult, Resolution, Shared } from './resolution.ts'
import type { Runtime } from './runtime.ts'

type Failed = Extract<Resolution, { type: 'failed' }>

/** Adds the digest of the request to its failure, unless an unlike request has failed before. */
export function withDigest(flight: Flight, caller: Caller, result: FillResult): FillResult {
  if (result.type !== 'failure') return result
  const like = caller.requestDigest?.()
  const isConfirmed = flight.failedDigest !== undefined && flight.failedDigest !== like
  if (like === undefined || isConfirmed) return result
  return { ...result, failure: { ...result.failure, like } }
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
