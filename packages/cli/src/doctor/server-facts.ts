// Checks of what a server says about itself in INFO: version, role, eviction, persistence.

import { bytes } from '../format.ts'
import { type Finding, fail, ok, warn } from './finding.ts'

/** The oldest Redis with all commands that the scripts use. Every Valkey has them. */
const OLDEST: readonly [major: number, minor: number] = [6, 2]
/** Share of maxmemory from which a server that evicts nothing may soon refuse writes. */
const NEARLY_FULL = 0.9

export type Info = (field: string) => string | undefined

export function readInfo(text: string): Info {
  const fields = new Map<string, string>()
  for (const line of text.split(/\r?\n/)) {
    const [, name, value] = /^(\w+):(.*)$/.exec(line) ?? []
    if (name !== undefined && value !== undefined) fields.set(name, value)
  }
  return (field) => fields.get(field)
}

export function serverFindings(info: Info): Finding[] {
  return [
    version(info),
    mode(info),
    role(info),
    ...replication(info),
    eviction(info),
    ...memory(info),
    persistence(info),
  ]
}

function version(info: Info): Finding {
  const valkey = info('valkey_version')
  if (valkey !== undefined) return ok('server', `Valkey ${valkey}`)
  const text = info('redis_version') ?? 'of unknown version'
  const [major = 0, minor = 0] = text.split('.').map(Number)
  const isOld = major < OLDEST[0] || (major === OLDEST[0] && minor < OLDEST[1])
  if (!isOld) return ok('server', `Redis ${text}`)
  return fail('server', `Redis ${text} is too old`, 'upgrade to Redis 6.2 or newer, or to Valkey')
}

function mode(info: Info): Finding {
  const name = info('redis_mode') ?? 'standalone'
  if (name === 'sentinel') {
    const fix = 'add --sentinel NAME; in the app: new Redis({ sentinels: […], name })'
    return fail('mode', 'this is a Sentinel, not a Redis server', fix)
  }
  const isCluster = name === 'cluster' || info('cluster_enabled') === '1'
  return ok('mode', isCluster ? 'Cluster; the app must use new Cluster([…])' : 'a single server')
}

function role(info: Info): Finding {
  if (info('role') !== 'slave') return ok('role', 'master, accepts writes')
  const master = `${info('master_host')}:${info('master_port')}`
  return fail(
    'role',
    'this is a replica, which refuses writes',
    `use the master ${master}, or Sentinel`,
  )
}

function replication(info: Info): Finding[] {
  const replicas = Number(info('connected_slaves') ?? 0)
  if (replicas === 0) return []
  // Redis only reports this field if min-replicas-to-write is set.
  if (info('min_slaves_good_slaves') !== undefined) {
    return [ok('replication', `${replicas} replicas, and min-replicas-to-write is set`)]
  }
  const message = `${replicas} replicas, but a master that is cut off from them accepts writes and loses them later`
  return [warn('replication', message, 'set min-replicas-to-write 1 and min-replicas-max-lag 10')]
}

function eviction(info: Info): Finding {
  const policy = info('maxmemory_policy') ?? 'noeviction'
  const limit = Number(info('maxmemory') ?? 0)
  if (limit === 0) return ok('eviction', 'no maxmemory, so nothing is evicted')
  if (policy === 'noeviction') return ok('eviction', `noeviction, at most ${bytes(limit)}`)
  return warn(
    'eviction',
    `maxmemory-policy is ${policy}: a request whose idempotency key is evicted can run twice, and a lock can have two holders`,
    'set maxmemory-policy noeviction, or keep idempotency keys and locks on another server',
  )
}

function memory(info: Info): Finding[] {
  const [used, limit] = [Number(info('used_memory') ?? 0), Number(info('maxmemory') ?? 0)]
  const isFull = limit > 0 && used > limit * NEARLY_FULL
  if (!isFull || info('maxmemory_policy') !== 'noeviction') return []
  const message = `${bytes(used)} of ${bytes(limit)} are used, and a full server refuses writes`
  return [warn('memory', message, 'raise maxmemory, or shorten the TTLs')]
}

function persistence(info: Info): Finding {
  if (info('aof_enabled') === '1') {
    return ok('persistence', 'appendonly is on, so idempotency keys survive a restart')
  }
  return warn(
    'persistence',
    'appendonly is off: after a crash, requests of lost idempotency keys can run twice',
    'set appendonly yes if you use idempotency keys; the cache alone does not need it',
  )
}
