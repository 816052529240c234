// What a double click comes to in both shops. Called by surface.test.ts, once a framework.

import request from 'supertest'
import { describe, expect, it } from 'vitest'
import { changeProduct } from '../products.ts'
import type { Opened } from './opened.ts'

export function doubleClickSuite(at: () => Opened): void {
  const click = (body: object) =>
    request(at().server).post('/api/lab/double-click').set('x-customer', 'lab').send(body)

  describe('the double click', () => {
    it('leaves one row with a key, and one a click without', async () => {
      const keyed = await click({ productId: 23, clicks: 30, keyed: true }).expect(200)
      const { statuses, stockBefore, stockAfter } = keyed.body
      // Whoever came while the first was at work was told so.
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

    it('finds enough tins for every click', async () => {
      await changeProduct(at().database, 18, { stock: 1 })
      const { body } = await click({ productId: 18, clicks: 5, keyed: false }).expect(200)
      expect(body).toMatchObject({ stockBefore: 30, rows: 6, stockAfter: 24 })
    })

    it('lets no other run in', async () => {
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

    it('is closed to strangers, and wants to know who it is', async () => {
      const body = { productId: 23, clicks: 2, keyed: true }
      await click(body).set('host', 'shop.example').expect(403)
      await request(at().server).post('/api/lab/double-click').send(body).expect(401)
    })
  })
}
