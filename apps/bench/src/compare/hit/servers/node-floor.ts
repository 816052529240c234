// node:http that only writes ready bytes.
import type { RequestListener } from 'node:http'
import { BODY, FIELDS } from '../../lib/product.ts'

/** What Express adds is stored with the rest, and so in a hit of a front. */
const FIELDS_OF_EXPRESS = { ...FIELDS, 'X-Powered-By': 'Express' }

export const listener = (): RequestListener => (_req, res) => {
  res.writeHead(200, FIELDS_OF_EXPRESS)
  res.end(BODY)
}
