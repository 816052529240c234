// Sends one order many times at once, and once more afterwards, with one idempotency key or
// without. Then it reads the rows from the database. Called by lab.ts.

import { randomUUID } from 'node:crypto'
import type { Database } from './database.ts'
import { type Address, fire, type Target } from './fire.ts'
import { type Order, ordersSince, restock } from './orders.ts'
import { readWholeNumber, refuseUnknownFields } from './read-json.ts'
import { Problem } from './response.ts'

export interface DoubleClick {
  readonly productId: number
  /** Number of requests that are sent at once. */
  readonly clicks: number
  readonly keyed: boolean
}

export interface Outcome extends DoubleClick {
  /** Number of responses by status. Replays are counted apart, as `201 replayed`. */
  readonly statuses: Record<string, number>
  /** Status of the last request, which was sent after all other requests had their responses. */
  readonly later: string
  readonly rows: number
  /** The first rows only. */
  readonly orders: readonly Order[]
  readonly stockBefore: number
  readonly stockAfter: number
}

/** Addresses of the shop, customer, and time limit of the run. */
export interface Clicker {
  next(): Address
  /** The Host header with which the client addressed the shop. */
  readonly hostHeader: string
  readonly customer: string
  readonly deadline: AbortSignal
}

const MAX_CLICKS = 200
const SHOWN_ROWS = 3
/** Number of tins that must be left on the shelf after a run. */
const SPARE_TINS = 24

/** The server sends the requests, because a browser sends only six at a time. */
export async function doubleClick(
  database: Database,
  click: DoubleClick,
  { next, hostHeader, customer, deadline }: Clicker,
): Promise<Outcome> {
  const { productId, clicks, keyed } = click
  // One tin per request, so that a second order does not fail for lack of stock.
  const before = await restock(database, productId, clicks + 1 + SPARE_TINS)
  if (before === undefined) {
    throw new Problem(404, 'No such product', 'The shop has no product with this number.')
  }
  const target: Target = {
    path: '/api/orders',
    method: 'POST',
    headers: {
      host: hostHeader,
      'content-type': 'application/json',
      'x-customer': customer,
      ...(keyed && { 'idempotency-key': randomUUID() }),
    },
    body: JSON.stringify({ productId, quantity: 1 }),
  }
  const { statuses } = await fire({ target, requests: clicks, next, deadline })
  const later = await fire({ target, requests: 1, next, deadline })
  const { lastOrderId, stock: stockBefore } = before
  const after = await ordersSince(database, { customer, productId, lastOrderId })
  return {
    ...click,
    statuses,
    later: Object.keys(later.statuses)[0] ?? 'none',
    rows: after.orders.length,
    orders: after.orders.slice(0, SHOWN_ROWS),
    stockBefore,
    stockAfter: after.stock,
  }
}

/** Throws a 400 `Problem` if the body is not a valid double click. */
export function readDoubleClick(body: Record<string, unknown>): DoubleClick {
  refuseUnknownFields(body, ['productId', 'clicks', 'keyed'])
  const productId = readWholeNumber(body, 'productId', 1, 999_999_999)
  const clicks = readWholeNumber(body, 'clicks', 2, MAX_CLICKS)
  const { keyed } = body
  if (productId !== undefined && clicks !== undefined && typeof keyed === 'boolean') {
    return { productId, clicks, keyed }
  }
  const detail = `Send productId, clicks (from 2 to ${MAX_CLICKS}) and keyed (true or false).`
  throw new Problem(400, 'Bad value', detail)
}
