// The compared locks behind one interface: acquire(key) resolves with a function that releases it.
import { createLocks } from '@stampede/locks'
import { redisStore } from '@stampede/redis'
import { Redis } from 'ioredis'
import { Redis as Redis5 } from 'ioredis5'
import redisSemaphore from 'redis-semaphore'
import Redlock from 'redlock'

export interface LockPeer {
  readonly name: string
  /** Commands that the client sends. Commands inside its scripts do not count. */
  readonly commands: readonly string[]
  readonly open: (url: string) => Acquirer
}

export interface Acquirer {
  readonly acquire: (key: string) => Promise<() => Promise<unknown>>
  readonly close: () => unknown
}

const ours =
  (wait: 'push' | 'poll') =>
  (url: string): Acquirer => {
    const client = new Redis(url, { lazyConnect: true })
    const store = redisStore(client, { commandTimeoutMs: 5_000 })
    const locks = createLocks({ store, wait, waitMs: 120_000 })
    return {
      async acquire(key) {
        const lease = await locks.acquire(key)
        return () => lease.release()
      },
      close: () => locks.close(),
    }
  }

export const floor: LockPeer = {
  name: 'SET NX PX, then DEL (the floor: no waiting, no safety)',
  commands: ['set', 'del'],
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
}

export const peers: readonly LockPeer[] = [
  { name: '@stampede/locks', commands: ['evalsha', 'eval'], open: ours('push') },
  { name: '@stampede/locks, wait: poll', commands: ['evalsha', 'eval'], open: ours('poll') },
  {
    name: 'redlock 5.0.0-beta.2',
    commands: ['evalsha', 'eval'],
    open(url) {
      const client = new Redis5(url)
      const redlock = new Redlock([client], {
        retryCount: -1,
        retryDelay: 200,
        retryJitter: 100,
        automaticExtensionThreshold: 500,
      })
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
    name: 'redis-semaphore 5.8.0',
    commands: ['set', 'evalsha', 'eval'],
    open(url) {
      const client = new Redis5(url)
      return {
        async acquire(key) {
          const options = { lockTimeout: 10_000, acquireTimeout: 120_000, refreshInterval: 8_000 }
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
