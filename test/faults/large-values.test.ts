// Values that are too large for Redis: no process could read them within its time budget, and other
// commands of the process would be late meanwhile.

import { createStampede, type StampedeOptions } from '@stampede/core'
import { idempotency } from '@stampede/express'
import { redisStore } from '@stampede/redis'
import express from 'express'
import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { listen } from '../harness/apps.ts'
import { PATIENT } from '../harness/patient.ts'
import { redisOfFile } from '../harness/redis-of-file.ts'

type RedisClient = Parameters<typeof redisStore>[0]

const MIB = 1024 * 1024
const { server, admin } = await redisOfFile()
beforeEach(() => admin.flushall())

const CLIENTS: Array<readonly [string, () => RedisClient]> = [
  ['ioredis', () => new Redis(server.url, { lazyConnect: true })],
  ['node-redis', () => createClient({ url: server.url })],
]

function open(client: RedisClient, l1?: StampedeOptions['l1']) {
  const stampede = createStampede({ store: redisStore(client, PATIENT), l1 })
  onTestFinished(() => stampede.close())
  const events: string[] = []
  stampede.on('store.failed', ({ operation }) => void events.push(`failed ${operation}`))
  stampede.on('fill.passed', ({ reason }) => void events.push(reason))
  return { stampede, events }
}

describe.each(CLIENTS)('a value in Redis by %s', (_, connect) => {
  it.each([
    ['3 MiB', 3 * MIB, 1],
    ['5 MiB', 5 * MIB, 2],
    ['12 MiB', 12 * MIB, 2],
  ])('costs no process more than one run, and fails no other key: %s', async (__, size, most) => {
    const both = [open(connect()), open(connect())]
    let runs = 0
    const body = Buffer.alloc(size, 1)
    const get = ({ stampede }: (typeof both)[number]) =>
      stampede.getOrSet(
        'large',
        async () => {
          runs += 1
          return body
        },
        { ttlMs: 60_000 },
      )
    const small = ({ stampede }: (typeof both)[number], i: number) =>
      stampede.getOrSet(`small ${i}`, async () => i, { ttlMs: 60_000 })
    for (const each of both) await small(each, 0)
    for (let i = 1; i <= 3; i++) {
      const values = both.flatMap((each) => [get(each), get(each)])
      await Promise.all([...values, ...both.map((each) => small(each, i))])
      for (const value of await Promise.all(values)) expect(value).toHaveLength(size)
    }
    expect(runs).toBe(most)
    const passed = most === 1 ? [] : ['too-large']
    for (const { events } of both) expect(events).toEqual(passed)
    const lease = await admin.hget((await admin.keys('*large*'))[0] ?? '', 'lease')
    expect(lease).toMatch(/^\d+$/)
  })

  it('is served from Redis on every hit if it is larger than maxEntryBytes', async () => {
    const { stampede } = open(connect(), { maxEntryBytes: 1_000 })
    const tiers: string[] = []
    stampede.on('entry.hit', ({ tier }) => void tiers.push(tier))
    for (let i = 0; i < 3; i++) {
      for (const size of [2_000, 20]) {
        await stampede.getOrSet(`${size} bytes`, () => Buffer.alloc(size), { ttlMs: 60_000 })
        // The caller has its value before the store has the entry.
        await expect.poll(() => stampede.stats().active.flights).toBe(0)
      }
    }
    expect(tiers).toEqual(['l2', 'l1', 'l2', 'l1'])
  })

  it('is kept without its body above 4 MiB if it is the response of an idempotency key', async () => {
    const { stampede, events } = open(connect())
    const app = express()
    app.post(
      '/',
      idempotency({ stampede, scope: () => 'all', maxBodyBytes: 8 * MIB }),
      (_req, res) => {
        res.status(201).send(Buffer.alloc(5 * MIB))
      },
    )
    await using listening = await listen(app)
    const post = async () => {
      const headers = { 'idempotency-key': '"large"' }
      const response = await fetch(listening.url, { method: 'POST', headers })
      return [response.status, (await response.arrayBuffer()).byteLength > MIB]
    }
    expect(await post()).toEqual([201, true])
    expect(await post()).toEqual([409, false])
    expect(events).toEqual([])
  })

  it('is refused by set() above 4 MiB, with the reason', async () => {
    const { stampede } = open(connect())
    const cache = stampede.cache('c', { ttlMs: 60_000 })
    await cache.set('k', Buffer.alloc(MIB))
    const set = cache.set('k', Buffer.alloc(5 * MIB)).then(() => 'stored', String)
    expect(await set).toContain('too large for the store')
  })
})
