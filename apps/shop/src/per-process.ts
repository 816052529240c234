// A cache per process, for comparison: an LRU in memory that sends concurrent misses of one page to
// the database once. It is what many apps have, and it is set up as well as it can be.

import type { IncomingMessage } from 'node:http'
import { LRUCache } from 'lru-cache'
import type { ProductHandlers } from './product-handlers.ts'
import type { ShopResponse } from './response.ts'

const TTL_MS = 10_000
const MAX_ENTRIES = 1_000

export interface PerProcessCache {
  /** The same routes, from the cache of this process. A change goes to the database. */
  handlers(origin: ProductHandlers): ProductHandlers
  /** Purges a path with all queries, in this process only. */
  purge(path: string): void
}

/** A response that the cache must not store. It leaves `fetch` as an error. */
class Unstored extends Error {
  readonly response: ShopResponse

  constructor(response: ShopResponse) {
    super('this response is not stored')
    this.response = response
  }
}

export function createPerProcessCache(): PerProcessCache {
  const cache = new LRUCache<string, ShopResponse, () => Promise<ShopResponse>>({
    max: MAX_ENTRIES,
    ttl: TTL_MS,
    // If the database fails, an expired page is better than none.
    allowStaleOnFetchRejection: true,
    noDeleteOnFetchRejection: true,
    async fetchMethod(_url, stale, { context: run, options }) {
      const response = await run()
      if (response.status >= 500) {
        // Without an expired page, the callers get this failure.
        options.allowStaleOnFetchRejection = stale !== undefined
        throw new Unstored(response)
      }
      options.ttl = lifetimeOf(response)
      return response
    },
  })

  const cached = async (
    message: IncomingMessage,
    run: () => Promise<ShopResponse>,
  ): Promise<ShopResponse> => {
    try {
      return (await cache.fetch(urlOf(message), { context: run })) ?? (await run())
    } catch (error) {
      if (error instanceof Unstored) return error.response
      throw error
    }
  }

  return {
    handlers: ({ list, show, change }) => ({
      list: (message) => cached(message, () => list(message)),
      show: (message, id) => cached(message, () => show(message, id)),
      change,
    }),
    purge(path) {
      for (const url of cache.keys()) if (pathOf(url).endsWith(path)) cache.delete(url)
    },
  }
}

/** Inside a router, Express shortens `url` to the part below it. */
function urlOf({ originalUrl, url }: IncomingMessage & { originalUrl?: string }): string {
  return originalUrl ?? url ?? ''
}

function lifetimeOf({ headers }: ShopResponse): number {
  const seconds = /^max-age=(\d+)$/.exec(headers['cache-control'] ?? '')?.[1]
  return seconds === undefined ? TTL_MS : Number(seconds) * 1_000
}

function pathOf(url: string): string {
  return url.split('?', 1)[0] ?? url
}
