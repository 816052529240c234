// SIGTERM to the demos, as real processes. They finish open requests, give back every lease, and
// end by themselves.

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { Redis } from 'ioredis'
import { describe, expect, it } from 'vitest'
import { freePort } from '../harness/free-port.ts'
import { guard } from '../harness/guard.ts'
import { ask } from '../harness/load.ts'
import { startRedis } from '../harness/redis-server.ts'

interface Demo {
  readonly child: ChildProcess
  readonly url: string
  /** The complete output. */
  readonly output: () => string
  /** Sends SIGTERM. Resolves with the exit code and the time it took. */
  stop(): Promise<{ code: number | null; afterMs: number }>
}

function start(app: string, env: Record<string, string>): Demo {
  const main = fileURLToPath(new URL(`../../apps/${app}/dist/main.js`, import.meta.url))
  const child = spawn(process.execPath, [main], {
    env: { ...process.env, NODE_OPTIONS: '', REDIS_URL: '', FENCE: '', ...env },
  })
  if (child.pid !== undefined) child.once('exit', guard(child.pid))
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (chunk) => (output += chunk))
  }
  const closed = once(child, 'close')
  return {
    child,
    url: `http://127.0.0.1:${env.PORT}`,
    output: () => output,
    async stop() {
      const startedAt = performance.now()
      child.kill('SIGTERM')
      const [code] = await closed
      return { code, afterMs: performance.now() - startedAt }
    },
  }
}

/** Records in Redis that are leased. */
async function leased(url: string): Promise<string[]> {
  const redis = new Redis(url)
  try {
    const keys = await redis.keys('*')
    const held = await Promise.all(
      keys.map(async (key) => (await redis.type(key)) === 'hash' && redis.hexists(key, 'token')),
    )
    return keys.filter((_, i) => held[i])
  } finally {
    redis.disconnect()
  }
}

describe.each(['shop-express', 'shop-koa'])('%s after SIGTERM', { timeout: 60_000 }, (app) => {
  async function shop(redisUrl: string, latencyMs: number) {
    const env = { PORT: String(await freePort()), ORIGIN_LATENCY_MS: String(latencyMs) }
    const demo = start(app, { ...env, REDIS_URL: redisUrl })
    await expect.poll(demo.output, { timeout: 30_000 }).toContain('http://')
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
    const { code, afterMs } = await stopped
    expect(code, demo.output()).toBe(0)
    expect(afterMs).toBeLessThan(4_000)
    expect(await leased(server.url)).toEqual([])
  })

  it('gives back the lease of a fill that does not end in time', async () => {
    await using server = await startRedis()
    const demo = await shop(server.url, 10_000)
    const asked = ask(`${demo.url}/api/products/7`)
    await expect.poll(() => leased(server.url)).toHaveLength(1)
    const { code, afterMs } = await demo.stop()
    expect(code, demo.output()).toBe(0)
    expect(afterMs).toBeLessThan(11_000)
    expect((await asked).status).toBe(0)
    expect(await leased(server.url)).toEqual([])
  })

  it('ends in the same time when Redis is frozen', async () => {
    await using server = await startRedis()
    const demo = await shop(server.url, 100)
    expect((await ask(`${demo.url}/api/products/7`)).status).toBe(200)
    await server.pause()
    const { code, afterMs } = await demo.stop()
    expect(code, demo.output()).toBe(0)
    expect(afterMs).toBeLessThan(4_000)
    await server.resume()
  })
})

describe('the worker demo after SIGTERM', { timeout: 60_000 }, () => {
  it('lets each worker finish its job, and frees every lock', async () => {
    await using server = await startRedis()
    const demo = start('worker', { REDIS_URL: server.url })
    // No worker is killed yet, and all are at their first jobs.
    await expect
      .poll(demo.output, { timeout: 30_000, interval: 10 })
      .toMatch(/got the lock of job 1 with fence/)
    const { code, afterMs } = await demo.stop()
    const output = demo.output()
    expect(code, output).toBe(0)
    expect(afterMs).toBeLessThan(5_000)
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
