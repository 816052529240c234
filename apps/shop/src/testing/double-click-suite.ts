// Tests of the double click, for both shops. Called by surface.test.ts.

import { describe, expect, it } from 'vitest'
import { changeProduct } from '../products.ts'
import type { Opened } from './opened.ts'
import { request } from './request.ts'

export function doubleClickSuite(at: () => Opened): void {
  const click = (body: object) =>
    request(at().server).post('/api/lab/double-click').set('x-customer', 'lab').send(body)

  describe('the double click', () => {
    it('leaves one row with a key, and one row per click without', async () => {
      const keyed = await click({ productId: 23, clicks: 30, keyed: true }).expect(200)
      const { statuses, stockBefore, stockAfter } = keyed.body
      // Requests during the first one got a 409.
      expect(statuses[201]).toBe(1)
      expect((statuses[409] ?? 0) + (statuses['201 replayed'] ?? 0)).toBe(29)
      expect(keyed.body).toMatchObject({ clicks: 30, rows: 1, later: '201 replayed' })
      expect(keyed.body.orders).toMatchObject([{ productId: 23, quantity: 1, customer: 'lab' }])
      expect(stockBefore - stockAfter).toBe(1)

      const without = await click({ productId: 23, clicks: 30, keyed: false }).expect(200)
      expect(without.body).toMatchObject({ rows: 31, later: '201', statuses: { 201: 30 } })
      expect(without.body.orders).toHaveLength(3)
      expect(without.body.stockAfter).toBe(without.body.stockBefore - 31)
    })

    it('fills the shelf, so that there is a tin per click', async () => {
      await changeProduct(at().database, 18, { stock: 1 })
      const { body } = await click({ productId: 18, clicks: 5, keyed: false }).expect(200)
      expect(body).toMatchObject({ stockBefore: 30, rows: 6, stockAfter: 24 })
    })

    it('refuses a second run at the same time', async () => {
      const [one, other] = await Promise.all([
        click({ productId: 23, clicks: 30, keyed: true }),
        click({ productId: 23, clicks: 30, keyed: true }),
      ])
      expect([one.status, other.status].sort()).toEqual([200, 409])
    })

    it.each([
      [{ productId: 23, clicks: 1, keyed: true }, 400],
      [{ productId: 23, clicks: 201, keyed: true }, 400],
      [{ productId: 23, clicks: 2 }, 400],
      [{ clicks: 2, keyed: true }, 400],
      [{ productId: 23, clicks: 2, keyed: true, path: '/' }, 400],
      [{ productId: 25, clicks: 2, keyed: true }, 404],
    ])('refuses %j', async (body, status) => {
      const { headers } = await click(body).expect(status)
      expect(headers['content-type']).toBe('application/problem+json')
    })

    it('refuses other machines, and requests without a customer', async () => {
      const body = { productId: 23, clicks: 2, keyed: true }
      await click(body).set('host', 'shop.example').expect(403)
      await request(at().server).post('/api/lab/double-click').send(body).expect(401)
    })
  })
}
