// Sentinels that disagree: one cannot talk to the other two, and still names the former master,
// which still takes writes.

import { createLocks, type Locks } from '@stampede/locks'
import { redisStore } from '@stampede/redis'
import { eventually } from '@stampede/testkit'
import { Redis } from 'ioredis'
import { Redis as Redis5 } from 'ioredis5'
import { createClient } from 'redis'
import { describe, expect, it } from 'vitest'
import { type SentinelBench, startSentinels } from '../harness/redis-sentinel.ts'
import type { RedisServer } from '../harness/redis-server.ts'
import { askRedis } from '../harness/redis-wire.ts'

const USER = { username: 'shop', password: 'secret' }
/** Time after the Sentinels have named a new master. */
const BACK_WITHIN_MS = 20_000

const CLIENTS = ['ioredis 5', 'ioredis 6', 'node-redis 5'] as const
type Client = (typeof CLIENTS)[number]
type Address = SentinelBench['sentinels'][number]

function open(
  { name }: SentinelBench,
  client: Client,
  sentinels: readonly Address[],
  asker?: typeof USER,
): Locks {
  // On a busy machine, a Sentinel may reply late.
  const options = { commandTimeoutMs: 1_000 }
  const as = asker && { sentinelUsername: asker.username, sentinelPassword: asker.password }
  const ioredis = { sentinels: [...sentinels], name, ...USER, ...as, lazyConnect: true }
  const others = { nodeClientOptions: USER, ...(asker && { sentinelClientOptions: asker }) }
  const store =
    client === 'node-redis 5'
      ? redisStore({ name, sentinelRootNodes: sentinels, ...others }, options)
      : redisStore(client === 'ioredis 5' ? new Redis5(ioredis) : new Redis(ioredis), options)
  return createLocks({ store })
}

async function onServer(server: Address, user: object, ...command: [string, ...string[]]) {
  const client = await createClient({ socket: server, ...user }).connect()
  return client.sendCommand(command).finally(() => client.destroy())
}

let keys = 0

/** The server that got the next lock of this process. */
async function placeOf(locks: Locks, { master, replica }: SentinelBench): Promise<string> {
  keys += 1
  const key = `${keys}`
  await locks.tryAcquire(key, { leaseMs: 10_000 }).catch(() => {})
  const has = (server: RedisServer) => onServer(server, USER, 'EXISTS', `stampede:4:{=l:${key}}`)
  if (await has(master)) return 'the former master'
  return (await has(replica)) ? 'the master' : 'none'
}

async function findsMaster(bench: SentinelBench, client: Client, sentinels: readonly Address[]) {
  const locks = open(bench, client, sentinels)
  const seen: string[] = []
  const find = async () => {
    seen.push(await placeOf(locks, bench))
    expect(seen.at(-1)).toBe('the master')
  }
  await eventually(find, BACK_WITHIN_MS).finally(() => locks.close())
  expect(seen).not.toContain('the former master')
}

const addUser = (server: RedisServer) => askRedis(server, 'ACL SETUSER shop on >secret ~* &* +@all')

/**
 * The first Sentinel alone may use the master, and hears nothing from the others. These make the
 * replica the master.
 */
async function disagree({ master, replica, sentinels, name }: SentinelBench): Promise<void> {
  const [cutOff, ...others] = sentinels as [Address, ...Address[]]
  for (const server of [master, replica]) await addUser(server)
  await askRedis(master, 'ACL SETUSER keeper on >secret ~* &* +@all')
  await askRedis(replica, 'ACL SETUSER keeper on >secret +auth')
  await askRedis(cutOff, `SENTINEL SET ${name} auth-user keeper auth-pass secret`)
  await askRedis(cutOff, 'ACL SETUSER default -publish')
  await askRedis(master, 'ACL SETUSER default off')
  for (const server of [replica, master]) {
    await onServer(server, USER, 'CLIENT', 'KILL', 'USER', 'default')
  }
  const masterBy = async (sentinel: Address) => {
    const reply = await onServer(sentinel, {}, 'SENTINEL', 'GET-MASTER-ADDR-BY-NAME', name)
    return Number((reply as unknown as string[])[1])
  }
  for (const each of others) {
    await eventually(async () => expect(await masterBy(each)).toBe(replica.port), 20_000)
  }
  expect(await masterBy(cutOff)).toBe(master.port)
}

describe.each(CLIENTS)('Sentinels that disagree, with %s', (client) => {
  it.concurrent('the process takes the master of the newer configuration', async () => {
    await using bench = await startSentinels()
    const [cutOff, second, third] = bench.sentinels as [Address, Address, Address]
    await bench.inSync()
    await disagree(bench)
    for (const order of [
      [cutOff, second, third],
      [second, cutOff, third],
    ]) {
      await findsMaster(bench, client, order)
    }
    await bench.pauseSentinel(2)
    for (const order of [
      [cutOff, second],
      [third, cutOff, second],
      [second, cutOff, third],
    ]) {
      await findsMaster(bench, client, order)
    }
    await bench.resumeSentinel(2)
  }, 180_000)
  // Both versions of ioredis hear of a fail-over, and ask again, by the same code of ours
  // (packages/redis/src/connection/sentinels.ts).
  if (client === 'ioredis 5') return

  it.concurrent.each([
    // Without a report, the process asks again after ten seconds.
    ['is reported', true, 8_000],
    ['cannot be reported', false, 40_000],
  ])(
    'the process leaves the former master if the fail-over %s',
    async (_, isReported, withinMs) => {
      await using bench = await startSentinels()
      await bench.inSync()
      const asker = { username: 'asker', password: 'secret' }
      for (const sentinel of bench.sentinels) {
        await askRedis(sentinel, 'ACL SETUSER asker on >secret +@all -@pubsub')
      }
      for (const server of [bench.master, bench.replica]) await addUser(server)
      const locks = open(bench, client, bench.sentinels, isReported ? undefined : asker)
      await eventually(async () => expect(await placeOf(locks, bench)).toBe('the former master'))
      await disagree(bench)
      const isThere = async () => expect(await placeOf(locks, bench)).toBe('the master')
      await eventually(isThere, withinMs)
      await new Promise((resolve) => setTimeout(resolve, 1_000))
      await isThere()
      await locks.close()
    },
    180_000,
  )
})
