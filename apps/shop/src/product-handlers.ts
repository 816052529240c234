// Handlers of the product routes for both frameworks: a request in, a response out.

import type { IncomingMessage } from 'node:http'
import type { Database } from './database.ts'
import { requireLocal } from './lab-guard.ts'
import type { OriginRuns } from './origin-runs.ts'
import {
  changeProduct,
  findProduct,
  listProducts,
  type ProductChange,
  type ProductFilter,
  SORTS,
} from './products.ts'
import { readJson, readWholeNumber, refuseUnknownFields } from './read-json.ts'
import { json, Problem, respond, type ShopResponse } from './response.ts'
import { CATEGORIES } from './seed.ts'

export interface ProductHandlers {
  list(message: IncomingMessage): Promise<ShopResponse>
  show(message: IncomingMessage, id: string): Promise<ShopResponse>
  change(message: IncomingMessage, id: string): Promise<ShopResponse>
}

export function productHandlers(
  database: Database,
  runs: OriginRuns,
  prefix: string,
): ProductHandlers {
  return {
    list: (message) =>
      respond(async () => {
        const query = queryOf(message)
        const filter = readFilter(query)
        runs.record(`GET ${prefix}/products`, query.get('run'))
        return json({ products: await listProducts(database, filter) })
      }),

    show: (message, id) =>
      respond(async () => {
        const number = readId(id)
        const query = queryOf(message)
        runs.record(`GET ${prefix}/products/:id`, query.get('run'))
        const product = (await findProduct(database, number)) ?? noSuchProduct()
        return json(product, lifetimeOf(query))
      }),

    change: (message, id) =>
      respond(async () => {
        requireLocal(message)
        const number = readId(id)
        const change = readChange(await readJson(message))
        runs.record(`PUT ${prefix}/products/:id`, null)
        return json((await changeProduct(database, number, change)) ?? noSuchProduct())
      }),
  }
}

/** Unknown parameters are ignored. The lab uses one to make a cold key. */
function queryOf(message: IncomingMessage): URLSearchParams {
  const url = message.url ?? ''
  const start = url.indexOf('?')
  return new URLSearchParams(start === -1 ? '' : url.slice(start))
}

/** The lab asks for a short lifetime in a run in which the page must expire. */
function lifetimeOf(query: URLSearchParams): Record<string, string> {
  const seconds = query.get('maxage')
  return seconds !== null && /^\d{1,2}$/.test(seconds)
    ? { 'cache-control': `max-age=${seconds}` }
    : {}
}

function readFilter(query: URLSearchParams): ProductFilter {
  const sort = query.get('sort')
  const category = query.get('category')
  return {
    sort: sort === null ? undefined : oneOf('sort', sort, SORTS),
    category: category === null ? undefined : oneOf('category', category, CATEGORIES),
  }
}

function oneOf<T extends string>(name: string, value: string, known: readonly T[]): T {
  const found = known.find((candidate) => candidate === value)
  if (found !== undefined) return found
  throw new Problem(400, 'Bad query', `${name} must be one of: ${known.join(', ')}.`)
}

function readId(text: string): number {
  if (!/^\d+$/.test(text)) {
    throw new Problem(400, 'Bad product number', 'A product number has digits only, e.g. 7.')
  }
  // A number of ten digits may exceed PostgreSQL's integer, and the query would fail.
  return text.length > 9 ? 0 : Number(text)
}

function readChange(body: Record<string, unknown>): ProductChange {
  refuseUnknownFields(body, ['priceCents', 'stock'])
  const priceCents = readWholeNumber(body, 'priceCents', 1, 10_000_000)
  const stock = readWholeNumber(body, 'stock', 0, 1_000_000)
  if (priceCents === undefined && stock === undefined) {
    throw new Problem(400, 'Nothing to change', 'Send priceCents, stock, or both.')
  }
  return { priceCents, stock }
}

function noSuchProduct(): never {
  throw new Problem(404, 'No such product', 'The shop has no product with this number.')
}
