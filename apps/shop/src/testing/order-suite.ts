// Tests of orders, for both shops. Called by surface.test.ts.

import { randomUUID } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { changeProduct } from '../products.ts'
import type { Opened } from './opened.ts'
import { request } from './request.ts'

export function orderSuite(at: () => Opened): void {
  /** A new customer for each call. */
  const somebody = () => {
    const customer = `c-${randomUUID()}`
    return {
      customer,
      order: (body: object, key?: string) => {
        const post = request(at().server).post('/api/orders').set('x-customer', customer)
        return (key === undefined ? post : post.set('idempotency-key', key)).send(body)
      },
      get: (path: string) => request(at().server).get(path).set('x-customer', customer),
    }
  }
  const stockOf = async (id: number) =>
    (await request(at().server).get(`/uncached/api/products/${id}`)).body.stock
  const tin = { productId: 14, quantity: 1 }

  describe('orders', () => {
    it('are placed, and shown to their customer only, uncached', async () => {
      const { customer, order, get } = somebody()
      const stock = await stockOf(14)
      const placed = await order({ productId: 14, quantity: 3 }).expect(201)
      expect(placed.body).toMatchObject({ productId: 14, quantity: 3, totalCents: 2970, customer })
      expect(placed.body.product).toBe('Assam, Second Flush')
      expect(placed.headers.location).toBe(`/api/orders/${placed.body.id}`)
      expect(await stockOf(14)).toBe(stock - 3)

      const shown = await get(placed.headers.location as string).expect(200)
      expect(shown.body).toEqual(placed.body)
      const newer = await order(tin).expect(201)
      const listed = await get('/api/orders').expect(200)
      expect(listed.body.orders).toEqual([newer.body, placed.body])
      for (const { headers } of [placed, shown, listed]) {
        expect(headers['cache-control']).toBe('private, no-store')
        expect(headers['cache-status']).toBeUndefined()
      }
    })

    it('are stored once per key, and a repeat gets the first response', async () => {
      const { order, get } = somebody()
      const stock = await stockOf(14)
      const first = await order(tin, 'k-1').expect(201)
      const again = await order(tin, 'k-1').expect(201)
      expect(again.text).toBe(first.text)
      expect(again.headers['idempotency-replayed']).toBe('true')
      expect(again.headers.location).toBe(first.headers.location)
      expect(again.headers['cache-control']).toBe('private, no-store')
      expect((await get('/api/orders')).body.orders).toHaveLength(1)
      expect(await stockOf(14)).toBe(stock - 1)
      await order({ ...tin, quantity: 2 }, 'k-1').expect(422)
    })

    it('carry an identifier by which a later attempt recognises them', async () => {
      const { customer, order } = somebody()
      await order(tin, 'k-1').expect(201)
      await order(tin).expect(201)
      const sql = 'select request from orders where customer = $1 order by id'
      const rows = await at().database.query<{ request: string | null }>(sql, [customer])
      expect(rows).toEqual([{ request: expect.stringMatching(/.{20}/) }, { request: null }])
    })

    it('keep the keys of two customers apart', async () => {
      const [one, other] = [somebody(), somebody()]
      const first = await one.order(tin, 'same').expect(201)
      const second = await other.order(tin, 'same').expect(201)
      expect(second.body.id).not.toBe(first.body.id)
      await other.get(first.headers.location as string).expect(404)
      expect((await other.get('/api/orders')).body.orders).toEqual([second.body])
    })

    it('appear at once on the cached page of the product, and on the list', async () => {
      const paths = ['/api/products/14', '/api/products']
      for (const path of paths) await request(at().server).get(path).expect(200)
      await somebody().order(tin, 'k-1').expect(201)
      const [page, list] = await Promise.all(paths.map((path) => request(at().server).get(path)))
      expect(page?.headers['cache-status']).toContain('fwd=uri-miss')
      expect(page?.body.stock).toBe(await stockOf(14))
      expect(list?.body.products[13].stock).toBe(page?.body.stock)
    })

    it.each([
      [{ productId: 14 }, 400, 'Send productId and quantity.'],
      [{ productId: 14, quantity: 0 }, 400, 'quantity must be a whole number from 1 to 100.'],
      [{ productId: '14', quantity: 1 }, 400, 'productId must be a whole number'],
      [{ ...tin, totalCents: 1 }, 400, 'There is no field "totalCents"'],
      [{ productId: 25, quantity: 1 }, 404, 'The shop has no product with this number.'],
    ])('refuse %j', async (body, status, detail) => {
      const { order, get } = somebody()
      const refused = await order(body, 'k-1').expect(status)
      expect(refused.headers['content-type']).toBe('application/problem+json')
      expect(refused.body.detail).toContain(detail)
      expect((await get('/api/orders')).body.orders).toEqual([])
    })

    it('are refused if there is too little stock, and take no tins then', async () => {
      await changeProduct(at().database, 18, { stock: 2 })
      const { order } = somebody()
      const refused = await order({ productId: 18, quantity: 3 }).expect(409)
      expect(refused.body.detail).toBe('There are not 3 tins left.')
      await order({ productId: 18, quantity: 2 }).expect(201)
      expect((await order({ productId: 18, quantity: 1 }).expect(409)).body.title).toBe(
        'Out of stock',
      )
      expect(await stockOf(18)).toBe(0)
    })

    it.each([undefined, '', 'a b', 'x'.repeat(65)])(
      'are refused without a valid customer: %j',
      async (who) => {
        const headers = who === undefined ? {} : { 'x-customer': who }
        const { server } = at()
        const refused = await request(server).post('/api/orders').set(headers).send(tin).expect(401)
        expect(refused.headers['www-authenticate']).toBe('X-Customer realm="orders"')
        await request(server)
          .post('/api/orders')
          .set({ ...headers, 'idempotency-key': 'k' })
          .expect(401)
        await request(server).get('/api/orders').set(headers).expect(401)
        await request(server).get('/api/orders/1').set(headers).expect(401)
      },
    )

    it('are refused for other machines, and a missing order is a 404', async () => {
      const { order, get } = somebody()
      await order(tin, 'k-1').set('host', 'shop.example').expect(403)
      for (const id of ['0', 'x', '99999999999']) await get(`/api/orders/${id}`).expect(404)
    })
  })
}
