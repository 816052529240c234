// The shop: its database, its handlers, and the cache that the lab compares with.

import { type Database, openDatabase } from './database.ts'
import { type OrderHandlers, orderHandlers } from './order-handlers.ts'
import { createOriginRuns, type OriginRuns } from './origin-runs.ts'
import { createPerProcessCache, type PerProcessCache } from './per-process.ts'
import { type ProductHandlers, productHandlers } from './product-handlers.ts'
import type { Settings } from './settings.ts'

export interface Shop {
  readonly database: Database
  readonly originRuns: OriginRuns
  /** The product routes. `prefix` is only their name in the statistics. */
  productsAt(prefix: string): ProductHandlers
  /** The cache that the lab compares with. */
  readonly perProcess: PerProcessCache
  readonly orders: OrderHandlers
  close(): Promise<void>
}

export async function openShop(settings: Pick<Settings, 'originLatencyMs'>): Promise<Shop> {
  const database = await openDatabase({ latencyMs: settings.originLatencyMs })
  return createShop(database)
}

export function createShop(database: Database, originRuns: OriginRuns = createOriginRuns()): Shop {
  return {
    database,
    originRuns,
    productsAt: (prefix) => productHandlers(database, originRuns, prefix),
    perProcess: createPerProcessCache(),
    orders: orderHandlers(database),
    close: () => database.close(),
  }
}
