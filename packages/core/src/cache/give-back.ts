// Telling the store what became of a lease, when it may be away.

import type { Grant } from '../ports/grant.ts'
import type { Runtime } from './runtime.ts'

/** Tries at giving back a lease while the store is away; after that it ends by itself. */
const GIVE_BACK_AFTER_MS = [0, 100, 400, 1_500]

/** Ends a lease of which nothing came; without it the fleet would wait for its end. */
export async function giveBack(rt: Runtime, grant: Grant): Promise<void> {
  for (const delayMs of GIVE_BACK_AFTER_MS) {
    if (delayMs > 0) await new Promise<void>((resolve) => rt.clock.setTimer(delayMs, resolve))
    const reply = await tell(rt, grant, 'fail', () => rt.store.fail(grant, undefined, 0))
    if (reply !== undefined || rt.closed) return
  }
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
