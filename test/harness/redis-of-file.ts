// A Redis for the tests of one file, and a client that looks into it.

import { Redis } from 'ioredis'
import { afterAll } from 'vitest'
import { type RedisServer, startRedis } from './redis-server.ts'

/** Awaited at the top of a file; stopped when its tests are over. */
export async function redisOfFile(): Promise<{ server: RedisServer; admin: Redis }> {
  const server = await startRedis()
  const admin = new Redis(server.url)
  afterAll(async () => {
    admin.disconnect()
    await server.stop()
  })
  return { server, admin }
}
