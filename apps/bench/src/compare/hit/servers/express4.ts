// `stampedeCache` on Express 4.
import type { RequestListener } from 'node:http'
import { stampedeCache } from '@stampede/express'
import express4 from 'express4'
import type { Origin } from '../subject.ts'

export function listener(origin: Origin): RequestListener {
  const app = express4()
  app.use(stampedeCache({ ttlMs: 3_600_000 }))
  app.get('/products/:id', (_req, res) => {
    res.json(origin())
  })
  return app
}
