// The contracts of both adapters on Nest 10 and 11, which replace Nest 12 in the projects `nest10`
// and `nest11` (vitest.config.ts). The idempotency keys are in memory.
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
