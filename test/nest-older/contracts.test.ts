// The contracts of both adapters on Nest 11, which replaces Nest 12 in the project `nest11`
// (vitest.config.ts). The idempotency keys are in memory.
import { memoryStore } from '@stampede/core'
import { cacheAdapterContract, idempotencyAdapterContract } from '@stampede/testkit'
import { nestCaches, nestIdempotency } from '../harness/nest-apps.ts'

for (const platform of nestCaches) cacheAdapterContract(platform)
for (const platform of nestIdempotency) {
  idempotencyAdapterContract(platform, {
    async open() {
      const store = memoryStore()
      return { a: store, b: store }
    },
  })
}
