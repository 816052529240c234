// A handler of Express 5 that gets the product from a cache for data, and sends it: how such a cache is used for responses.
import type { RequestListener } from 'node:http'
import express from 'express'

export function getting(get: (key: string) => Promise<unknown>): RequestListener {
  const app = express()
  app.get('/products/:id', async (req, res) => {
    res.json(await get(`product:${req.params.id}`))
  })
  return app
}
