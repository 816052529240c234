// The contract of a caching adapter at full volume, and on a front before a framework that `npm test` leaves out.
import { cacheAdapterContract } from '@stampede/testkit'
import { describe } from 'vitest'
import { volumeCases } from '../../packages/testkit/src/cache-contract/volume.ts'
import { frameworks, rareFrameworks } from '../harness/apps.ts'

describe.each(frameworks)('the cache on $name', (framework) => {
  volumeCases(framework, { queries: 2_000, requests: 10_000, keys: 1_000 })
})

for (const framework of rareFrameworks) cacheAdapterContract(framework)
