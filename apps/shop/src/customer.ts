// The customer of a request, from the x-customer header, in place of a login. Idempotency keys
// belong to one customer.

import type { IncomingHttpHeaders } from 'node:http'
import { Problem } from './response.ts'

/**
 * Throws a 401 `Problem` without a customer. A default customer would let all clients share keys.
 */
export function readCustomer({ headers }: { readonly headers: IncomingHttpHeaders }): string {
  const customer = headers['x-customer']
  if (typeof customer === 'string' && /^[\w.-]{1,64}$/.test(customer)) return customer
  const detail =
    'Send the customer in the x-customer header: 1 to 64 letters, digits, dots, dashes or underscores.'
  throw new Problem(401, 'Customer missing', detail, {
    'www-authenticate': 'X-Customer realm="orders"',
  })
}
