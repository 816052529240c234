// Express 5 with a handler that gets ready bytes from Redis.
import type { RequestListener } from 'node:http'
import express from 'express'
import { Redis } from 'ioredis'
import { FIELDS } from '../../lib/product.ts'
import type { Origin } from '../subject.ts'

export function listener(origin: Origin, redisUrl: string): RequestListener {
  const redis = new Redis(redisUrl)
  const app = express()
  app.get('/products/:id', async (req, res) => {
    const key = `product:${req.params.id}`
    let body = await redis.getBuffer(key)
    if (body === null) {
      body = Buffer.from(JSON.stringify(origin()))
      await redis.set(key, body, 'PX', 3_600_000)
    }
    res.writeHead(200, FIELDS)
    res.end(body)
  })
  return app
}
