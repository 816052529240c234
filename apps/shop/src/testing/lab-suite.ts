// Tests of the lab, for both shops. Called by surface.test.ts.

import { afterAll, describe, expect, it, vi } from 'vitest'
import type { Opened } from './opened.ts'
import { request } from './request.ts'

export function labSuite(at: () => Opened): void {
  describe('the lab', () => {
    const fire = (order: object) => request(at().server).post('/api/lab/stampede').send(order)
    const stats = async () => (await request(at().server).get('/api/lab/stats').expect(200)).body

    it('runs the origin once per stampede with the cache, and once per request without', async () => {
      const path = '/api/products?category=oolong'
      const cached = await fire({ requests: 60, path, cached: true }).expect(200)
      expect(cached.body).toMatchObject({ requests: 60, originRuns: 1, statuses: { 200: 60 } })
      // A request that arrives after the response is a hit. How many do depends on the machine.
      const kinds = Object.entries<number>(cached.body.cacheStatus)
      const shared = kinds.filter(([kind]) => kind === 'hit' || kind.endsWith('; collapsed'))
      expect(shared.reduce((sum, [, count]) => sum + count, 0)).toBe(59)
      const { p50Ms, p99Ms, maxMs } = cached.body
      expect(p50Ms <= p99Ms && p99Ms <= maxMs && maxMs > 0).toBe(true)

      const uncached = await fire({ requests: 60, path, cached: false }).expect(200)
      expect(uncached.body).toMatchObject({ originRuns: 60, cacheStatus: { none: 60 } })
    })

    it('counts origin runs by route, and can reset the counts', async () => {
      await request(at().server).delete('/api/lab/stats').expect(204)
      await fire({ requests: 3, path: '/api/products/5', cached: true })
      await fire({ requests: 3, path: '/api/products/5', cached: false })
      const { originRuns, stampede, running, ...about } = await stats()
      expect(originRuns).toEqual({
        'GET /api/products/:id': 1,
        'GET /uncached/api/products/:id': 3,
      })
      expect(stampede.hits).toBeDefined()
      expect(running).toBeNull()
      expect(about).toMatchObject({
        framework: at().framework,
        store: 'memory',
        ttlMs: 10_000,
        originLatencyMs: 5,
      })
    })

    it('shows the running stampede, and refuses a second one', async () => {
      const first = fire({ requests: 400, path: '/api/products', cached: false }).then((r) => r)
      await vi.waitFor(async () => expect((await stats()).running).not.toBeNull(), 20_000)
      const second = await fire({ requests: 1, path: '/api/products', cached: true })
      expect(second.status).toBe(409)
      expect((await first).body.originRuns).toBe(400)
      expect((await stats()).running).toBeNull()
    })

    it.each([
      { path: '/api/products', cached: true },
      { requests: 0, path: '/api/products', cached: true },
      { requests: 2001, path: '/api/products', cached: true },
      { requests: 1.5, path: '/api/products', cached: true },
      { requests: 1, path: '/api/lab/stampede', cached: true },
      { requests: 1, path: '//other.example/api/products', cached: true },
      { requests: 1, path: '/api/products/../lab/stats', cached: true },
      { requests: 1, path: '/api/products?a b', cached: true },
      { requests: 1, path: '/api/products' },
      { requests: 1, path: '/api/products', cached: true, host: 'other.example' },
    ])('refuses the order %j', async (order) => {
      const { headers } = await fire(order).expect(400)
      expect(headers['content-type']).toBe('application/problem+json')
    })

    it('refuses other machines, and other sites in a browser on this machine', async () => {
      const order = { requests: 1, path: '/api/products', cached: true }
      await fire(order).set('host', 'shop.example').expect(403)
      await fire(order).set('x-forwarded-for', '203.0.113.5').expect(403)
      await fire(order).set('content-type', 'text/plain').expect(415)
      await request(at().server).get('/api/lab/stats').set('host', 'shop.example').expect(403)
      await request(at().server).delete('/api/lab/stats').set('host', 'shop.example').expect(403)
    })
  })

  describe('the switch of the database', () => {
    const plug = (connected: unknown) =>
      request(at().server).put('/api/lab/database').send({ connected })

    afterAll(() => {
      at().database.connected = true
    })

    it('makes uncached requests fail, while cached responses are still served', async () => {
      await request(at().server).get('/api/products/21').expect(200)
      const { body } = await plug(false).expect(200)
      expect(body).toEqual({ connected: false })
      await request(at().server).get('/api/products/21').expect(200)
      const failed = await request(at().server).get('/uncached/api/products/21').expect(503)
      expect(failed.body.detail).toBe('The database was disconnected in the lab.')
      await request(at().server).get('/api/products/22').expect(503)
      await plug(true).expect(200)
      await request(at().server).get('/uncached/api/products/21').expect(200)
    })

    it('accepts true or false, from this machine only', async () => {
      await plug('no').expect(400)
      await plug(false).set('host', 'shop.example').expect(403)
    })
  })
}
