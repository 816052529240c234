// express-redis-cache on Express 4, with its own Redis client.
import { once } from 'node:events'
import expressRedisCache from 'express-redis-cache'
import express4 from 'express4'
import type { Opened, Settings } from '../peer.ts'
import { sendOnExpress } from './send.ts'

export async function open({ redisUrl, ttlMs, reply }: Settings): Promise<Opened> {
  const { hostname: host, port } = new URL(redisUrl)
  const cache = expressRedisCache({ host, port: Number(port), expire: ttlMs / 1_000 })
  cache.on('error', () => {})
  await once(cache, 'connected')
  const app = express4()
  app.get('/page', cache.route(), (req, res, next) => {
    reply(req).then((replied) => sendOnExpress(res, replied), next)
  })
  return {
    listener: app,
    purge: (path) => new Promise((done) => cache.del(path, done)),
  }
}
