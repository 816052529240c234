// The volume cases of the caching adapter contract, at full size.
import { describe } from 'vitest'
import { volumeCases } from '../../packages/testkit/src/cache-contract/volume.ts'
import { frameworks } from '../harness/apps.ts'

describe.each(frameworks)('the cache on $name', (framework) => {
  volumeCases(framework, { queries: 2_000, requests: 10_000, keys: 1_000 })
})
