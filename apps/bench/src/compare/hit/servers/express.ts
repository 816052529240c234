// `stampedeCache` on Express 5.
import type { RequestListener } from 'node:http'
import { stampedeCache } from '@stampede/express'
import express from 'express'
import type { Origin } from '../subject.ts'

export function listener(origin: Origin): RequestListener {
  const app = express()
  app.use(stampedeCache({ ttlMs: 3_600_000 }))
  app.get('/products/:id', (_req, res) => {
    res.json(origin())
  })
  return app
}
