// The end of a lease whose fill has no entry, with retries while the store is unavailable.

import type { Events } from '../events.ts'
import type { Clock } from '../ports/clock.ts'
import { ANY_FENCE } from '../ports/grant.ts'
import type { CommitReply, Grant, StampedeStore } from '../ports/store.ts'

/** The parts of the runtime that a release needs. */
interface ReleaseRuntime {
  readonly records: StampedeStore | undefined
  readonly events: Events
  readonly clock: Pick<Clock, 'setTimer'>
  readonly closed: boolean
}

/** Pauses before the retries. If the last retry fails, the lease ends when its time is over. */
const RETRY_DELAYS_MS = [100, 400, 1_500]

/**
 * Ends a lease whose fill has no entry, so that other processes need not wait until it times out.
 * Resolves after the first try: waiters of this process must not wait for an unavailable store.
 * Undefined: there is no lease in a store.
 */
export function releaseLease(
  rt: ReleaseRuntime,
  grant: Grant | undefined,
): Promise<void> | undefined {
  return release(rt, grant)?.then((reply) => {
    if (reply === undefined) void retryRelease(rt, grant)
  })
}

async function retryRelease(rt: ReleaseRuntime, grant: Grant | undefined): Promise<void> {
  for (const delayMs of RETRY_DELAYS_MS) {
    if (rt.closed) return
    await new Promise<void>((resolve) => rt.clock.setTimer(delayMs, resolve))
    if ((await release(rt, grant)) !== undefined) return
  }
}

function release(
  rt: ReleaseRuntime,
  grant: Grant | undefined,
): Promise<CommitReply | undefined> | undefined {
  return trySend(rt, grant, 'fail', (store, ours) => store.fail(ours, undefined, 0))
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
  return rejecting(() => send(records, grant)).catch((error: unknown) => {
    // Otherwise the event of the lookup has already reported that the store is unavailable.
    if (grant.fence !== ANY_FENCE) {
      events.emit({ type: 'store.failed', key: grant.key, operation, error })
    }
    return undefined
  })
}

/** A store of the app may throw where it should reject. */
function rejecting<T>(send: () => Promise<T>): Promise<T> {
  try {
    return send()
  } catch (error) {
    return Promise.reject(error)
  }
}
