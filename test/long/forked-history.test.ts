// Redis comes back with older data, and a process that knows nothing of the lost purges purges
// first. The processes that saw the lost purges detect the fork. They make all earlier entries
// outdated, for every process, also for new ones.

import { createStampede, type Stampede } from '@stampede/core'
import { redisStore } from '@stampede/redis'
import { Redis } from 'ioredis'
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { startRedis } from '../harness/redis-server.ts'
import { startProxy, type TcpProxy } from '../harness/tcp-proxy.ts'
import { waitUntil } from '../harness/wait-until.ts'

const KEYS = ['by key', 'by tag']
const TTL_MS = 600_000

function connect(url: string): Redis {
  const client = new Redis(url)
  client.on('error', () => {})
  onTestFinished(() => client.disconnect())
  return client
}

function openProcess(url: string): Stampede {
  const client = new Redis(url, { lazyConnect: true })
  const stampede = createStampede({ store: redisStore(client) })
  onTestFinished(() => stampede.close())
  return stampede
}

const read = (stampede: Stampede, key: string, value: string) =>
  stampede.getOrSet(key, () => value, { ttlMs: TTL_MS, tags: [`tag of ${key}`] })

interface Fleet {
  readonly proxy: TcpProxy
  readonly one: Stampede
  readonly two: Stampede
}

/**
 * Two processes behind a proxy that have read a value, and a value that `save` writes to disk. Then
 * a purge of both.
 */
async function purgeAfter(port: number, save: () => Promise<unknown>): Promise<Fleet> {
  const proxy = await startProxy(port)
  onTestFinished(() => proxy.stop())
  const [one, two] = [openProcess(proxy.url), openProcess(proxy.url)]
  for (const key of KEYS) {
    for (const each of [one, two]) expect(await read(each, key, 'old')).toBe('old')
  }
  await waitUntil('what was made is stored', () => one.stats().fills.committed === KEYS.length)
  await save()
  await one.purge({ key: 'by key' })
  await one.purge({ tag: 'tag of by tag' })
  await expect.poll(() => read(two, 'by tag', 'new')).toBe('new')
  await proxy.refuse()
  proxy.drop()
  return { proxy, one, two }
}

/**
 * A new process purges, followed by many purges if the log is to be trimmed. Then the first two
 * processes reconnect.
 */
async function comesBack({ proxy, one, two }: Fleet, url: string, isCut: boolean): Promise<void> {
  const newcomer = openProcess(url)
  await newcomer.purge({ tag: 'another' })
  if (isCut) {
    await newcomer.purge({ tag: 'the last' })
    await connect(url).xtrim('stampede:4:{purges}:log', 'MAXLEN', 1)
  }
  await proxy.accept()
  for (const key of KEYS) {
    for (const each of [one, two]) {
      const back = () => read(each, key, 'new')
      await expect.poll(back).toBe('new')
    }
  }
  for (const each of [newcomer, openProcess(url)]) {
    for (const key of KEYS) {
      await expect.poll(() => read(each, key, 'new')).toBe('new')
    }
  }
  // The purged entry does not come back.
  for (const key of KEYS) {
    for (const each of [one, two]) expect(await read(each, key, 'newer')).not.toBe('old')
  }
}

describe.each([
  ['purges first', false],
  ['purges until the log is trimmed', true],
])('lost purges, when a new process %s', (_, isCut) => {
  let url = ''
  let port = 0
  let restart: () => Promise<void>
  let kill: () => Promise<void>
  beforeEach(async () => {
    const server = await startRedis()
    onTestFinished(() => server.stop())
    ;({ url, port, restart, kill } = server)
  })

  it('still apply in processes that received them, after a restart with older data from disk', async () => {
    const admin = connect(url)
    const fleet = await purgeAfter(port, () => admin.save())
    await restart()
    await comesBack(fleet, url, isCut)
  })

  it('still apply in processes that received them, after a fail-over to a lagging replica', async () => {
    const replica = await startRedis()
    onTestFinished(() => replica.stop())
    const follower = connect(replica.url)
    await follower.replicaof('127.0.0.1', port)
    const inSync = async () =>
      (await follower.info('replication')).includes('master_link_status:up')
    await waitUntil('the replica follows', inSync)
    const fleet = await purgeAfter(port, async () => {
      const offset = Number(/master_repl_offset:(\d+)/.exec(await connect(url).info())?.[1])
      const reached = async () => {
        const [, at] = /slave_repl_offset:(\d+)/.exec(await follower.info('replication')) ?? []
        return Number(at) >= offset
      }
      await waitUntil('the replica has everything', reached)
      await follower.replicaof('127.0.0.1', 1)
    })
    await kill()
    await follower.replicaof('NO', 'ONE')
    fleet.proxy.moveTo(replica.port)
    await comesBack(fleet, replica.url, isCut)
  })
})

it('a purge that a process received after a missed purge still applies when the server lost both', async () => {
  const server = await startRedis({ args: ['--user', 'one', 'on', 'nopass', '~*', '&*', '+@all'] })
  onTestFinished(() => server.stop())
  const admin = connect(server.url)
  const proxy = await startProxy(server.port)
  onTestFinished(() => proxy.stop())
  const one = openProcess(`redis://one:any@127.0.0.1:${proxy.port}`)
  const purger = openProcess(server.url)
  expect(await read(one, 'by key', 'old')).toBe('old')
  await waitUntil('what was made is stored', () => one.stats().fills.committed === 1)
  await admin.save()
  await proxy.refuse()
  proxy.drop()
  await purger.purge({ tag: 'missed' })
  // It receives messages again, and cannot read the missed ones.
  await admin.acl('SETUSER', 'one', '-eval', '-evalsha')
  await proxy.accept()
  const listens = async () => (await admin.call('CLIENT', 'LIST', 'TYPE', 'pubsub')) as string
  await waitUntil('it listens', async () => (await listens()).includes('user=one'))
  let heard = 0
  one.on('entry.purged', () => (heard += 1))
  await expect
    .poll(async () => {
      await purger.purge({ key: 'by key' })
      return heard
    })
    .toBeGreaterThan(0)
  await purger.close()
  await server.restart()
  const newcomer = openProcess(server.url)
  for (const each of [one, newcomer]) {
    const back = () => read(each, 'by key', 'new')
    await expect.poll(back).toBe('new')
  }
})
