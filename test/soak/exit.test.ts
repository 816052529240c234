// The end of a process whose Redis is gone: no timer of a connection or command keeps it alive
// after close().

import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { freePort } from '../harness/free-port.ts'
import { startRedis } from '../harness/redis-server.ts'

const CLIENTS = {
  ioredis: `const { Redis } = await import('ioredis')
    const client = new Redis(url, { lazyConnect: true })`,
  'node-redis': `const { createClient } = await import('redis')
    const client = createClient({ url })`,
}

/** Prints how long the process lives after close(). The lookup is under way at that moment. */
const program = (connect: string) => `
  const [, url] = process.argv
  ${connect}
  const { createStampede } = await import('@stampede/core')
  const { redisStore } = await import('@stampede/redis')
  const stampede = createStampede({ store: redisStore(client, { commandTimeoutMs: 5000 }) })
  stampede.on('store.failed', () => {})
  const get = (key) => stampede.getOrSet(key, () => Promise.resolve(1), { ttlMs: 60_000 })
  void get('k').catch(() => {})
  void stampede.purge({ key: 'k' }).catch(() => {})
  await new Promise((resolve) => setTimeout(resolve, 100))
  await stampede.close()
  const closedAt = performance.now()
  process.on('exit', () => console.log(performance.now() - closedAt))`

async function livesOn(connect: string, url: string): Promise<number> {
  const args = ['--input-type=module', '--eval', program(connect), url]
  const { stdout } = await promisify(execFile)(process.execPath, args)
  return Number(stdout)
}

describe.each(Object.entries(CLIENTS))('a process with %s', (_, connect) => {
  it('ends within a second after close() if Redis refuses connections', async () => {
    const url = `redis://127.0.0.1:${await freePort()}`
    expect(await livesOn(connect, url)).toBeLessThan(1_000)
  })

  it('ends within a second after close() if Redis is frozen', async () => {
    await using server = await startRedis()
    await server.pause()
    expect(await livesOn(connect, server.url)).toBeLessThan(1_000)
  })
})
