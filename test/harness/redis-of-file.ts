// A Redis for the tests of one file, and a client to inspect it.

import { Redis } from 'ioredis'
import { afterAll } from 'vitest'
import { type RedisServer, startRedis } from './redis-server.ts'

/** Awaited at the top of a file. Both are stopped after its tests. */
export async function redisOfFile(): Promise<{ server: RedisServer; admin: Redis }> {
  const server = await startRedis()
  const admin = new Redis(server.url)
  afterAll(async () => {
    admin.disconnect()
    await server.stop()
  })
  return { server, admin }
}
