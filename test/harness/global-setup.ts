// Global set-up of the `redis` project: one Redis is found for the whole run and handed to the
// tests.
import type { TestProject } from 'vitest/node'
import { findBinaries, findRedis, type RedisSource, type ServerBinary } from './find-redis.ts'

declare module 'vitest' {
  interface ProvidedContext {
    redisSource: RedisSource
    serverBinaries: ServerBinary[]
  }
}

export async function setup(project: TestProject): Promise<void> {
  const { source, description } = await findRedis()
  console.log(`Redis for the tests: ${description}`)
  project.provide('redisSource', source)
  // Only now, because finding Redis may have installed one.
  project.provide('serverBinaries', findBinaries())
}
