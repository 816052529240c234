// koa-cash on an LRU in memory, as its README shows.
import type { RequestListener } from 'node:http'
import Koa from 'koa'
import koaCash from 'koa-cash'
import { LRUCache } from 'lru-cache'
import type { Origin } from '../subject.ts'

export function listener(origin: Origin): RequestListener {
  const cache = new LRUCache<string, object>({ max: 10_000 })
  const app = new Koa()
  app.use(
    koaCash({
      maxAge: 3_600_000,
      get: async (key) => cache.get(key),
      set: async (key, value) => void cache.set(key, value),
    }),
  )
  app.use(async (ctx) => {
    if (await (ctx as unknown as { cashed(): Promise<boolean> }).cashed()) return
    ctx.body = origin()
  })
  return app.callback()
}
