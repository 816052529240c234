// apicache with its memory store, on Express 4, which it is made for.
import apicache from 'apicache'
import express4 from 'express4'
import type { Opened, Settings } from '../peer.ts'
import { sendOnExpress } from './send.ts'

export async function open({ ttlMs, reply }: Settings): Promise<Opened> {
  const cache = apicache.newInstance()
  const app = express4()
  app.use(cache.middleware(`${ttlMs / 1_000} seconds`))
  app.all('/page', (req, res, next) => {
    reply(req).then((replied) => sendOnExpress(res, replied), next)
  })
  return { listener: app, purge: async (path) => cache.clear(path) }
}
