// HTTP tests of the shop on both frameworks: one suite, so that they cannot differ.

import { createServer, type RequestListener, type Server } from 'node:http'
import { createStampede, type Stampede } from '@stampede/core'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { createApp as createExpressApp } from '../../shop-express/src/app.ts'
import { createApp as createKoaApp } from '../../shop-koa/src/app.ts'
import { type Database, openDatabase } from './database.ts'
import { type Pages, readPages } from './pages.ts'
import { drain, listen } from './serve.ts'
import { createShop, type Shop } from './shop.ts'
import { doubleClickSuite } from './testing/double-click-suite.ts'
import { labSuite } from './testing/lab-suite.ts'
import { orderSuite } from './testing/order-suite.ts'
import { pageSuite } from './testing/page-suite.ts'
import { productSuite } from './testing/product-suite.ts'
import { request } from './testing/request.ts'

type Build = (options: { shop: Shop; stampede: Stampede; pages: Pages }) => RequestListener

const FRAMEWORKS: ReadonlyArray<[string, Build]> = [
  ['Express', (options) => createExpressApp({ ...options, store: 'memory' })],
  ['Koa', (options) => createKoaApp({ ...options, store: 'memory' }).callback()],
]

let database: Database
let pages: Pages

beforeAll(async () => {
  database = await openDatabase({ latencyMs: 5 })
  pages = await readPages()
})

afterAll(() => database.close())

/** Starts a shop on a free port. The caller closes it. */
async function open(build: Build, on: Database) {
  const stampede = createStampede()
  const server = await listen(createServer(build({ shop: createShop(on), stampede, pages })), 0)
  const close = () => drain(server).then(() => stampede.close())
  return { server, stampede, close }
}

describe.each(FRAMEWORKS)('the shop on %s', (framework, build) => {
  let server: Server
  let close: () => Promise<void>

  beforeAll(async () => {
    ;({ server, close } = await open(build, database))
  })

  afterAll(() => close())

  const opened = () => ({ framework, server, database, pages })
  productSuite(opened)
  orderSuite(opened)
  labSuite(opened)
  doubleClickSuite(opened)
  pageSuite(opened)
})

it.each(FRAMEWORKS)('%s reports a broken database without its details', async (_, build) => {
  const log = vi.spyOn(console, 'error').mockImplementation(() => {})
  const query = () => Promise.reject(new Error('secret of the database'))
  const { server, close } = await open(build, { ...database, query })
  for (const path of ['/api/products', '/uncached/api/products']) {
    const { body, headers } = await request(server).get(path).expect(500)
    expect(headers['content-type']).toBe('application/problem+json')
    expect(JSON.stringify(body)).not.toContain('secret')
  }
  expect(log).toHaveBeenCalled()
  log.mockRestore()
  await close()
})

it.each(FRAMEWORKS)('%s keeps an order if the purge after it fails', async (_, build) => {
  const log = vi.spyOn(console, 'error').mockImplementation(() => {})
  const { server, stampede, close } = await open(build, database)
  vi.spyOn(stampede, 'purge').mockRejectedValue(new Error('no Redis'))
  const post = request(server).post('/api/orders').set({ 'x-customer': 'ada' })
  const { body } = await post.send({ productId: 22, quantity: 1 }).expect(201)
  expect(log).toHaveBeenCalledWith(
    `The page of product 22 was not purged after order ${body.id}: no Redis`,
  )
  log.mockRestore()
  await close()
})
