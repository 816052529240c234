// node:http that only writes ready bytes.
import type { RequestListener } from 'node:http'
import { BODY, FIELDS } from '../../lib/product.ts'

export const listener = (): RequestListener => (_req, res) => {
  res.writeHead(200, FIELDS)
  res.end(BODY)
}
