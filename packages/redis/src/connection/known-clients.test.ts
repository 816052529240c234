import { StampedeError } from '@stampede/core'
import { Cluster, Redis } from 'ioredis'
import { Redis as Redis5 } from 'ioredis5'
import * as nodeRedis from 'redis'
import { expect, it } from 'vitest'
import { redisStore } from '../stores/redis-store.ts'

/** Members of the clients of node-redis 4. */
const client4 = { v4: {}, duplicate() {}, sendCommand() {}, isOpen: false, isReady: false }
const cluster4 = { duplicate() {}, sendCommand() {}, nodeClient() {}, isOpen: false }

/** The members of the classes of valkey-glide 2, whose native library is not installed here. */
class GlideClient {
  customCommand() {}
  invokeScript() {}
}
class GlideClusterClient extends GlideClient {}

const url = 'redis://user:secret@127.0.0.1:1'
const rootNodes = [{ url }]
const sentinelRootNodes = [{ host: '127.0.0.1', port: 1 }]

it.each<[received: string, client: unknown, fix: string]>([
  ['a URL', url, 'new Redis(url)'],
  ['a URL', new URL(url), 'new Redis(url)'],
  ['a node-redis 4 client', client4, 'use node-redis 5'],
  ['a Cluster of node-redis 5 or newer', nodeRedis.createCluster({ rootNodes }), 'new Cluster('],
  ['a Cluster of node-redis 4', cluster4, 'new Cluster('],
  [
    'a Sentinel client of node-redis 5 or newer',
    nodeRedis.createSentinel({ name: 'shop', sentinelRootNodes }),
    'sentinels: [',
  ],
  ['a client pool of node-redis 5 or newer', nodeRedis.createClientPool({ url }), 'new Redis(url)'],
  ['a node-redis 3 client', { send_command() {}, duplicate() {} }, 'new Redis(url)'],
  ['a valkey-glide client (GlideClient)', new GlideClient(), 'new Redis(url)'],
  ['a valkey-glide client (GlideClusterClient)', new GlideClusterClient(), 'new Cluster('],
  ['a Promise', Promise.resolve(new GlideClient()), 'await the client'],
  ['an object without a client’s methods', { host: '127.0.0.1' }, 'new Redis(options)'],
  ['function Redis', Redis, 'new Redis(url)'],
  ['undefined', undefined, 'new Redis(url)'],
])('redisStore refuses %s, with the fix', (received, client, fix) => {
  const error = thrownBy(() => redisStore(client as Redis))
  expect(error).toBeInstanceOf(StampedeError)
  expect(error).toMatchObject({ code: 'ERR_STAMPEDE_OPTION' })
  expect(error?.message).toContain(`redisStore: redis: received ${received}; `)
  expect(error?.message).toContain(fix)
  expect(error?.message).not.toContain('secret')
})

it.each([
  ['Redis of ioredis 6', () => new Redis({ lazyConnect: true })],
  ['Redis of ioredis 5', () => new Redis5({ lazyConnect: true })],
  ['createClient of node-redis 5', () => nodeRedis.createClient({ url })],
  ['Cluster of ioredis 6', () => new Cluster([{ port: 1 }], { lazyConnect: true })],
])('redisStore accepts %s', (_, open) => {
  expect(redisStore(open()).name).toBe('redis')
})

function thrownBy(call: () => unknown): Error | undefined {
  try {
    call()
  } catch (error) {
    return error as Error
  }
  return undefined
}
