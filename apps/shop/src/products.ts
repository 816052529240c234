// Queries of the shop. Values are parameters, and the sort column comes from a fixed list.

import type { Database } from './database.ts'
import type { Product } from './seed.ts'

export type Sort = 'price' | 'name'

export interface ProductFilter {
  readonly sort?: Sort | undefined
  readonly category?: string | undefined
}

export interface ProductChange {
  readonly priceCents?: number | undefined
  readonly stock?: number | undefined
}

const COLUMNS = `id, name, category, region, price_cents as "priceCents", stock, description, liquor,
  steep_celsius as "steepCelsius", steep_seconds as "steepSeconds"`

// The id breaks ties, so that the order of a list never changes.
const ORDER: Readonly<Record<Sort, string>> = { price: 'price_cents, id', name: 'name, id' }

export const SORTS: readonly Sort[] = ['price', 'name']

export function listProducts(database: Database, filter: ProductFilter): Promise<Product[]> {
  const order = filter.sort === undefined ? 'id' : ORDER[filter.sort]
  const sql = `select ${COLUMNS} from products where $1::text is null or category = $1 order by ${order}`
  return database.query<Product>(sql, [filter.category ?? null])
}

export async function findProduct(database: Database, id: number): Promise<Product | undefined> {
  const rows = await database.query<Product>(`select ${COLUMNS} from products where id = $1`, [id])
  return rows[0]
}

/** Changes the given fields and returns the product. Returns undefined for an unknown product. */
export async function changeProduct(
  database: Database,
  id: number,
  change: ProductChange,
): Promise<Product | undefined> {
  const sql = `update products
    set price_cents = coalesce($2, price_cents), stock = coalesce($3, stock)
    where id = $1 returning ${COLUMNS}`
  const params = [id, change.priceCents ?? null, change.stock ?? null]
  return (await database.query<Product>(sql, params))[0]
}
