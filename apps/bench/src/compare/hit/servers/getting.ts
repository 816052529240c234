// Express 5 with a handler that gets the product from a data cache and sends it.
import type { RequestListener } from 'node:http'
import express from 'express'

export function getting(get: (key: string) => Promise<unknown>): RequestListener {
  const app = express()
  app.get('/products/:id', async (req, res) => {
    res.json(await get(`product:${req.params.id}`))
  })
  return app
}
