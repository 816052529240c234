// Stampede, set up as in its guide.
import { createStampede, type GetOrSetOptions } from '@stampede/core'
import { redisStore } from '@stampede/redis'
import { Redis } from 'ioredis'
import { DEADLINE_MS, type Instance, NotSupported, type Settings } from '../peer.ts'
import { ioredisOptions, listened } from './redis-options.ts'

export async function open(settings: Settings): Promise<Instance> {
  const { redisUrl, ttlMs, staleMs, tags, load } = settings
  const client = listened(new Redis(redisUrl, ioredisOptions(settings)))
  const stampede = createStampede({ store: redisStore(client) })
  const options = {
    ttlMs,
    staleWhileRevalidateMs: staleMs,
    originTimeoutMs: DEADLINE_MS,
    ...(tags.length > 0 && { tags: [...tags] }),
  } as GetOrSetOptions
  return {
    get: (key) => stampede.getOrSet(key, () => load(key), options).catch(notBuilt),
    invalidate: (key) => stampede.purge({ key }),
    invalidateTag: (tag) => stampede.purge({ tag } as never).catch(notBuilt),
  }
}

function notBuilt(error: Error & { code?: string }): never {
  if (error.code === 'ERR_STAMPEDE_OPTION') throw new NotSupported('not built yet')
  throw error
}
