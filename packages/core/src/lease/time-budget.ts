// The time budget of a store that has none of its own, so that no call waits for ever.

import { storeUnavailable } from '../errors.ts'
import type { Clock } from '../ports/clock.ts'
import { ANY_FENCE, type Grant } from '../ports/grant.ts'
import type { BeginRequest, IdempotencyStore } from '../ports/idempotency-store.ts'
import type { LockStore } from '../ports/lock-store.ts'
import type { StampedeStore } from '../ports/store.ts'

const BUDGET_MS = 5_000

/**
 * The same store, whose operations reject with `ERR_STAMPEDE_STORE_UNAVAILABLE` after 5 s. A lease
 * that a later reply grants is ended, because its caller no longer waits for it.
 */
export function withTimeBudget<S extends { readonly name: string }>(store: S, clock: Clock): S {
  // The target is another object, because a proxy of a frozen store may not wrap its methods.
  return new Proxy<S>(Object.create(store), {
    get(_, name) {
      const value: unknown = Reflect.get(store, name, store)
      if (typeof value !== 'function') return value
      return (...args: unknown[]) => {
        let reply: unknown
        try {
          reply = value.apply(store, args)
        } catch (error) {
          // A caller in the background handles only rejections. An exception would end the process.
          if (name === 'attach') throw error
          return Promise.reject(error)
        }
        if (!(reply instanceof Object && 'then' in reply)) return reply
        return inTime(store, clock, String(name), args, reply)
      }
    },
  })
}

function inTime(
  store: { readonly name: string },
  clock: Clock,
  operation: string,
  args: readonly unknown[],
  reply: unknown,
): Promise<unknown> {
  return new Promise((resolve, reject) => {
    let isLate = false
    const timer = clock.setTimer(BUDGET_MS, () => {
      isLate = true
      reject(storeUnavailable(store.name, operation, new Error(`no reply within ${BUDGET_MS} ms`)))
    })
    Promise.resolve(reply)
      .finally(() => timer.cancel())
      .then((its) => (isLate ? endLate(store, operation, args, its) : resolve(its)))
      .catch(reject)
  })
}

/** How a lease ends that the operation granted too late. */
const ENDS: Readonly<Record<string, (store: never, grant: Grant, args: never) => unknown>> = {
  lookup: (store: StampedeStore, grant) => store.fail(grant, undefined, 0),
  acquire: (store: LockStore, grant) => store.release(grant),
  // With `ANY_FENCE`, the attempt counts as one whose handler did not run.
  begin: (store: IdempotencyStore, grant, [, request]: [string, BeginRequest]) => {
    const finish = { as: 'released', keepMs: request.retentionMs } as const
    return store.finish({ ...grant, fence: ANY_FENCE }, finish, request.fingerprints)
  },
}

function endLate(store: object, operation: string, args: readonly unknown[], reply: unknown) {
  const { grant } = Object(reply) as { grant?: Grant }
  return grant && ENDS[operation]?.(store as never, grant, args as never)
}
