// Telling the store what became of a lease, when it may be away.

import type { Grant } from '../ports/grant.ts'
import type { Flight } from './flight.ts'
import type { Runtime } from './runtime.ts'

/** Further tries at giving back a lease while the store is away; after that it ends by itself. */
const AGAIN_AFTER_MS = [100, 400, 1_500]

/**
 * Gives back a lease before its fill. The flight claims under another name from now on: under the
 * same one its next lookup could get this lease again, and a late give-back would end that.
 */
export function giveUpLease(rt: Runtime, flight: Flight, grant: Grant): Promise<void> {
  flight.renewToken()
  return giveBack(rt, grant)
}

/**
 * Ends a lease that brought nothing, so that the fleet does not wait for its end. Resolves after the
 * first try: waiters of this process must not wait for a store that is away.
 */
export async function giveBack(rt: Runtime, grant: Grant): Promise<void> {
  if (!(await isGivenBack(rt, grant))) void giveBackLater(rt, grant)
}

async function giveBackLater(rt: Runtime, grant: Grant): Promise<void> {
  for (const delayMs of AGAIN_AFTER_MS) {
    if (rt.closed) return
    await new Promise<void>((resolve) => rt.clock.setTimer(delayMs, resolve))
    if (await isGivenBack(rt, grant)) return
  }
}

async function isGivenBack(rt: Runtime, grant: Grant): Promise<boolean> {
  const reply = await tell(rt, grant, 'fail', () => rt.store.fail(grant, undefined, 0))
  return reply !== undefined
}

/** The store's reply, or undefined after an event when it could not be reached. */
export async function tell<T>(
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
