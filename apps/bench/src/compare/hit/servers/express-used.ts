// Express 5 that only writes ready bytes, before its routes, where a cache for the whole app stands.
import type { RequestListener } from 'node:http'
import express from 'express'
import { BODY, FIELDS } from '../../lib/product.ts'

export function listener(): RequestListener {
  const app = express()
  app.use((_req, res) => {
    res.writeHead(200, FIELDS)
    res.end(BODY)
  })
  return app
}
