// Starts the shop on Express: `npm run demo`. How an app is given a cache, from the first line to the last.

import { createStampede } from '@stampede/core'
import { redisStore } from '@stampede/redis'
import { connectRedis, launch, openShop, readPages } from '@stampede/shop'
import { createApp } from './app.ts'

await launch('Express', async (settings, onStop) => {
  const redis = await connectRedis(settings)
  onStop(() => redis?.disconnect())

  const shop = await openShop(settings)
  onStop(() => shop.close())

  // Without a store the cache lives in this process. With Redis, all processes share one: whatever their
  // number, one of them asks the database, and the others get its answer.
  const stampede = createStampede(redis === undefined ? {} : { store: redisStore(redis) })
  onStop(() => stampede.close())

  const store = redis === undefined ? 'memory' : 'Redis'
  return createApp({ shop, stampede, pages: await readPages(), store })
})
