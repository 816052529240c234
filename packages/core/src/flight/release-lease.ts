// The release of leases whose fill has no entry, with retries while the store is unavailable.

import type { Grant } from '../ports/grant.ts'
import type { Flight } from './flight.ts'
import type { Runtime } from './runtime.ts'

/** Pauses before the retries. If the last retry fails, the lease ends when its time is over. */
const RETRY_DELAYS_MS = [100, 400, 1_500]

/**
 * Releases a lease under which no fill has begun. The flight gets a new token. With the old token,
 * the next lookup of the flight could get this lease again. A delayed release would then end the
 * lease during the fill.
 */
export function releaseUnusedLease(rt: Runtime, flight: Flight, grant: Grant): Promise<void> {
  flight.renewToken()
  return releaseLease(rt, grant)
}

/**
 * Ends a lease whose fill has no entry, so that other processes need not wait until it times out.
 * Resolves after the first try: waiters of this process must not wait for an unavailable store.
 */
export async function releaseLease(rt: Runtime, grant: Grant): Promise<void> {
  if (!(await isReleased(rt, grant))) void retryRelease(rt, grant)
}

async function retryRelease(rt: Runtime, grant: Grant): Promise<void> {
  for (const delayMs of RETRY_DELAYS_MS) {
    if (rt.closed) return
    await new Promise<void>((resolve) => rt.clock.setTimer(delayMs, resolve))
    if (await isReleased(rt, grant)) return
  }
}

async function isReleased(rt: Runtime, grant: Grant): Promise<boolean> {
  const reply = await trySend(rt, grant, 'fail', () => rt.store.fail(grant, undefined, 0))
  return reply !== undefined
}

/** Returns the store's reply. If the store is unavailable, emits an event and returns undefined. */
export async function trySend<T>(
  rt: Runtime,
  grant: Grant,
  operation: string,
  send: () => Promise<T>,
): Promise<T | undefined> {
  try {
    return await send()
  } catch (error) {
    rt.events.emit({ type: 'store.failed', key: grant.key, operation, error })
    return undefined
  }
}
