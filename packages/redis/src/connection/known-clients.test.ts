import { StampedeError } from '@stampede/core'
import { Cluster, Redis } from 'ioredis'
import { Redis as Redis5 } from 'ioredis5'
import * as nodeRedis from 'redis'
import { expect, it } from 'vitest'
import { redisStore } from '../stores/redis-store.ts'
import { keyPrefixOf, requireClient } from './known-clients.ts'

/** Members of the clients of node-redis 4. */
const client4 = { v4: {}, duplicate() {}, sendCommand() {}, isOpen: false, isReady: false }
const cluster4 = { duplicate() {}, sendCommand() {}, nodeClient() {}, isOpen: false }

/** Members of the clients of node-redis 5 and 6. */
const client5 = { ...client4, withTypeMapping() {}, destroy() {} }
const cluster5 = { ...cluster4, withTypeMapping() {}, slots: [] }

/** The members of the classes of valkey-glide 2, whose native library is not installed here. */
class GlideClient {
  customCommand() {}
  invokeScript() {}
}
class GlideClusterClient extends GlideClient {}

const url = 'redis://user:secret@127.0.0.1:1'
const rootNodes = [{ url: 'redis://127.0.0.1:1' }]
const { createClient } = nodeRedis
const sentinelRootNodes = [{ host: '127.0.0.1', port: 1 }]

it.each<[received: string, client: unknown, fix: string]>([
  ['a URL', url, 'new Redis(url)'],
  ['a URL', new URL(url), 'new Redis(url)'],
  ['a node-redis 4 client', client4, 'use node-redis 5'],
  ['a Cluster of node-redis 4', cluster4, 'new Cluster('],
  [
    'a Sentinel client of node-redis 5 or newer',
    nodeRedis.createSentinel({ name: 'shop', sentinelRootNodes }),
    'redisStore({ name, sentinelRootNodes })',
  ],
  ['a client pool of node-redis 5 or newer', nodeRedis.createClientPool({ url }), 'new Redis(url)'],
  ['a legacy client of node-redis', nodeRedis.createClient({ url }).legacy(), 'the client itself'],
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
  ['createCluster of node-redis 5', () => nodeRedis.createCluster({ rootNodes })],
  ['Sentinels of node-redis 5', () => ({ name: 'shop', sentinelRootNodes })],
  ['Sentinels with createClient', () => ({ createClient, name: 'shop', sentinelRootNodes })],
  ['Cluster of ioredis 6', () => new Cluster([{ port: 1 }], { lazyConnect: true })],
])('redisStore accepts %s', (_, open) => {
  expect(redisStore(open()).name).toBe('redis')
})

it.each<[option: string, given: object, fix: string]>([
  ['name', { name: '' }, 'pass the name of the master'],
  ['sentinelRootNodes', { sentinelRootNodes: [] }, 'pass addresses: [{ host, port }]'],
  ['sentinelRootNodes', { sentinelRootNodes: [{ host: 'a' }] }, 'pass addresses'],
])('redisStore refuses an invalid %s of Sentinels', (option, given, fix) => {
  const error = thrownBy(() => redisStore({ name: 'shop', sentinelRootNodes, ...given }))
  expect(error).toMatchObject({ code: 'ERR_STAMPEDE_OPTION' })
  expect(error?.message).toContain(`redisStore: redis.${option}: received `)
  expect(error?.message).toContain(fix)
})

it.each([
  ['a text', 'shop:'],
  ['a Buffer', Buffer.from('shop:')],
])('keyPrefixOf() reads the keyPrefix of each kind of client, as %s', (_, keyPrefix) => {
  const prefixed = [
    { ...client5, options: { keyPrefix } },
    { ...cluster5, _options: { rootNodes, keyPrefix } },
    { name: 'shop', sentinelRootNodes, keyPrefix },
    { duplicate() {}, isCluster: false, options: { keyPrefix } },
  ]
  const read = prefixed.map((client) => keyPrefixOf(requireClient(client)))
  expect(read).toEqual(Array(4).fill('shop:'))
})

function thrownBy(call: () => unknown): Error | undefined {
  try {
    call()
  } catch (error) {
    return error as Error
  }
  return undefined
}
