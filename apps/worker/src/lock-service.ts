// Locks of the run without Redis: they live in the coordinator's memory, and workers reach them by
// calls. Workers poll, because only waiters of the coordinator's own process can queue there.

import { memoryStore } from '@stampede/core'
import { type Clock, type Grant, type LockStore, systemClock } from '@stampede/core/store'
import type { Caller } from './calls.ts'

type LockReply = Awaited<ReturnType<LockStore['acquire']>>
type LockRequest = Parameters<LockStore['acquire']>[1]

export type LockServices = {
  acquire(key: string, request: LockRequest): Promise<LockReply>
  renew(grants: readonly Grant[], leaseMs: number): Promise<boolean[]>
  release(grant: Grant): Promise<'released' | 'lost'>
}

/** Lock services of the coordinator. */
export function createLockServices(clock: Clock = systemClock): LockServices {
  const { locks } = memoryStore()
  const ignore = () => {}
  locks.attach({ clock, onGrant: ignore, onGap: ignore, onLost: ignore, onError: ignore })
  return {
    acquire: (key, { token, leaseMs }) => locks.acquire(key, { token, leaseMs, queue: false }),
    renew: (grants, leaseMs) => locks.renew(grants, leaseMs),
    release: async (grant) => (await locks.release(grant)).status,
  }
}

/** The store that a worker passes to `createLocks({ store, wait: 'poll' })`. */
export function remoteLockStore(call: Caller<LockServices>): { readonly locks: LockStore } {
  return {
    locks: {
      name: 'coordinator',
      attach() {},
      acquire: (key, request) => call('acquire', key, request),
      renew: (grants, leaseMs) => call('renew', grants, leaseMs),
      release: async (grant) => ({ status: await call('release', grant) }),
      async leave() {},
      async close() {},
    },
  }
}
