// A stored response that replaces the response of the handler, between layers that wrap methods.

import { createStampede } from '@stampede/core'
import { ManualClock } from '@stampede/core/testing'
import { stampedeCache } from '@stampede/express'
import express from 'express'
import { expect, it } from 'vitest'
import { listen } from '../harness/apps.ts'

it('a stale response does not pass a second time through layers behind the cache', async () => {
  const clock = new ManualClock()
  const stampede = createStampede({ clock })
  const heads: number[] = []
  let status = 200
  const app = express()
  app.use((_req, res, next) => {
    const { end } = res
    res.end = ((...args: Parameters<typeof end>) => {
      res.setHeader('x-outer', 'yes')
      return Reflect.apply(end, res, args)
    }) as typeof end
    next()
  })
  app.use(stampedeCache({ stampede, ttlMs: 1_000, staleIfErrorMs: 60_000, jitter: 0 }))
  app.use((_req, res, next) => {
    const { writeHead } = res
    res.writeHead = ((...args: Parameters<typeof writeHead>) => {
      heads.push(args[0])
      return Reflect.apply(writeHead, res, args)
    }) as typeof writeHead
    next()
  })
  app.get('/products', (_req, res) => void res.status(status).send(`page ${status}`))
  await using listening = await listen(app)
  const url = `${listening.url}/products`
  try {
    expect(await (await fetch(url)).text()).toBe('page 200')
    await clock.advance(2_000)
    status = 500
    const response = await fetch(url)
    expect(response.headers.get('cache-status')).toContain('stale-if-error/500')
    expect(response.headers.get('x-outer')).toBe('yes')
    expect(await response.text()).toBe('page 200')
    expect(heads).toEqual([200, 500])
  } finally {
    await stampede.close()
  }
})
