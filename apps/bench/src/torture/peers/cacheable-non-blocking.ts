// cacheable, set up as it advises against a Redis that hangs: no call waits for Redis.
import { createKeyvNonBlocking } from '@keyv/redis'
import type { Instance, Settings } from '../peer.ts'
import { asInstance } from './cacheable.ts'
import { listened, nodeRedisOptions } from './redis-options.ts'

export async function open(settings: Settings): Promise<Instance> {
  const secondary = listened(createKeyvNonBlocking(nodeRedisOptions(settings)))
  return asInstance(settings, { secondary, nonBlocking: true })
}
