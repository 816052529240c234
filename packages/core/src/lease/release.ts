// The end of a lease in the store, by the process that filled the key.

import type { Events } from '../events.ts'
import { ANY_FENCE } from '../ports/grant.ts'
import type { Grant, StampedeStore } from '../ports/store.ts'
import type { LeaseKeeper } from './lease-keeper.ts'

/** The parts of the runtime that a release needs. */
interface ReleaseRuntime {
  readonly records: StampedeStore | undefined
  readonly events: Events
  readonly keeper: LeaseKeeper
}

/**
 * Ends a lease whose fill has no entry. Resolves after the first try. Undefined: there is no lease
 * in a store.
 */
export function releaseLease(
  rt: ReleaseRuntime,
  grant: Grant | undefined,
): Promise<void> | undefined {
  if (rt.records === undefined || grant === undefined) return undefined
  const fail = (store: StampedeStore, ours: Grant) => store.fail(ours, undefined, 0)
  return rt.keeper.release(async () => trySend(rt, grant, 'fail', fail))
}

/**
 * Resolves with the store's reply. If the store is unavailable, emits an event and resolves with
 * undefined. Returns undefined if there is no lease in a store.
 */
export function trySend<T>(
  { records, events }: ReleaseRuntime,
  grant: Grant | undefined,
  operation: string,
  send: (store: StampedeStore, grant: Grant) => Promise<T>,
): Promise<T | undefined> | undefined {
  if (records === undefined || grant === undefined) return undefined
  // Async, because a store of the app may throw where it should reject.
  const reply = async () => send(records, grant)
  return reply().catch((error: unknown) => {
    // Otherwise the event of the lookup has already reported that the store is unavailable.
    if (grant.fence !== ANY_FENCE) {
      events.emit({ type: 'store.failed', key: grant.key, operation, error })
    }
    return undefined
  })
}
