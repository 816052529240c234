// Orders in the database. One transaction takes the tins and writes the row. Called by
// order-handlers.ts.

import type { Database } from './database.ts'

export interface Order {
  readonly id: number
  readonly productId: number
  /** The product's name at the time of the order. */
  readonly product: string
  readonly quantity: number
  readonly totalCents: number
  readonly customer: string
  readonly createdAt: Date
}

export interface NewOrder {
  readonly customer: string
  readonly productId: number
  readonly quantity: number
  /**
   * Unique per request and the same in all its attempts. If an attempt died after its transaction,
   * the next one finds its row and sells nothing more. Undefined: attempts cannot be recognised.
   */
  readonly request: string | undefined
}

const COLUMNS = `id, product_id as "productId", product, quantity, total_cents as "totalCents", customer,
  created_at as "createdAt"`

const LATEST = 20

/** Returns the order, or the reason why there is none. */
export function placeOrder(
  database: Database,
  { customer, productId, quantity, request }: NewOrder,
): Promise<Order | 'no such product' | 'out of stock'> {
  return database.transaction(async (query) => {
    const before = `select ${COLUMNS} from orders where request = $1`
    const [earlier] = request === undefined ? [] : await query<Order>(before, [request])
    if (earlier !== undefined) return earlier

    const take = `update products set stock = stock - $2 where id = $1 and stock >= $2
      returning name, price_cents as "priceCents"`
    const [taken] = await query<{ name: string; priceCents: number }>(take, [productId, quantity])
    if (taken === undefined) {
      const known = await query('select from products where id = $1', [productId])
      return known.length === 0 ? 'no such product' : 'out of stock'
    }

    const insert = `insert into orders (product_id, product, quantity, total_cents, customer, request)
      values ($1, $2, $3, $4, $5, $6) returning ${COLUMNS}`
    const totalCents = taken.priceCents * quantity
    const values = [productId, taken.name, quantity, totalCents, customer, request ?? null]
    return (await query<Order>(insert, values))[0] as Order
  })
}

/** Returns the latest orders of this customer, newest first. */
export function listOrders(database: Database, customer: string): Promise<Order[]> {
  const sql = `select ${COLUMNS} from orders where customer = $1 order by id desc limit ${LATEST}`
  return database.query<Order>(sql, [customer])
}

/** Returns undefined also for another customer's order. */
export async function findOrder(
  database: Database,
  customer: string,
  id: number,
): Promise<Order | undefined> {
  const sql = `select ${COLUMNS} from orders where customer = $1 and id = $2`
  return (await database.query<Order>(sql, [customer, id]))[0]
}

/** The stock of one product and the last order id, before a run of the lab. */
export interface Stocktaking {
  readonly stock: number
  readonly lastOrderId: number
}

/** Fills the shelf up to `atLeast` tins. Returns undefined for an unknown product. */
export async function restock(
  database: Database,
  productId: number,
  atLeast: number,
): Promise<Stocktaking | undefined> {
  const sql = `update products set stock = greatest(stock, $2) where id = $1
    returning stock, (select coalesce(max(id), 0) from orders) as "lastOrderId"`
  return (await database.query<Stocktaking>(sql, [productId, atLeast]))[0]
}

/**
 * Returns the customer's orders of one product since `lastOrderId`, oldest first, and the remaining
 * stock.
 */
export function ordersSince(
  database: Database,
  {
    customer,
    productId,
    lastOrderId,
  }: { customer: string; productId: number; lastOrderId: number },
): Promise<{ orders: Order[]; stock: number }> {
  return database.transaction(async (query) => {
    const mine = 'customer = $1 and product_id = $2 and id > $3'
    const sql = `select ${COLUMNS} from orders where ${mine} order by id`
    const orders = await query<Order>(sql, [customer, productId, lastOrderId])
    const left = 'select stock from products where id = $1'
    const [product] = await query<{ stock: number }>(left, [productId])
    return { orders, stock: product?.stock ?? 0 }
  })
}
