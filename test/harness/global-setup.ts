// Global set-up of projects with servers: one Redis and one PostgreSQL are found for the whole run
// and handed to the tests.
import type { TestProject } from 'vitest/node'
import { describePostgres, findPostgres, type PostgresSource } from './find-postgres.ts'
import { findBinaries, findRedis, type RedisSource, type ServerBinary } from './find-redis.ts'

declare module 'vitest' {
  interface ProvidedContext {
    redisSource: RedisSource
    serverBinaries: ServerBinary[]
    /** Undefined: the tests with PostgreSQL are skipped. */
    postgresSource: PostgresSource | undefined
    /** Only in the project of the tests on other versions (postgres-versions-setup.ts). */
    postgresVersions: readonly PostgresSource[] | undefined
  }
}

export async function setup(project: TestProject): Promise<void> {
  const { source, description } = await findRedis()
  console.log(`Redis for the tests: ${description}`)
  project.provide('redisSource', source)
  // Only now, because finding Redis may have installed one.
  project.provide('serverBinaries', findBinaries())
  const postgres = findPostgres()
  console.log(describePostgres(postgres))
  project.provide('postgresSource', postgres)
}
