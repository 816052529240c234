// Recognises the client that redisStore got, by the members of the object. A client that Stampede
// cannot use is refused by name.

import { StampedeError } from '@stampede/core'
import { optionError, show } from '@stampede/core/store'
import type {
  IoredisClient,
  NodeRedisClient,
  NodeRedisClusterClient,
  NodeRedisSentinel,
  RedisClient,
} from './connection.ts'

const IOREDIS = 'pass an ioredis or node-redis client: redisStore(new Redis(url))'
const IOREDIS_CLUSTER =
  'pass a Cluster of ioredis or node-redis 5: redisStore(new Cluster([{ host, port }]))'
const SENTINEL =
  'it hides its options, so pass them with createClient: redisStore({ createClient, ...options })'
const IOREDIS_SENTINEL =
  'pass an ioredis client: redisStore(new Redis({ sentinels: [{ host, port }], name }))'

/** Members that only a plain client of node-redis 5 or newer has together. */
const NODE_REDIS = ['duplicate', 'sendCommand', 'withTypeMapping', 'isReady', 'destroy']
const NODE_REDIS_CLUSTER = ['duplicate', 'nodeClient', 'withTypeMapping', 'slots', '_options']

/**
 * Returns `value` if it is a client that Stampede can use. Otherwise throws an error that names it.
 */
export function requireClient(value: unknown): RedisClient {
  const has = hasMembers(value)
  if (has('duplicate') && typeof (value as IoredisClient).isCluster === 'boolean') {
    return value as IoredisClient
  }
  if (has(...NODE_REDIS)) return value as NodeRedisClient
  if (has(...NODE_REDIS_CLUSTER)) return value as NodeRedisClusterClient
  if (has('sentinelRootNodes')) return requireSentinel(value as NodeRedisSentinel)
  const [received, fix] = describe(value, has)
  throw new StampedeError('ERR_STAMPEDE_OPTION', `redisStore: redis: received ${received}; ${fix}`)
}

function requireSentinel(value: NodeRedisSentinel): NodeRedisSentinel {
  const check = (name: keyof NodeRedisSentinel, isValid: boolean, fix: string) => {
    if (!isValid) throw optionError(`redisStore: redis.${name}`, value[name], fix)
  }
  const { sentinelRootNodes: nodes, createClient } = value
  check('createClient', typeof createClient === 'function', 'pass createClient of node-redis 5')
  check('name', typeof value.name === 'string' && value.name !== '', 'pass the name of the master')
  const isAddress = (node: unknown) => hasMembers(node)('host', 'port')
  const areNodes = Array.isArray(nodes) && nodes.length > 0 && nodes.every(isAddress)
  check('sentinelRootNodes', areNodes, 'pass addresses: [{ host, port }]')
  for (const name of ['nodeClientOptions', 'sentinelClientOptions'] as const) {
    const { url } = { ...value[name] } as { url?: unknown }
    if (url === undefined) continue
    const fix = 'pass username, password and socket.tls in place of url, as createSentinel demands'
    throw optionError(`redisStore: redis.${name}.url`, '(hidden)', fix)
  }
  return value
}

/**
 * The `keyPrefix` of a client of ioredis or node-redis 6. Without it, two applications would share
 * keys.
 */
export function keyPrefixOf(client: RedisClient): string {
  const options = 'sentinelRootNodes' in client ? client : optionsOf(client)
  const { keyPrefix } = options as { readonly keyPrefix?: unknown }
  return typeof keyPrefix === 'string' || Buffer.isBuffer(keyPrefix) ? String(keyPrefix) : ''
}

/**
 * The number of the client's database, which a Cluster does not have. Names of channels contain it,
 * because Pub/Sub of Redis has one set of channels for all databases.
 */
export function databaseOf(client: RedisClient): number {
  if ('nodeClient' in client || ('isCluster' in client && client.isCluster)) return 0
  const options = 'sentinelRootNodes' in client ? client.nodeClientOptions : optionsOf(client)
  const { db, database = db } = (options ?? {}) as { readonly db?: unknown; database?: unknown }
  return Number(database ?? 0)
}

function optionsOf(client: RedisClient): object {
  const { options, _options } = client as { readonly options?: object; readonly _options?: object }
  return options ?? _options ?? {}
}

/** Names the value and the fix. The text of a URL is left out: it may have a password. */
function describe(value: unknown, has: Has): [received: string, fix: string] {
  if (typeof value === 'string' || value instanceof URL) return ['a URL', IOREDIS]
  if (has('then')) return ['a Promise', 'await the client before you pass it']
  if (has('customCommand', 'invokeScript')) {
    const fix = has('getSlot') || nameOf(value).includes('Cluster') ? IOREDIS_CLUSTER : IOREDIS
    return [`a valkey-glide client (${nameOf(value)})`, fix]
  }
  if (has('send_command')) return ['a node-redis 3 client', IOREDIS]
  if (has('sendCommand')) return describeNodeRedis(has)
  if (has('duplicate', 'callBuffer'))
    return ['a client older than ioredis 5.4', 'use ioredis 5.4 or newer']
  if (typeof value === 'object' && value !== null && nameOf(value) === 'Object') {
    return ['an object without a client’s methods', 'pass a client: redisStore(new Redis(options))']
  }
  return [show(value), IOREDIS]
}

/** node-redis 5 has `withTypeMapping`, and node-redis 4 has not. */
function describeNodeRedis(has: Has): [received: string, fix: string] {
  const version = has('withTypeMapping') ? 'node-redis 5 or newer' : 'node-redis 4'
  if (has('nodeClient')) return [`a Cluster of ${version}`, IOREDIS_CLUSTER]
  if (has('getSentinelNode')) {
    return [`a Sentinel client of ${version}`, has('withTypeMapping') ? SENTINEL : IOREDIS_SENTINEL]
  }
  if (has('execute', 'totalClients')) return [`a client pool of ${version}`, IOREDIS]
  if (!has('duplicate')) return ['a legacy client of node-redis', 'pass the client itself']
  return [
    `a ${version} client`,
    'use node-redis 5 or newer, or ioredis: redisStore(new Redis(url))',
  ]
}

type Has = (...members: string[]) => boolean

function hasMembers(value: unknown): Has {
  const isObject = typeof value === 'object' && value !== null
  return (...members) => isObject && members.every((member) => member in value)
}

function nameOf(value: unknown): string {
  return (value as object).constructor?.name ?? ''
}
