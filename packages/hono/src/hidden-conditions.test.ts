// The conditions and ranges of a client, which the handler of a fill must not see, behind layers
// that read fields.

import { createStampede } from '@stampede/core'
import { type Context, Hono } from 'hono'
import { describe, expect, it } from 'vitest'
import { ManualClock } from '../../core/src/testing/index.ts'
import { deferred } from '../../node-http/src/testing/deferred.ts'
import { stampedeCache } from './index.ts'
import { serve } from './testing/serve.ts'

/** Each of these makes the server of Hono copy the fields. */
const LAYERS: Readonly<Record<string, (c: Context) => unknown>> = {
  'all fields, as a logger does': (c) => c.req.header(),
  'the fields by iteration': (c) => [...c.req.raw.headers.keys()],
  'a copy of the request': (c) => new Request(c.req.raw),
  'a clone of the request': (c) => c.req.raw.clone(),
  'a field of which Node drops lines': (c) => c.req.header('host'),
  'its own copy, which it passes on': (c) => {
    c.req.raw = new Request(c.req.raw, { headers: { ...c.req.header(), 'x-layer': 'yes' } })
  },
}

describe.each(Object.entries(LAYERS))('a layer in front that reads %s', (_, layer) => {
  it.each([
    ['if-none-match', '"v1"', 304],
    ['if-modified-since', 'Wed, 21 Oct 2065 07:28:00 GMT', 304],
    ['range', 'bytes=0-1', 206],
  ])('costs 21 clients with %s no second run', async (name, value, status) => {
    let [arrived, runs, after] = [0, 0, 0]
    const { promise: gate, resolve: allArrived } = deferred()
    const app = new Hono()
    app.use(async (c, next) => {
      layer(c)
      const passed = next()
      if (++arrived === 21) allArrived()
      await passed
      if (c.req.header(name) === value) after += 1
    })
    app.use(stampedeCache({ ttlMs: 60_000 }))
    app.get('*', async (c) => {
      runs += 1
      await gate
      const validators = { etag: '"v1"', 'last-modified': 'Wed, 21 Oct 2015 07:28:00 GMT' }
      const isFresh = c.req.header('if-none-match') ?? c.req.header('if-modified-since')
      const copied = new Request(c.req.raw).headers.get(name)
      if (isFresh ?? copied) return c.body(null, 304, validators)
      if (c.req.header('range')) return c.body('pa', 206, { 'content-range': 'bytes 0-1/4' })
      return c.text('page', 200, validators)
    })
    await using server = await serve(app)
    const headers = { [name]: value }
    const all = Array.from({ length: 21 }, () => server.ask('/', { headers }))
    const statuses = (await Promise.all(all)).map((response) => response.status)
    expect([new Set(statuses), runs, after]).toEqual([new Set([status]), 1, 21])
  })

  it('lets a refresh send the condition of the cache to the handler', async () => {
    const clock = new ManualClock()
    const stampede = createStampede({ clock })
    const seen: unknown[] = []
    const app = new Hono().use(async (c, next) => {
      layer(c)
      await next()
    })
    app.use(stampedeCache({ stampede, ttlMs: 10_000, staleWhileRevalidateMs: 60_000 }))
    app.get('*', (c) => {
      seen.push(c.req.header('if-none-match'))
      return c.req.header('if-none-match') === '"v1"'
        ? c.body(null, 304, { etag: '"v1"' })
        : c.text('page', 200, { etag: '"v1"' })
    })
    await using server = await serve(app)
    const headers = { 'if-none-match': '"other"' }
    expect(await server.text('/', { headers })).toBe('page')
    await clock.advance(12_000)
    expect(await server.text('/', { headers })).toBe('page')
    await expect.poll(() => stampede.stats().active.flights).toBe(0)
    expect(await server.text('/', { headers })).toBe('page')
    expect(seen).toEqual([undefined, '"v1"'])
  })
})
