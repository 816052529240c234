// Express 5 with a handler that only writes ready bytes.
import type { RequestListener } from 'node:http'
import express from 'express'
import { BODY, FIELDS } from '../../lib/product.ts'

export function listener(): RequestListener {
  const app = express()
  app.get('/products/:id', (_req, res) => {
    res.writeHead(200, FIELDS)
    res.end(BODY)
  })
  return app
}
