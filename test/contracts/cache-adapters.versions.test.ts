// The contract of a caching adapter × the frameworks, and × stampedeFront before them.
import { cacheAdapterContract } from '@stampede/testkit'
import { currentFrameworks, olderFrameworks } from '../harness/apps.ts'
import { fastifyCache } from '../harness/fastify-apps.ts'
import { honoCache } from '../harness/hono-apps.ts'
import { ofThisRun } from '../harness/versions.ts'

for (const framework of ofThisRun(
  [...currentFrameworks, fastifyCache, honoCache],
  olderFrameworks,
)) {
  cacheAdapterContract(framework)
}
