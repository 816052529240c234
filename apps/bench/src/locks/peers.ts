// The compared locks behind one interface: acquire(key) resolves with a function that releases it.
import { createLocks } from '@stampede/locks'
import { redisStore } from '@stampede/redis'
import { Redis } from 'ioredis'
import { Redis as Redis5 } from 'ioredis5'
import redisSemaphore from 'redis-semaphore'
import Redlock from 'redlock'
import type { RowSpec } from '../lib/rows.ts'

export interface LockPeer extends RowSpec {
  /** Commands that the client sends. Commands inside its scripts do not count. */
  readonly commands: readonly string[]
  readonly open: (url: string) => Acquirer
}

export interface Acquirer {
  readonly acquire: (key: string) => Promise<() => Promise<unknown>>
  readonly close: () => unknown
}

const scripts = ['evalsha', 'eval']

const ours = (id: string, name: string, wait: 'push' | 'poll'): LockPeer => ({
  ...{ id, name, kind: 'ours', floor: 'floor', commands: scripts },
  open(url) {
    const client = new Redis(url, { lazyConnect: true })
    const store = redisStore(client, { commandTimeoutMs: 5_000 })
    const locks = createLocks({ store, wait })
    return {
      async acquire(key) {
        const lease = await locks.acquire(key, { waitMs: 120_000 })
        return () => lease.release()
      },
      close: () => locks.close(),
    }
  },
})

export const peers: readonly LockPeer[] = [
  {
    ...{ id: 'floor', kind: 'floor', commands: ['set', 'del'] },
    name: 'SET NX PX, then DEL (the floor: no waiting, no safety)',
    open(url) {
      const client = new Redis(url)
      return {
        async acquire(key) {
          await client.set(key, '1', 'PX', 10_000, 'NX')
          return () => client.del(key)
        },
        close: () => client.disconnect(),
      }
    },
  },
  ours('stampede', '@stampede/locks', 'push'),
  ours('stampede-poll', '@stampede/locks, wait: poll', 'poll'),
  {
    ...{ id: 'redlock', name: 'redlock 5.0.0-beta.2', kind: 'peer', floor: 'floor' },
    commands: scripts,
    open(url) {
      const client = new Redis5(url)
      const retries = { retryCount: -1, retryDelay: 200, retryJitter: 100 }
      const redlock = new Redlock([client], { ...retries, automaticExtensionThreshold: 500 })
      redlock.on('error', () => {})
      return {
        async acquire(key) {
          const lock = await redlock.acquire([key], 10_000)
          return () => lock.release()
        },
        close: () => client.disconnect(),
      }
    },
  },
  {
    ...{ id: 'redis-semaphore', name: 'redis-semaphore 5.8.0', kind: 'peer', floor: 'floor' },
    commands: ['set', ...scripts],
    open(url) {
      const client = new Redis5(url)
      const options = { lockTimeout: 10_000, acquireTimeout: 120_000, refreshInterval: 8_000 }
      return {
        async acquire(key) {
          // Its types are those of ioredis 6. It runs with ioredis 5, like redlock.
          const mutex = new redisSemaphore.Mutex(client as never, key, options)
          await mutex.acquire()
          return () => mutex.release()
        },
        close: () => client.disconnect(),
      }
    },
  },
]
