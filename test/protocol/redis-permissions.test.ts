// Checks the permissions in docs/guide/redis-topologies.md against the code and a server: a user
// with these permissions and no others can do everything.

import { createStampede, type Stampede } from '@stampede/core'
import { createLocks } from '@stampede/locks'
import { redisStore } from '@stampede/redis'
import { Redis } from 'ioredis'
import { Redis as Redis5 } from 'ioredis5'
import { beforeAll, beforeEach, describe, expect, it } from 'vitest'
import {
  addUser,
  commandsInUse,
  DOCUMENTED,
  LOGIN,
  refusedBy,
} from '../harness/documented-permissions.ts'
import { createGate } from '../harness/origin.ts'
import { startRedisCluster } from '../harness/redis-cluster.ts'
import { redisOfFile } from '../harness/redis-of-file.ts'

const { server, admin } = await redisOfFile()

describe('the permissions in docs/guide/redis-topologies.md', () => {
  it('are exactly the commands of the scripts, our sources and ioredis', async () => {
    const listed = (await admin.call('COMMAND')) as unknown[][]
    const known = new Set(listed.map(([name]) => String(name).toUpperCase()))
    const used = commandsInUse(known)
    // The scan finds known commands of each kind.
    expect(used).toEqual(
      expect.arrayContaining(['EVALSHA', 'SUBSCRIBE', 'PING', 'HMGET', 'ZRANGEBYSCORE']),
    )
    expect([...DOCUMENTED].sort()).toEqual([...new Set(used)].sort())
  })
})

describe.each([
  ['6', Redis],
  ['5', Redis5 as unknown as typeof Redis],
])('a user with only the documented permissions (ioredis %s)', (_, Client) => {
  const closing: Array<() => Promise<void>> = []

  beforeAll(() => addUser(admin))
  beforeEach(async () => {
    await admin.flushall()
    await admin.call('ACL', 'LOG', 'RESET')
    return async () => {
      for (const close of closing.splice(0)) await close()
      expect(await refusedBy(admin)).toEqual([])
    }
  })

  function openStore() {
    const client = new Client(server.url, { ...LOGIN, lazyConnect: true })
    return redisStore(client, { commandTimeoutMs: 2_000 })
  }

  function open() {
    const stampede = createStampede({ store: openStore() })
    const failures: unknown[] = []
    stampede.on('store.failed', ({ operation, error }) => failures.push([operation, error]))
    closing.push(async () => {
      await stampede.close()
      expect(failures).toEqual([])
    })
    return stampede
  }

  it.each([{ key: 'rates' }, { tag: 'money' }, { all: true }] as const)(
    'can fill, share and purge, hard and soft: %o',
    async (target) => {
      const [one, two] = [open(), open()]
      let runs = 0
      const get = (stampede: Stampede) =>
        stampede.getOrSet('rates', () => ++runs, { ttlMs: 60_000, tags: ['money'] })
      expect(await get(one)).toBe(1)
      expect(await get(two)).toBe(1)
      await one.purge(target)
      expect(await get(one)).toBe(2)
      await expect.poll(() => get(two)).toBe(2)
      await two.purge(target, { soft: true })
      expect(await get(two)).toBe(3)
      await expect.poll(() => get(one)).toBe(3)
    },
  )

  it('is woken when another process has filled, and can commit an unchanged entry again', async () => {
    const [one, two] = [open(), open()]
    const options = { ttlMs: 60_000, keepMs: 60_000, leaseMs: 25_000 }
    const [begun, made, waits] = [createGate(), createGate(), createGate()]
    const fill = async () => {
      begun.open()
      await made.opened
      return 'made'
    }
    const leading = one.getOrSet('k', fill, options)
    await begun.opened
    const ended: string[] = []
    two.on('wait.started', () => waits.open())
    two.on('wait.ended', ({ by }) => ended.push(by))
    const waiting = two.getOrSet('k', () => 'ran twice', options)
    await waits.opened
    made.open()
    expect(await Promise.all([leading, waiting])).toEqual(['made', 'made'])
    expect(ended).toEqual(['wake-up'])
    await two.purge({ key: 'k' }, { soft: true })
    let unchanged = 0
    const asked = two.getOrSet<string>(
      'k',
      ({ previous, notModified }) => {
        unchanged += previous === undefined ? 0 : 1
        return notModified()
      },
      options,
    )
    expect([await asked, unchanged]).toEqual(['made', 1])
  })

  it('can wait for a lock, and gets it by hand-over', async () => {
    const open = () => createLocks({ store: openStore(), leaseMs: 20_000 })
    const [one, two] = [open(), open()]
    closing.push(
      () => one.close(),
      () => two.close(),
    )
    const first = await one.acquire('door')
    const second = two.acquire('door', { waitMs: 15_000 })
    const queued = () => admin.hget('stampede:4:{=l:door}', 'tail')
    await expect.poll(queued).toBe('1')
    expect(await first.release()).toBe('released')
    const lease = await second
    expect(lease.fence).toBeGreaterThan(first.fence)
    expect(await lease.renew()).toBe(true)
    expect(await lease.release()).toBe('released')
    const third = await one.acquire('door')
    const inVain = two.acquire('door', { waitMs: 50 })
    await expect(inVain).rejects.toMatchObject({ code: 'ERR_LOCK_WAIT_TIMEOUT' })
    await third.release()
  })

  it('can use every method of the store operator', async () => {
    const store = openStore()
    const stampede = createStampede({ store })
    closing.push(() => stampede.close())
    await stampede.getOrSet('rates', () => 1, { ttlMs: 60_000 })
    const { operator } = store
    expect((await operator.scan('cache', '', 100)).keys).toEqual(['d:=rates'])
    expect(await operator.inspect('d:=rates')).toHaveProperty('frame')
    expect(await operator.inspectLock('door')).toBeUndefined()
    expect(await operator.report('one', 'text', 10)).toBe(1)
    await expect.poll(async () => (await operator.reports()).size).toBe(0)
    expect(await operator.report('two', 'text', 10_000)).toBe(1)
  })

  it('can use an idempotency key to its end, inspect and settle it', async () => {
    const stampede = open()
    let charges = 0
    const pay = (isLast: boolean) =>
      stampede.idempotent('invoice:7', async ({ number: attempt, step }) => {
        const charge = await step('charge', () => ++charges)
        if (!isLast) throw new Error('and then the printer failed')
        return { attempt, charge }
      })
    const paid = { attempt: 2, charge: 1 }
    await expect(pay(false)).rejects.toThrow('printer')
    expect(await pay(true)).toEqual(paid)
    expect(await open().idempotent('invoice:7', () => 'ran twice')).toEqual(paid)
    const { inspect, release, resolve } = stampede.idempotency
    expect(await inspect('invoice:7')).toMatchObject({ state: 'completed', steps: ['charge'] })
    expect(await release('invoice:7', { force: true })).toBe('settled')
    expect(await resolve('invoice:7', { value: 'by hand' })).toBe('settled')
    expect(await open().idempotent('invoice:7', () => 'ran again')).toBe('by hand')
  })
})

describe('a user with only the documented permissions in a cluster', () => {
  it.each(['6', '5'] as const)('can follow a slot that moves, by ioredis %s', async (version) => {
    await using cluster = await startRedisCluster()
    const admins = cluster.nodes.map((node) => node.admin)
    for (const each of admins) await addUser(each)
    const slot = cluster.slotOf('stampede:4:{=d:=rates}')
    const from = cluster.ownerOf(slot)
    const to = cluster.nodes.find((node) => node !== from)
    if (to === undefined) throw new Error('a cluster has more than one node')
    await cluster.holdMigration(slot, from, to)
    const client = cluster.client(version, { redisOptions: LOGIN, lazyConnect: true })
    const stampede = createStampede({ store: redisStore(client, { commandTimeoutMs: 2_000 }) })
    const failures: unknown[] = []
    stampede.on('store.failed', ({ error }) => failures.push(error))
    try {
      const get = () => stampede.getOrSet('rates', () => 'made', { ttlMs: 60_000, tags: ['money'] })
      expect(await get()).toBe('made')
      await stampede.purge({ tag: 'money' })
      expect(await get()).toBe('made')
      // The connection is not that of the user with all permissions.
      expect(await to.admin.call('CLIENT', 'LIST')).toContain(`user=${LOGIN.username}`)
    } finally {
      await stampede.close()
    }
    expect(failures).toEqual([])
    expect((await Promise.all(admins.map(refusedBy))).flat()).toEqual([])
    // The slot is there, so the ASK redirect was followed.
    expect(await to.admin.call('CLUSTER', 'COUNTKEYSINSLOT', slot)).toBe(1)
  })
})
