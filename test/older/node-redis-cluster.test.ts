// The store on a Cluster of node-redis 5: masters that are killed or freeze, all nodes gone, and
// options of the user's client.

import { type AddressInfo, connect } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'
import { createStampede, type Stampede } from '@stampede/core'
import { createLocks, type Locks } from '@stampede/locks'
import { redisStore } from '@stampede/redis'
import { eventually } from '@stampede/testkit'
import { createCluster, type RedisClusterOptions } from 'redis'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { slotOf } from '../../packages/redis/src/connection/cluster.ts'
import { names } from '../../packages/redis/src/protocol/keys.ts'
import { AUTHORITY, SERVER } from '../harness/certificates.ts'
import {
  type ClusterMember,
  type RedisCluster,
  startRedisCluster,
} from '../harness/redis-cluster.ts'

const BUDGET_MS = 1_000
/** Silence after which the nodes elect a replica (2 s), the election, and a retry of ours. */
const FAILED_OVER_MS = 40_000
/** The documented bound: how long a copy may be used after a purge. */
const BOUND_MS = 20_000

/** Index of the master that has the purge log, for every prefix. */
const LOG_MASTER = 2

const codeOf = (error: unknown) => (error as { code?: string }).code ?? String(error)

let cluster: RedisCluster
let prefixes = 0
const opened: Process[] = []

class Process {
  readonly stampede: Stampede
  readonly locks: Locks

  constructor(prefix: string, options: Partial<RedisClusterOptions> = {}) {
    const rootNodes = cluster.nodes.map(({ url }) => ({ url }))
    const store = redisStore(createCluster({ rootNodes, ...options }), {
      prefix,
      commandTimeoutMs: BUDGET_MS,
    })
    this.stampede = createStampede({ store })
    this.locks = createLocks({ store })
    opened.push(this)
  }

  read(key: string, value: string): Promise<string> {
    return this.stampede.getOrSet(key, () => value, { ttlMs: 60_000, tags: ['t'] })
  }

  lock(key: string): Promise<string> {
    return this.locks
      .tryAcquire(key, { leaseMs: 60_000 })
      .then((lease) => (lease === null ? 'held' : 'taken'), codeOf)
  }
}

function newPrefix(): string {
  prefixes += 1
  return `t${prefixes}`
}

/** A lock whose record is on this node. */
function lockOn(node: ClusterMember, prefix: string): string {
  for (let n = 0; ; n++) {
    const slot = slotOf(names(prefix).record(`l:${n}`))
    if (cluster.ownerOf(slot) === node) return `${n}`
  }
}

async function closeAll(): Promise<void> {
  for (const { stampede, locks } of opened.splice(0)) {
    await locks.close()
    await stampede.close()
  }
}

const messageOf = (locks: Locks) =>
  locks.tryAcquire('any', { leaseMs: 1_000 }).then(
    () => 'taken',
    (error: Error) => error.message,
  )

describe('the options of a Cluster of node-redis', () => {
  beforeAll(async () => {
    cluster = await startRedisCluster({ masters: 3 })
  })
  afterEach(closeAll)
  afterAll(() => cluster?.stop())

  it.each<[string, Partial<RedisClusterOptions>]>([
    ['RESP 3 with a cache', { RESP: 3, clientSideCache: { ttl: 0, maxEntries: 10 } }],
    ['reads from replicas', { useReplicas: true, maxCommandRedirections: 0 }],
    ['a type mapping', { commandOptions: { typeMapping: { 36: String } } }],
    [
      'a short queue, no reconnection and a ping interval',
      {
        minimizeConnections: true,
        defaults: {
          commandsQueueMaxLength: 1,
          disableOfflineQueue: true,
          pingInterval: 10,
          socket: { reconnectStrategy: false, socketTimeout: 20 },
        },
      },
    ],
  ])('change nothing: %s', async (_, options) => {
    const prefix = newPrefix()
    const [one, two] = [new Process(prefix, options), new Process(prefix, options)]
    expect(await one.read('k', 'old')).toBe('old')
    const all = await Promise.all(Array.from({ length: 20 }, () => two.read('k', 'other')))
    expect(new Set(all)).toEqual(new Set(['old']))
    await one.stampede.purge({ tag: 't' })
    await eventually(async () => expect(await two.read('k', 'new')).toBe('new'), BOUND_MS)
  })

  it('carry the user, the password and mapped addresses', async () => {
    const acl = ['shop', 'reset', 'on', '>secret', '~*', '&*', '+@all']
    for (const { admin } of cluster.nodes) await admin.call('ACL', 'SETUSER', ...acl)
    const seen: string[] = []
    const { locks } = new Process(newPrefix(), {
      defaults: { username: 'shop', password: 'secret' },
      nodeAddressMap: (address) => {
        seen.push(address)
        const [host = '', port] = address.split(':')
        return { host, port: Number(port) }
      },
    })
    await eventually(async () => expect(await messageOf(locks)).toBe('taken'))
    const addresses = cluster.nodes.map(({ host, port }) => `${host}:${port}`)
    expect(addresses).toEqual(expect.arrayContaining(seen))
    const clients = cluster.nodes.map(async ({ admin }) => String(await admin.client('LIST')))
    expect((await Promise.all(clients)).join()).toMatch(/ user=shop /)
  })

  it('carry TLS with its certificate authority', async () => {
    const proxies = cluster.nodes.map(({ host, port }) =>
      createTlsServer(SERVER, (socket) => {
        const target = connect(port, host)
        for (const each of [socket, target]) each.on('error', () => {})
        socket.pipe(target).pipe(socket)
      }),
    )
    const nodeAddressMap: Record<string, { host: string; port: number }> = {}
    for (const [i, proxy] of proxies.entries()) {
      await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
      const { host, port } = cluster.nodes[i] as ClusterMember
      const mapped = { host: '127.0.0.1', port: (proxy.address() as AddressInfo).port }
      nodeAddressMap[`${host}:${port}`] = mapped
    }
    try {
      const trusting = { socket: { tls: true as const, ca: AUTHORITY } }
      // As in node-redis, the addresses of root nodes are not mapped.
      const rootNodes = Object.values(nodeAddressMap).map((socket) => ({ socket }))
      const outside = { rootNodes, nodeAddressMap }
      const { locks } = new Process(newPrefix(), { ...outside, defaults: trusting })
      await eventually(async () => expect(await messageOf(locks)).toBe('taken'))
      const defaults = { socket: { tls: true as const } }
      const refused = new Process(newPrefix(), { ...outside, defaults })
      await eventually(
        async () => expect(await messageOf(refused.locks)).toMatch(/certificate/),
        5_000,
      )
    } finally {
      for (const proxy of proxies) proxy.close()
    }
  })

  it('are the reason that an error names, if the password is wrong', async () => {
    const { locks } = new Process(newPrefix(), { defaults: { password: 'wrong', username: 'x' } })
    await eventually(
      async () => expect(await messageOf(locks)).toMatch(/lock: not connected: WRONGPASS/),
      5_000,
    )
  })
})

describe('a store on a Cluster of node-redis', () => {
  beforeAll(async () => {
    cluster = await startRedisCluster({ masters: 3, replicated: [LOG_MASTER] })
  })
  afterEach(closeAll)
  afterAll(() => cluster?.stop())

  it('opens one connection to each master in use and one for messages, and closes all', async () => {
    const count = async () => {
      const lists = cluster.nodes.map(async ({ admin }) => String(await admin.client('LIST')))
      return (await Promise.all(lists)).join('').trim().split('\n').length
    }
    const before = await count()
    const process = new Process(newPrefix())
    await process.read('k', 'old')
    for (const node of cluster.nodes) await process.lock(lockOn(node, `t${prefixes}`))
    await eventually(async () => expect(await count()).toBe(before + 4))
    await closeAll()
    await eventually(async () => expect(await count()).toBe(before))
  })

  it('continues when the master with the purge log freezes and its replica takes over', async () => {
    const master = cluster.nodes[LOG_MASTER] as ClusterMember
    const prefix = newPrefix()
    const [one, two] = [new Process(prefix), new Process(prefix)]
    for (const each of [one, two]) await each.read('k', 'old')
    const key = lockOn(master, prefix)
    await eventually(async () => expect(await one.lock(key)).toBe('taken'), BOUND_MS)
    // The replica takes over with the lock only if it has received the lock.
    expect(await master.admin.wait(1, 5_000)).toBe(1)
    await master.pause()
    // Reads go on without Redis.
    expect(await one.read('k2', 'v')).toBe('v')
    await eventually(async () => expect(await two.lock(key)).toBe('held'), FAILED_OVER_MS)
    await eventually(() => one.stampede.purge({ tag: 't' }), FAILED_OVER_MS)
    await eventually(async () => expect(await two.read('k', 'new')).toBe('new'), BOUND_MS)
    // The former master comes back as a replica. It confirms nothing and takes no lock.
    await master.resume()
    await eventually(
      async () => expect(await master.admin.info('replication')).toContain('role:slave'),
      FAILED_OVER_MS,
    )
    await eventually(async () => expect(await two.lock(key)).toBe('held'), BOUND_MS)
    await one.stampede.purge({ tag: 't' })
    await eventually(async () => expect(await two.read('k', 'newer')).toBe('newer'), BOUND_MS)
  })

  it('continues when a master is killed and its replica takes over', async () => {
    // After the test before, the roles are exchanged.
    const master = cluster.replicas[0] as ClusterMember
    const prefix = newPrefix()
    const heir = cluster.nodes[LOG_MASTER] as ClusterMember
    const [one, two] = [new Process(prefix), new Process(prefix)]
    for (const each of [one, two]) await each.read('k', 'old')
    await eventually(
      async () => expect(await heir.admin.info('replication')).toContain('link_status:up'),
      FAILED_OVER_MS,
    )
    await master.kill()
    expect(await one.read('k2', 'v')).toBe('v')
    await eventually(() => one.stampede.purge({ tag: 't' }), FAILED_OVER_MS)
    await eventually(async () => expect(await two.read('k', 'new')).toBe('new'), BOUND_MS)
    const key = lockOn(heir, prefix)
    await eventually(async () => expect(await one.lock(key)).toBe('taken'), BOUND_MS)
    await eventually(async () => expect(await two.lock(key)).toBe('held'), BOUND_MS)
    await master.restart()
  })

  it('serves without Redis while all nodes are gone, and connects again to the same seeds', async () => {
    const prefix = newPrefix()
    const [one, two] = [new Process(prefix), new Process(prefix)]
    for (const each of [one, two]) await each.read('k', 'old')
    const all = [...cluster.nodes, ...cluster.replicas]
    await Promise.all(all.map((node) => node.kill()))
    expect(await one.lock('a')).toBe('ERR_LOCK_UNAVAILABLE')
    expect(await one.read('k2', 'v')).toBe('v')
    await new Promise((resolve) => setTimeout(resolve, 2_000))
    await Promise.all(all.map((node) => node.restart()))
    await eventually(async () => expect(await one.lock('b')).toBe('taken'), FAILED_OVER_MS)
    await eventually(() => one.stampede.purge({ tag: 't' }), FAILED_OVER_MS)
    await one.read('k', 'new')
    await eventually(async () => expect(await two.read('k', 'new')).toBe('new'), BOUND_MS)
  })
})
