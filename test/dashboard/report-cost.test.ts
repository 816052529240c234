// The commands that reports cost Redis, counted with a small and a large fleet.

import { createStampede } from '@stampede/core'
import { stampedeDashboard } from '@stampede/dashboard'
import { redisStore } from '@stampede/redis'
import { Redis } from 'ioredis'
import { expect, it, onTestFinished } from 'vitest'
import { sentByClients } from '../harness/command-trace.ts'
import { PATIENT } from '../harness/patient.ts'
import { type RedisServer, startRedis } from '../harness/redis-server.ts'
import { waitUntil } from '../harness/wait-until.ts'

async function startFleetOf(size: number): Promise<RedisServer> {
  const redis = await startRedis()
  onTestFinished(() => redis.stop())
  for (let i = 0; i < size; i++) {
    const client = new Redis(redis.url, { lazyConnect: true })
    const stampede = createStampede({ store: redisStore(client, PATIENT) })
    const dashboard = stampedeDashboard({ stampede, authorize: () => false })
    onTestFinished(async () => {
      await dashboard.close()
      await stampede.close()
      client.disconnect()
    })
  }
  const probe = new Redis(redis.url)
  onTestFinished(() => probe.disconnect())
  const reports = async () => {
    const [texts = ''] = await probe.keys('*{reports}:texts')
    return texts === '' ? 0 : probe.hlen(texts)
  }
  await waitUntil('each process has reported', async () => (await reports()) === size)
  return redis
}

it('a fleet without a viewer sends at most 1 report a second with 2 processes, and 5 with 20', async () => {
  const reportsOf = async (size: number) => {
    const redis = await startFleetOf(size)
    const begunAt = performance.now()
    const trace = await redis.traceCommands()
    await new Promise((resolve) => setTimeout(resolve, 8_000))
    const sent = sentByClients(await trace.stop())
    const count = sent.filter(({ text }) => text.includes('{reports}')).length
    return { count, seconds: (performance.now() - begunAt) / 1_000 }
  }
  const fleets = [
    { size: 2, most: 1 },
    { size: 20, most: 5 },
  ]
  const counts = await Promise.all(fleets.map(({ size }) => reportsOf(size)))
  for (const [i, { size, most }] of fleets.entries()) {
    // One round more than the time has room for.
    const { count = 0, seconds = 0 } = counts[i] ?? {}
    expect(count).toBeLessThanOrEqual(seconds * most + size)
    expect(count).toBeGreaterThanOrEqual(size)
  }
})
