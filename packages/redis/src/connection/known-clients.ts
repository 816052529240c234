// Recognises the client that redisStore got, by the members of the object. Each one becomes a
// client of ioredis. A client that Stampede cannot use is refused by name.

import { StampedeError } from '@stampede/core'
import { optionError, show } from '@stampede/core/store'
import {
  type ClientOptions,
  type ClusterOptions,
  fromClient,
  fromCluster,
  fromSentinel,
} from '../node-redis/options.ts'
import type { IoredisClient, NodeRedisSentinel } from './client-types.ts'

const IOREDIS = 'pass an ioredis or node-redis client: redisStore(new Redis(url))'
const IOREDIS_CLUSTER =
  'pass a Cluster of ioredis or node-redis 5: redisStore(new Cluster([{ host, port }]))'
const SENTINEL =
  'it hides its options, so pass those of createSentinel: redisStore({ name, sentinelRootNodes })'
const IOREDIS_SENTINEL =
  'pass an ioredis client: redisStore(new Redis({ sentinels: [{ host, port }], name }))'

/** Members that only a plain client of node-redis 5 or newer has together. */
const NODE_REDIS = ['duplicate', 'sendCommand', 'withTypeMapping', 'isReady', 'destroy']
const NODE_REDIS_CLUSTER = ['duplicate', 'nodeClient', 'withTypeMapping', 'slots', '_options']

interface NodeRedisOptions {
  readonly options: ClientOptions
  readonly _options: ClusterOptions
}

/** Throws an error that names `value` if Stampede cannot use it. */
export function requireClient(value: unknown): IoredisClient {
  const has = hasMembers(value)
  if (has('duplicate') && typeof (value as IoredisClient).isCluster === 'boolean') {
    return value as IoredisClient
  }
  // A cluster client has no public member with its options.
  const { options, _options } = (value ?? {}) as Partial<NodeRedisOptions>
  if (has(...NODE_REDIS)) return fromClient(options)
  if (has(...NODE_REDIS_CLUSTER) && _options !== undefined) return fromCluster(_options)
  if (has('sentinelRootNodes')) return fromSentinel(requireSentinel(value as NodeRedisSentinel))
  const [received, fix] = describe(value, has)
  throw new StampedeError('ERR_STAMPEDE_OPTION', `redisStore: redis: received ${received}; ${fix}`)
}

function requireSentinel(value: NodeRedisSentinel): NodeRedisSentinel {
  const check = (name: keyof NodeRedisSentinel, isValid: boolean, fix: string) => {
    if (!isValid) throw optionError(`redisStore: redis.${name}`, value[name], fix)
  }
  const { sentinelRootNodes: nodes } = value
  check('name', typeof value.name === 'string' && value.name !== '', 'pass the name of the master')
  const isAddress = (node: unknown) => hasMembers(node)('host', 'port')
  const areNodes = Array.isArray(nodes) && nodes.length > 0 && nodes.every(isAddress)
  check('sentinelRootNodes', areNodes, 'pass addresses: [{ host, port }]')
  return value
}

/** The `keyPrefix` of a client. Without it, two applications would share keys. */
export function keyPrefixOf({ options }: IoredisClient): string {
  const { keyPrefix } = (options ?? {}) as { readonly keyPrefix?: unknown }
  return typeof keyPrefix === 'string' || Buffer.isBuffer(keyPrefix) ? String(keyPrefix) : ''
}

/**
 * The number of the client's database, which a Cluster does not have. Names of channels contain it,
 * because Pub/Sub of Redis has one set of channels for all databases.
 */
export function databaseOf({ isCluster, options }: IoredisClient): number {
  const { db } = (options ?? {}) as { readonly db?: unknown }
  return isCluster ? 0 : Number(db ?? 0)
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
