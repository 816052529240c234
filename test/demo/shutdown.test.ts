// SIGTERM to the demos, as real processes. They finish open requests, give back every lease, and
// end by themselves.

import { Redis } from 'ioredis'
import { describe, expect, it } from 'vitest'
import { startDemo } from '../harness/demo.ts'
import { freePort } from '../harness/free-port.ts'
import { ask } from '../harness/load.ts'
import { startRedis } from '../harness/redis-server.ts'

/** Records in Redis that are leased. */
async function leased(url: string): Promise<string[]> {
  const redis = new Redis(url)
  try {
    const keys = await redis.keys('*')
    const held = await Promise.all(
      keys.map(async (key) => {
        if ((await redis.type(key)) !== 'hash') return false
        // An idempotency key or lock has a field for its token. An entry has it in its lease.
        const [lease, token] = await redis.hmget(key, 'lease', 'token')
        return token !== null || (lease ?? '').split(' ').length === 4
      }),
    )
    return keys.filter((_, i) => held[i])
  } finally {
    redis.disconnect()
  }
}

describe.each(['shop-express', 'shop-koa'])('%s after SIGTERM', { timeout: 150_000 }, (app) => {
  async function shop(redisUrl: string, latencyMs: number) {
    const env = { PORT: String(await freePort()), ORIGIN_LATENCY_MS: String(latencyMs) }
    const demo = startDemo(app, { ...env, REDIS_URL: redisUrl })
    await demo.ready()
    return demo
  }

  it('finishes open requests, accepts no new ones, and ends with code 0', async () => {
    await using server = await startRedis()
    const demo = await shop(server.url, 1_000)
    const asked = [1, 2].map(() => ask(`${demo.url}/api/products/7`))
    await expect.poll(() => leased(server.url)).toHaveLength(1)
    const stopped = demo.stop()
    await expect.poll(async () => (await ask(`${demo.url}/api/products/8`)).status).toBe(0)
    expect((await Promise.all(asked)).map(({ status }) => status)).toEqual([200, 200])
    const { code } = await stopped
    expect(code, demo.output()).toBe(0)
    expect(await leased(server.url)).toEqual([])
  })
  // Both demos stop in the same way (apps/shop/src/launch.ts). Only open requests are those of a
  // framework.
  if (app === 'shop-koa') return

  it('gives back the lease of a fill that does not end in time', async () => {
    await using server = await startRedis()
    const demo = await shop(server.url, 10_000)
    const asked = ask(`${demo.url}/api/products/7`)
    await expect.poll(() => leased(server.url)).toHaveLength(1)
    const { code } = await demo.stop()
    expect(code, demo.output()).toBe(0)
    // Cut off before the fill ended.
    expect((await asked).status).toBe(0)
    expect(await leased(server.url)).toEqual([])
  })

  it('ends when Redis is frozen', async () => {
    await using server = await startRedis()
    const demo = await shop(server.url, 100)
    expect((await ask(`${demo.url}/api/products/7`)).status).toBe(200)
    await server.pause()
    // Redis stays frozen until the end.
    const { code } = await demo.stop()
    expect(code, demo.output()).toBe(0)
    await server.resume()
  })
})

describe('the worker demo after SIGTERM', { timeout: 60_000 }, () => {
  it('lets each worker finish its job, and frees every lock', async () => {
    await using server = await startRedis()
    const demo = startDemo('worker', { REDIS_URL: server.url })
    // No worker is killed yet, and all are at their first jobs.
    await expect
      .poll(demo.output, { timeout: 30_000, interval: 10 })
      .toMatch(/got the lock of job 1 with fence/)
    const { code } = await demo.stop()
    const output = demo.output()
    expect(code, output).toBe(0)
    expect(output).toContain('Stopping: each worker finishes its current job')
    expect(output).not.toContain('KILLED')
    for (const [, worker, job] of output.matchAll(
      /(worker \d) got the lock of job (\d) with fence/g,
    )) {
      expect(output).toContain(`${worker} wrote the result of job ${job}`)
    }
    expect(await leased(server.url)).toEqual([])
  })
})
