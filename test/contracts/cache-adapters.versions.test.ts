// The contract of a caching adapter × the frameworks, and × stampedeFront before them.
import { cacheAdapterContract } from '@stampede/testkit'
import { currentFrameworks, olderFrameworks } from '../harness/apps.ts'
import { fastifyCache } from '../harness/fastify-apps.ts'
import { honoCache } from '../harness/hono-apps.ts'
import { nestCaches } from '../harness/nest-apps.ts'
import { ofThisRun } from '../harness/versions.ts'

const others = [...olderFrameworks, fastifyCache, honoCache, ...nestCaches]
for (const framework of ofThisRun(currentFrameworks, others)) {
  cacheAdapterContract(framework)
}
