// Purging a tag of 100,000 entries costs the same as purging a tag of one: one command, which reads
// no entry.

import { createStampede, type Stampede } from '@stampede/core'
import { redisStore } from '@stampede/redis'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type CommandStats, parseCommandStats } from '../harness/command-stats.ts'
import { type RedisServer, startRedis } from '../harness/redis-server.ts'

const MANY = 100_000
const TTL_MS = 3_600_000

let server: RedisServer
let admin: Redis
let processes: Stampede[]
beforeAll(async () => {
  server = await startRedis()
  admin = new Redis(server.url)
  processes = [1, 2, 3].map(() =>
    createStampede({
      // A lookup that runs out of time stores nothing, so only 500 are sent at once.
      store: redisStore(new Redis(server.url, { lazyConnect: true }), { commandTimeoutMs: 5_000 }),
    }),
  )
})
afterAll(async () => {
  await Promise.all(processes.map((stampede) => stampede.close()))
  admin.disconnect()
  await server.stop()
})

const get = (from: Stampede | undefined, n: number, value: string) =>
  from?.getOrSet(`product:${n}`, () => value, { ttlMs: TTL_MS, tags: ['products', `product:${n}`] })

/** Fills entries from `first` on, in batches. */
async function fill(first: number, count: number): Promise<void> {
  for (let n = first; n < first + count; n += 500) {
    const some = Array.from({ length: Math.min(500, first + count - n) }, (_, i) => n + i)
    await Promise.all(some.map((each) => get(processes[0], each, 'old')))
  }
}

it('a purge by tag costs the same for one entry and for 100,000, and reaches each of them', async () => {
  await fill(0, 1)
  // By now the script is loaded, and the log exists.
  for (let n = 0; n < 3; n++) await processes[1]?.purge({ tag: 'nothing' })
  const few = await commandsOf(() => processes[1]?.purge({ tag: 'products' }))
  await fill(0, MANY)
  // Copies in the memory of two processes.
  for (let n = 0; n < 300; n++) expect(await get(processes[2], n, 'never')).toBe('old')
  const many = await commandsOf(() => processes[1]?.purge({ tag: 'products' }))
  expect(many).toEqual(few)
  expect(many.eval).toBe(1)
  expect(await admin.dbsize()).toBeGreaterThanOrEqual(MANY)
  await expect.poll(() => get(processes[2], 0, 'new')).toBe('new')
  for (const from of processes) {
    for (let n = 0; n < MANY; n += 997) expect(await get(from, n, 'new')).toBe('new')
  }
}, 120_000)

/** Commands of clients and scripts, without the purge check of each process every two seconds. */
async function commandsOf(work: () => unknown): Promise<CommandStats> {
  const before = parseCommandStats(await admin.info('commandstats'))
  await work()
  const after = parseCommandStats(await admin.info('commandstats'))
  const names = new Set([...Object.keys(before), ...Object.keys(after)])
  const grown = [...names].map((name) => [name, (after[name] ?? 0) - (before[name] ?? 0)] as const)
  return Object.fromEntries(grown.filter(([name, by]) => by > 0 && !UNRELATED.has(name)))
}

const UNRELATED: ReadonlySet<string> = new Set(['hmget', 'info', 'persist', 'ping', 'time'])
