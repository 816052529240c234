// Tests of the product routes, for both shops. Called by surface.test.ts.

import { describe, expect, it } from 'vitest'
import type { Opened } from './opened.ts'
import { request } from './request.ts'

export function productSuite(at: () => Opened): void {
  describe('products', () => {
    it('lists, filters and sorts', async () => {
      const all = await request(at().server).get('/api/products').expect(200)
      expect(all.body.products).toHaveLength(24)
      expect(all.headers['content-type']).toBe('application/json; charset=utf-8')
      const query = { category: 'green', sort: 'price' }
      const green = await request(at().server).get('/api/products').query(query).expect(200)
      expect(green.body.products.map((p: { id: number }) => p.id)).toEqual([3, 4, 1, 2])
    })

    it('is cached below /api only', async () => {
      const path = '/products/11'
      const first = await request(at().server).get(`/api${path}`).expect(200)
      expect(first.headers['cache-status']).toMatch(/^Stampede; fwd=uri-miss.*; stored/)
      const second = await request(at().server).get(`/api${path}`).expect(200)
      expect(second.headers['cache-status']).toMatch(/^Stampede; hit; ttl=\d+$/)
      expect(second.headers.age).toBe('0')
      expect(second.body).toEqual(first.body)
      const third = await request(at().server).get(`/uncached/api${path}`).expect(200)
      expect(third.headers['cache-status']).toBeUndefined()
      expect(third.body).toEqual(first.body)
    })

    it('responds 304 to a client that has the response already', async () => {
      for (const path of ['/api/products/12', '/uncached/api/products/12', '/']) {
        const { headers } = await request(at().server).get(path).expect(200)
        await request(at().server)
          .get(path)
          .set('if-none-match', headers.etag as string)
          .expect(304)
      }
    })

    it.each([
      ['/api/products/25', 404, 'The shop has no product with this number.'],
      ['/api/products/99999999999', 404, 'The shop has no product with this number.'],
      ['/api/products/seven', 400, 'A product number has digits only, e.g. 7.'],
      ['/api/products/-1', 400, 'A product number has digits only, e.g. 7.'],
      ['/api/products?sort=stock', 400, 'sort must be one of: price, name.'],
      ['/api/products?category=coffee', 400, 'category must be one of: green, white, '],
      ['/api/nothing', 404, 'There is no page at this address.'],
      ['/.env', 404, 'There is no page at this address.'],
      ['/..%2fpackage.json', 404, 'There is no page at this address.'],
    ])('responds to %s with a %i problem', async (path, status, detail) => {
      const { body, headers } = await request(at().server).get(path).expect(status)
      expect(headers['content-type']).toBe('application/problem+json')
      expect(body).toMatchObject({ type: 'about:blank', status })
      expect(body.detail).toContain(detail)
    })

    it('shows a change at once without the cache, and later with it', async () => {
      const path = '/products/19'
      const before = await request(at().server).get(`/api${path}`)
      const { priceCents } = before.body
      const changed = await request(at().server)
        .put(`/api${path}`)
        .send({ priceCents: priceCents + 5 })
      expect(changed.body).toMatchObject({ id: 19, priceCents: priceCents + 5 })
      const cached = await request(at().server).get(`/api${path}`)
      const uncached = await request(at().server).get(`/uncached/api${path}`)
      expect(cached.body.priceCents).toBe(priceCents)
      expect(uncached.body.priceCents).toBe(priceCents + 5)
    })

    it.each([
      ['/api/products/1', {}, 400, 'Send priceCents, stock, or both.'],
      ['/api/products/1', { priceCents: 0 }, 400, 'priceCents must be a whole number from 1 to'],
      ['/api/products/1', { stock: '5' }, 400, 'stock must be a whole number from 0 to'],
      ['/api/products/1', { price: 5 }, 400, 'There is no field "price"'],
      ['/api/products/1', [1], 400, 'The body must be a JSON object.'],
      ['/api/products/25', { stock: 5 }, 404, 'The shop has no product with this number.'],
      ['/api/products/x', { stock: 5 }, 400, 'A product number has digits only'],
    ])('refuses to change %s to %j', async (path, body, status, detail) => {
      const response = await request(at().server).put(path).send(body).expect(status)
      expect(response.body.detail).toContain(detail)
    })

    it('refuses a body that is broken, too large or of another type', async () => {
      const put = () =>
        request(at().server).put('/api/products/1').set('content-type', 'application/json')
      await put().send('{"stock":').expect(400)
      await put()
        .send(JSON.stringify({ stock: 1, pad: 'x'.repeat(4_000_000) }))
        .expect(413)
      await put().set('content-type', 'text/plain').send('{"stock":1}').expect(415)
    })

    it('refuses changes from other machines', async () => {
      const put = request(at().server).put('/api/products/1').set('host', 'shop.example')
      const { body } = await put.send({ stock: 1 }).expect(403)
      expect(body.title).toBe('Only from this machine')
    })
  })
}
