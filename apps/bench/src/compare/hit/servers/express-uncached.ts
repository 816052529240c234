// Express 5 without a cache. The handler has the product in memory and sends it as JSON.
import type { RequestListener } from 'node:http'
import express from 'express'
import type { Origin } from '../subject.ts'

export function listener(origin: Origin): RequestListener {
  const app = express()
  app.get('/products/:id', (_req, res) => {
    res.json(origin())
  })
  return app
}
