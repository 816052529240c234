// Handlers of orders for both frameworks: a request in, a response out. They do not see the
// idempotency key, but only `request`, which is the same in all attempts of one request.

import type { IncomingMessage } from 'node:http'
import { readCustomer } from './customer.ts'
import type { Database } from './database.ts'
import { requireLocal } from './lab-guard.ts'
import { findOrder, listOrders, placeOrder } from './orders.ts'
import { readJson, readWholeNumber, refuseUnknownFields } from './read-json.ts'
import { json, Problem, respond, type ShopResponse } from './response.ts'

export interface OrderHandlers {
  /**
   * Returns the customer. Called before any other work. Throws a `Problem` if the order is not
   * allowed.
   */
  admit(message: IncomingMessage): string
  place(message: IncomingMessage, options: PlaceOptions): Promise<ShopResponse>
  list(message: IncomingMessage): Promise<ShopResponse>
  show(message: IncomingMessage, id: string): Promise<ShopResponse>
}

export interface PlaceOptions {
  /** Identifies the request over all its attempts. Undefined without an idempotency key. */
  readonly request: string | undefined
  /** Called after the transaction and before the response. */
  onSold(productId: number): Promise<void>
}

// The response belongs to one customer, so no cache may store it.
const PRIVATE = { 'cache-control': 'private, no-store' }

const MAX_QUANTITY = 100

export function orderHandlers(database: Database): OrderHandlers {
  return {
    admit: (message) => {
      // An order takes tins from the shelf that all visitors share, so it has the same limits as a
      // price change.
      requireLocal(message)
      return readCustomer(message)
    },

    place: (message, { request, onSold }) =>
      respond(async () => {
        const customer = readCustomer(message)
        const wanted = readWanted(await readJson(message))
        const placed = await placeOrder(database, { customer, ...wanted, request })
        if (placed === 'no such product') throw noSuch('product')
        if (placed === 'out of stock') throw outOfStock(wanted.quantity)
        // If the purge fails, the order still holds. The old page expires after a few seconds.
        await onSold(placed.productId).catch((error: Error) => {
          console.error(
            `The page of product ${placed.productId} was not purged after order ${placed.id}: ${error.message}`,
          )
        })
        const location = `/api/orders/${placed.id}`
        return { ...json(placed, { location, ...PRIVATE }), status: 201 }
      }),

    list: (message) =>
      respond(async () =>
        json({ orders: await listOrders(database, readCustomer(message)) }, PRIVATE),
      ),

    show: (message, id) =>
      respond(async () => {
        const customer = readCustomer(message)
        // A number of ten digits may exceed PostgreSQL's integer, and the query would fail.
        const number = /^\d{1,9}$/.test(id) ? Number(id) : 0
        const order = await findOrder(database, customer, number)
        if (order === undefined) throw noSuch('order')
        return json(order, PRIVATE)
      }),
  }
}

function readWanted(body: Record<string, unknown>): { productId: number; quantity: number } {
  refuseUnknownFields(body, ['productId', 'quantity'])
  const productId = readWholeNumber(body, 'productId', 1, 999_999_999)
  const quantity = readWholeNumber(body, 'quantity', 1, MAX_QUANTITY)
  if (productId !== undefined && quantity !== undefined) return { productId, quantity }
  throw new Problem(400, 'Incomplete order', 'Send productId and quantity.')
}

function noSuch(what: 'product' | 'order'): Problem {
  const whose = what === 'order' ? 'You have no order' : 'The shop has no product'
  return new Problem(404, `No such ${what}`, `${whose} with this number.`)
}

function outOfStock(quantity: number): Problem {
  const detail = quantity === 1 ? 'The last tin is gone.' : `There are not ${quantity} tins left.`
  return new Problem(409, 'Out of stock', detail)
}
