// The contract of an adapter for idempotency keys × the frameworks, with two processes on one
// Redis.
import { memoryStore } from '@stampede/core'
import { redisStore } from '@stampede/redis'
import { idempotencyAdapterContract } from '@stampede/testkit'
import { Redis } from 'ioredis'
import { fastifyIdempotency } from '../harness/fastify-apps.ts'
import { honoIdempotency } from '../harness/hono-apps.ts'
import {
  currentIdempotentFrameworks,
  olderIdempotentFrameworks,
} from '../harness/idempotent-apps.ts'
import { nestIdempotency } from '../harness/nest-apps.ts'
import { redisOfFile } from '../harness/redis-of-file.ts'
import { ofThisRun } from '../harness/versions.ts'

const { server } = await redisOfFile()
let prefixes = 0

async function open() {
  prefixes += 1
  const prefix = `a${prefixes}`
  const store = () =>
    redisStore(new Redis(server.url, { lazyConnect: true }), { prefix, commandTimeoutMs: 2_000 })
  return { a: store(), b: store() }
}

const others = [
  ...olderIdempotentFrameworks,
  fastifyIdempotency,
  honoIdempotency,
  ...nestIdempotency,
]
for (const framework of ofThisRun(currentIdempotentFrameworks, others)) {
  idempotencyAdapterContract(framework, { open })
}

// The setting of an author of an adapter: one process, and no Redis.
for (const framework of ofThisRun([], currentIdempotentFrameworks.slice(0, 1))) {
  const inMemory = { ...framework, name: `${framework.name}, in memory` }
  idempotencyAdapterContract(inMemory, {
    async open() {
      const store = memoryStore()
      return { a: store, b: store }
    },
  })
}
