// Two processes whose calls of getOrSetMany have overlapping keys in random order.

import { Redis } from 'ioredis'
import { expect } from 'vitest'
import { assertCleanExit, startFleet } from './fleet.ts'
import { startRedis } from './redis-server.ts'

const entry = new URL('servers/many-worker.mjs', import.meta.url)

/** Runs this many pairs of calls. No call may hang, and each key must be filled once. */
export async function runManyPairs(pairs: number, withinMs: number): Promise<void> {
  await using redis = await startRedis()
  await using witness = await startRedis()
  const env = { REDIS_URL: redis.url, WITNESS_URL: witness.url }
  await using fleet = await startFleet({ size: 2, entry, env })
  const message = { pairs, seed: 30 }
  const ends = await Promise.all(fleet.members.map((member) => member.ask(message, withinMs)))
  expect(ends).toEqual([0, 0])
  const client = new Redis(witness.url)
  const runs = await client.hgetall('runs')
  client.disconnect()
  expect(Object.keys(runs).length).toBeGreaterThan(pairs)
  expect(Object.entries(runs).filter(([, count]) => count !== '1')).toEqual([])
  for (const member of fleet.members) await assertCleanExit(member)
}
