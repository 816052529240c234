// node:http with a listener that only writes ready bytes.
import type { RequestListener } from 'node:http'
import { BODY, FIELDS } from '../../lib/product.ts'

/** Express adds this field on a miss. The front stores it, so a hit has it too. */
const FIELDS_OF_EXPRESS = { ...FIELDS, 'X-Powered-By': 'Express' }

export const listener = (): RequestListener => (_req, res) => {
  res.writeHead(200, FIELDS_OF_EXPRESS)
  res.end(BODY)
}
