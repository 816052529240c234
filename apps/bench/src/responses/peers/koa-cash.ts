// koa-cash on an LRU in memory, as its README shows.
import Koa from 'koa'
import koaCash from 'koa-cash'
import { LRUCache } from 'lru-cache'
import type { Opened, Settings } from '../peer.ts'
import { sendOnKoa } from './send.ts'

export async function open({ ttlMs, reply }: Settings): Promise<Opened> {
  const cache = new LRUCache<string, object>({ max: 10_000, ttl: ttlMs })
  // `cashClear` sets false, which the store keeps as "no entry".
  const set = async (key: string, value: object): Promise<void> => void cache.set(key, value)
  const app = new Koa()
  app.silent = true
  app.use(koaCash({ maxAge: ttlMs, get: async (key) => cache.get(key), set }))
  app.use(async (ctx) => {
    if (await (ctx as unknown as { cashed(): Promise<boolean> }).cashed()) return
    sendOnKoa(ctx, await reply(ctx.request))
  })
  return { listener: app.callback(), purge: async (path) => cache.delete(path) }
}
