// The same lock from everybody: acquire(key) resolves with a function that releases it.
// @ts-check
import { createLocks } from '@stampede/locks'
import { redisStore } from '@stampede/redis'
import { Redis } from 'ioredis'
import { Redis as Redis5 } from 'ioredis5'
import redisSemaphore from 'redis-semaphore'
import Redlock from 'redlock'

/**
 * @typedef {object} Peer
 * @property {string} name
 * @property {string[]} commands what it sends itself, as opposed to what its scripts call
 * @property {(url: string) => { acquire(key: string): Promise<() => Promise<unknown>>, close(): unknown }} open
 */

/** @param {'push' | 'poll'} wait */
const ours = (wait) => (/** @type {string} */ url) => {
  const client = new Redis(url, { lazyConnect: true })
  const locks = createLocks({
    store: redisStore(client, { commandTimeoutMs: 5_000 }),
    wait,
    waitMs: 120_000,
  })
  return {
    async acquire(/** @type {string} */ key) {
      const lease = await locks.acquire(key)
      return () => lease.release()
    },
    close: () => locks.close(),
  }
}

/** @type {Peer} */
export const floor = {
  name: 'SET NX PX, then DEL (no waiting, no safety: the floor)',
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

/** @type {Peer[]} */
export const peers = [
  { name: '@stampede/locks', commands: ['evalsha', 'eval'], open: ours('push') },
  { name: '@stampede/locks, wait: poll', commands: ['evalsha', 'eval'], open: ours('poll') },
  {
    name: 'redlock 5.0.0-beta.2',
    commands: ['evalsha', 'eval'],
    open(url) {
      const client = new Redis5(url)
      const redlock = new Redlock([/** @type {any} */ (client)], {
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
          const mutex = new redisSemaphore.Mutex(/** @type {any} */ (client), key, options)
          await mutex.acquire()
          return () => mutex.release()
        },
        close: () => client.disconnect(),
      }
    },
  },
]
