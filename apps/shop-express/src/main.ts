// Starts the shop on Express: `npm run demo`. It shows how an app gets a cache.

import { createStampede } from '@stampede/core'
import { redisStore } from '@stampede/redis'
import { connectRedis, launch, readPages } from '@stampede/shop'
import { createApp } from './app.ts'

await launch('Express', async ({ settings, onStop, openShop, watch }) => {
  const redis = await connectRedis(settings)
  onStop(() => redis?.disconnect())

  const shop = await openShop()
  onStop(() => shop.close())

  // Without a store the cache lives in this process. With Redis all processes share one cache: one
  // process queries the database, and the others get its response.
  const stampede = createStampede(redis === undefined ? {} : { store: redisStore(redis) })
  onStop(() => stampede.close())
  watch(stampede)

  const store = redis === undefined ? 'memory' : 'Redis'
  return createApp({ shop, stampede, pages: await readPages(), store })
})
