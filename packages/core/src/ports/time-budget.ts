// The time budget of a store that has none of its own, so that no call waits for ever.

import { storeUnavailable } from '../errors.ts'
import type { Clock } from './clock.ts'

const BUDGET_MS = 5_000

/** The same store, whose operations reject with `ERR_STAMPEDE_STORE_UNAVAILABLE` after 5 s. */
export function withTimeBudget<S extends { readonly name: string }>(store: S, clock: Clock): S {
  // The target is another object, because a proxy of a frozen store may not wrap its methods.
  return new Proxy<S>(Object.create(store), {
    get(_, name) {
      const value: unknown = Reflect.get(store, name, store)
      if (typeof value !== 'function') return value
      return (...args: unknown[]) => {
        const reply: unknown = value.apply(store, args)
        const isPending = reply instanceof Object && 'then' in reply
        return isPending ? inTime(store.name, clock, String(name), reply) : reply
      }
    },
  })
}

function inTime(store: string, clock: Clock, operation: string, reply: unknown): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const timer = clock.setTimer(BUDGET_MS, () => {
      reject(storeUnavailable(store, operation, new Error(`no reply within ${BUDGET_MS} ms`)))
    })
    Promise.resolve(reply)
      .then(resolve, reject)
      .finally(() => timer.cancel())
  })
}
