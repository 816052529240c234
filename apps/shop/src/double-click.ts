// A double click, or a worse one: the same order many times at once, and once more when they are answered;
// all under one idempotency key, or without any. Then the database is asked what came of it. Called by lab.ts.

import { randomUUID } from 'node:crypto'
import { Problem } from './answer.ts'
import type { Database } from './database.ts'
import { fire, type Target } from './fire.ts'
import { type Order, ordersSince, restock } from './orders.ts'
import { readWholeNumber, refuseUnknownFields } from './read-json.ts'

export interface DoubleClick {
  readonly productId: number
  /** How many are sent at once. */
  readonly clicks: number
  readonly keyed: boolean
}

export interface Outcome extends DoubleClick {
  /** The answers by status; of those given again, `replayed` is said. */
  readonly statuses: Record<string, number>
  /** The answer to the one that was sent when the others had theirs. */
  readonly later: string
  readonly rows: number
  /** The first rows. */
  readonly orders: readonly Order[]
  readonly stockBefore: number
  readonly stockAfter: number
}

/** Where the shop is, who clicks, and how long it may take. */
export interface Clicker {
  readonly origin: Pick<Target, 'host' | 'port'>
  /** As the clicker addressed the shop. */
  readonly hostHeader: string
  readonly customer: string
  readonly deadline: AbortSignal
}

const MAX_CLICKS = 200
const SHOWN_ROWS = 3
/** What the lab leaves on the shelf for others, at least. */
const SPARE_TINS = 24

/** The requests come from here and not from the browser, which would send six at a time. */
export async function doubleClick(
  database: Database,
  click: DoubleClick,
  { origin, hostHeader, customer, deadline }: Clicker,
): Promise<Outcome> {
  const { productId, clicks, keyed } = click
  // A tin for each, so that it is not the stock that stops the second one.
  const before = await restock(database, productId, clicks + 1 + SPARE_TINS)
  if (before === undefined) {
    throw new Problem(404, 'No such product', 'The shop has no product with this number.')
  }
  const target: Target = {
    ...origin,
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
  const { statuses } = await fire(target, clicks, deadline)
  const later = await fire(target, 1, deadline)
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

/** Throws a 400 `Problem` for whatever is not a double click. */
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
