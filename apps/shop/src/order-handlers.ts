// The handlers of orders, free of any framework: a request in, an `Answer` out. They know nothing of
// idempotency keys but this: two attempts of one request carry the same mark.

import type { IncomingMessage } from 'node:http'
import { type Answer, answer, json, Problem } from './answer.ts'
import { readCustomer } from './customer.ts'
import type { Database } from './database.ts'
import { refuseStrangers } from './lab-guard.ts'
import { findOrder, listOrders, placeOrder } from './orders.ts'
import { readJson, readWholeNumber, refuseUnknownFields } from './read-json.ts'

export interface OrderHandlers {
  /** Who may order, and on whose account: before anything is looked up. Throws a `Problem`. */
  admit(message: IncomingMessage): string
  place(message: IncomingMessage, options: PlaceOptions): Promise<Answer>
  list(message: IncomingMessage): Promise<Answer>
  show(message: IncomingMessage, id: string): Promise<Answer>
}

export interface PlaceOptions {
  /** The mark of the request, if it has one. */
  readonly request: string | undefined
  /** Called after the transaction and before the answer. */
  onSold(productId: number): Promise<void>
}

// Between the shop and one customer: not for any cache.
const PRIVATE = { 'cache-control': 'private, no-store' }

const MAX_QUANTITY = 100

export function orderHandlers(database: Database): OrderHandlers {
  return {
    admit: (message) => {
      // An order takes tins from everybody's shelf, so it is guarded as a change of price is.
      refuseStrangers(message)
      return readCustomer(message)
    },

    place: (message, { request, onSold }) =>
      answer(async () => {
        const customer = readCustomer(message)
        const wanted = readWanted(await readJson(message))
        const placed = await placeOrder(database, { customer, ...wanted, request })
        if (placed === 'no such product') throw noSuch('product')
        if (placed === 'out of stock') throw outOfStock(wanted.quantity)
        // The order stands, whatever becomes of this: the old page is gone in seconds by itself.
        await onSold(placed.productId).catch((error: Error) => {
          console.error(`Order ${placed.id} is not on the product's page yet: ${error.message}`)
        })
        const location = `/api/orders/${placed.id}`
        return { ...json(placed, { location, ...PRIVATE }), status: 201 }
      }),

    list: (message) =>
      answer(async () =>
        json({ orders: await listOrders(database, readCustomer(message)) }, PRIVATE),
      ),

    show: (message, id) =>
      answer(async () => {
        const customer = readCustomer(message)
        // PostgreSQL's integer ends before ten digits do; no order has such a number.
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
