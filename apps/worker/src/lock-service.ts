// The embedded run: the locks live in the coordinator's memory, and each worker process reaches
// them by calls. Workers wait by polling here, since only their own process may queue in a memory
// store.

import { memoryStore } from '@stampede/core'
import {
  type Clock,
  type Grant,
  type LockReply,
  type LockRequest,
  type LockStore,
  systemClock,
} from '@stampede/core/store'
import type { Caller } from './calls.ts'

export type LockServices = {
  acquire(key: string, request: LockRequest): Promise<LockReply>
  renew(grants: readonly Grant[], leaseMs: number): Promise<boolean[]>
  release(grant: Grant): Promise<'released' | 'lost'>
}

/** The coordinator's side. */
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

/** The worker's side: what `createLocks({ store, wait: 'poll' })` needs of a store. */
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
