// apicache with its memory store, on Express 4, which it is made for.
import type { RequestListener } from 'node:http'
import apicache from 'apicache'
import express4 from 'express4'
import type { Origin } from '../subject.ts'

export function listener(origin: Origin): RequestListener {
  const app = express4()
  app.use(apicache.middleware('1 hour'))
  app.get('/products/:id', (_req, res) => {
    res.json(origin())
  })
  return app
}
