// Sharing a failure. One odd header can make a handler fail, so a failure is first shared with like
// requests only. Then one unlike request runs the handler again. If that fails too, the origin is
// failing, and all requests share the failure.

import type { Flight } from './flight.ts'
import type { Caller, FillResult, Resolution, Shared } from './resolution.ts'

type Failed = Extract<Resolution, { type: 'failed' }>

/**
 * Adds the digest of the request to its failure. Omits it once an unlike request has failed too.
 */
export function attributed(flight: Flight, caller: Caller, result: FillResult): FillResult {
  if (result.type !== 'failure') return result
  const like = caller.likeness?.()
  const isConfirmed = flight.doubted !== undefined && flight.doubted !== like
  if (like === undefined || isConfirmed) return result
  return { ...result, failure: { ...result.failure, like } }
}

/**
 * Releases the waiters that are like the failed request. For the others the flight looks up again.
 */
export function shareFailure(flight: Flight, failed: Failed): Shared {
  const { like } = failed.failure
  if (like === undefined) return failed
  for (const waiter of flight.waiters) {
    if (isLike(waiter.caller, like)) flight.release(waiter, failed)
  }
  if (flight.waiters.size === 0) return failed
  flight.doubted = like
  return 'again'
}

/**
 * Whether the store repeats a failure although the lookup named an unlike request. A store that
 * does not know `like` does that. The failure is then shared: looking up again would never end.
 */
export function isRepeated(
  flight: Flight,
  { failure: { like } }: Pick<Failed, 'failure'>,
): boolean {
  const first = flight.first()
  if (like === undefined || flight.doubted !== like || first === undefined) return false
  return !isLike(first.caller, like)
}

/** A call without a request (`getOrSet`) is like any other. */
function isLike({ likeness }: Caller, like: string): boolean {
  return likeness === undefined || likeness() === like
}
