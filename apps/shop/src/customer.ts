// Who orders: whatever the x-customer header says. It stands in for a login, and is none: anybody can be
// anybody. What it keeps is the rule that a key belongs to one customer, and never to "somebody".

import type { IncomingHttpHeaders } from 'node:http'
import { Problem } from './answer.ts'

/** Throws a 401 `Problem` without a customer: a default would be one bucket of keys for all. */
export function readCustomer({ headers }: { readonly headers: IncomingHttpHeaders }): string {
  const customer = headers['x-customer']
  if (typeof customer === 'string' && /^[\w.-]{1,64}$/.test(customer)) return customer
  const detail =
    'Say who orders in the x-customer header: 1 to 64 letters, digits, dots, dashes or underscores.'
  throw new Problem(401, 'Who is it?', detail, { 'www-authenticate': 'X-Customer realm="orders"' })
}
