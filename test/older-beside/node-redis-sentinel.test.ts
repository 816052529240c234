// The store on Sentinels with node-redis 5: Sentinels that freeze or are gone, a frozen master, and
// options. Fail-overs are in sentinel.test.ts.

import { createLocks, type Locks } from '@stampede/locks'
import { redisStore } from '@stampede/redis'
import { eventually } from '@stampede/testkit'
import { createClient } from 'redis'
import { afterEach, describe, expect, it } from 'vitest'
import { type SentinelBench, startSentinels } from '../harness/redis-sentinel.ts'
import type { RedisServer } from '../harness/redis-server.ts'
import { askRedis } from '../harness/redis-wire.ts'

/** The Sentinels notice a silent master (0.5 s), elect a replica, and the process connects. */
const BACK_WITHIN_MS = 40_000

const opened: Locks[] = []

function open({ name, sentinels }: SentinelBench, options: object = {}): Locks {
  const redis = { name, sentinelRootNodes: sentinels, ...options }
  const locks = createLocks({ store: redisStore(redis, { commandTimeoutMs: 1_000 }) })
  opened.push(locks)
  return locks
}

let keys = 0
const lock = (locks: Locks) => {
  keys += 1
  return locks.tryAcquire(`${keys}`, { leaseMs: 1_000 }).then(
    (lease) => (lease === null ? 'held' : 'taken'),
    (error: Error) => error.message,
  )
}

const becomes = (locks: Locks, wanted: RegExp | string) =>
  eventually(async () => expect(await lock(locks)).toMatch(wanted), BACK_WITHIN_MS)

/** Number of connections, without those of Sentinels and replicas, which come and go. */
async function connectionsOf({ host, port }: { host: string; port: number }): Promise<number> {
  const clients = (await askRedis({ host, port }, 'CLIENT LIST')).trim().split('\n')
  return clients.filter((client) => !/ name=sentinel-| flags=S/.test(client)).length
}

/** Number of connections that the first Sentinel has ever accepted. */
async function acceptedBy({ sentinels: [first] }: SentinelBench): Promise<number> {
  const info = await askRedis(first as { host: string; port: number }, 'INFO stats')
  return Number(/total_connections_received:(\d+)/.exec(info)?.[1])
}

async function onServer({ url }: RedisServer, user: object, ...command: [string, ...string[]]) {
  const client = await createClient({ url, ...user }).connect()
  return client.sendCommand(command).finally(() => client.destroy())
}

afterEach(async () => {
  for (const locks of opened.splice(0)) await locks.close()
})

describe('a store on Sentinels with node-redis', () => {
  it('opens two connections to the master and to each Sentinel, and closes all', async () => {
    await using bench = await startSentinels({ downAfterMs: 30_000 })
    const servers = [bench.master, ...bench.sentinels]
    const before = await Promise.all(servers.map(connectionsOf))
    await becomes(open(bench), 'taken')
    const counts = () => Promise.all(servers.map(connectionsOf))
    const wanted = before.map((count) => count + 2)
    await eventually(async () => expect(await counts()).toEqual(wanted))
    for (const locks of opened.splice(0)) await locks.close()
    await eventually(async () => expect(await counts()).toEqual(before))
  })

  it('follows a fail-over while the former master is frozen', async () => {
    await using bench = await startSentinels()
    const locks = open(bench)
    await becomes(locks, 'taken')
    await bench.inSync()
    await bench.takeOver(bench.replica, () => bench.master.pause())
    await becomes(locks, 'taken')
    await bench.master.resume()
    await becomes(locks, 'taken')
    expect(await askRedis(bench.replica, `EXISTS stampede:4:{=l:${keys}}`)).toBe('1')
  })

  it('stays away from a former master that refuses the Sentinels and still takes writes', async () => {
    await using bench = await startSentinels()
    const { master, replica } = bench
    const user = { username: 'shop', password: 'secret' }
    for (const server of [master, replica]) {
      await askRedis(server, 'ACL SETUSER shop on >secret ~* &* +@all')
    }
    const locks = open(bench, { nodeClientOptions: user })
    await becomes(locks, 'taken')
    await bench.inSync()
    // The Sentinels count the master as down, and cannot make it a replica.
    await bench.takeOver(replica, async () => {
      await askRedis(master, 'ACL SETUSER default off')
      await onServer(master, user, 'CLIENT', 'KILL', 'USER', 'default')
    })
    const isOnReplica = async (each: Locks) => {
      await becomes(each, 'taken')
      const key = `stampede:4:{=l:${keys}}`
      expect(await onServer(replica, user, 'EXISTS', key)).toBe(1)
      expect(await onServer(master, user, 'EXISTS', key)).toBe(0)
    }
    await isOnReplica(locks)
    await isOnReplica(open(bench, { nodeClientOptions: user }))
    // The next connection asks the Sentinels for the master once more.
    await onServer(replica, user, 'CLIENT', 'KILL', 'USER', 'shop')
    await isOnReplica(locks)
    expect(await onServer(master, user, 'ROLE')).toContain('master')
  })

  it('finds the master while one Sentinel is frozen', async () => {
    await using bench = await startSentinels({ downAfterMs: 30_000 })
    await bench.pauseSentinel(0)
    await becomes(open(bench), 'taken')
    await bench.resumeSentinel(0)
  })

  it('keeps its connection while all Sentinels are frozen, and follows a later fail-over', async () => {
    await using bench = await startSentinels()
    const locks = open(bench)
    await becomes(locks, 'taken')
    await bench.inSync()
    for (const i of [0, 1, 2]) await bench.pauseSentinel(i)
    expect(await lock(locks)).toBe('taken')
    for (const i of [0, 1, 2]) await bench.resumeSentinel(i)
    await bench.failOver()
    await becomes(locks, 'taken')
  })

  it('names the reason if the Sentinels know no such master, or refuse the password', async () => {
    await using bench = await startSentinels({ downAfterMs: 30_000 })
    await becomes(open(bench, { name: 'unknown' }), /Sentinel 127.0.0.1:\d+: ERR No such master/)
    const sentinelClientOptions = { username: 'nobody', password: 'wrong' }
    await becomes(open(bench, { sentinelClientOptions }), /Sentinel 127.0.0.1:\d+: WRONGPASS/)
    const nodeClientOptions = { username: 'nobody', password: 'wrong' }
    await becomes(open(bench, { nodeClientOptions }), /not connected: WRONGPASS/)
  })

  it('opens no connections in a loop to a Sentinel that refuses the subscription', async () => {
    await using bench = await startSentinels({ downAfterMs: 30_000 })
    for (const each of bench.sentinels) {
      await askRedis(each, 'ACL SETUSER asker on >secret +@all -@pubsub')
    }
    const sentinelClientOptions = { username: 'asker', password: 'secret' }
    await becomes(open(bench, { sentinelClientOptions }), 'taken')
    await new Promise((resolve) => setTimeout(resolve, 500))
    const before = await acceptedBy(bench)
    await new Promise((resolve) => setTimeout(resolve, 1_500))
    expect((await acceptedBy(bench)) - before).toBeLessThan(5)
  })

  it('carries the user, the password, the database and mapped addresses', async () => {
    await using bench = await startSentinels({ downAfterMs: 30_000 })
    await askRedis(bench.master, 'ACL SETUSER shop reset on >secret ~* &* +@all')
    const seen = new Set<string>()
    const locks = open(bench, {
      nodeClientOptions: { username: 'shop', password: 'secret', database: 3, RESP: 3 },
      nodeAddressMap: (address: string) => {
        seen.add(address)
        return undefined
      },
      scanInterval: 10,
      masterPoolSize: 5,
      commandOptions: { typeMapping: { 36: Buffer } },
    })
    await becomes(locks, 'taken')
    // ioredis also maps the addresses of the other Sentinels.
    expect([...seen]).toContain(`${bench.master.host}:${bench.master.port}`)
    expect(await askRedis(bench.master, 'CLIENT LIST')).toMatch(/ db=3 .*user=shop /)
  })
})
