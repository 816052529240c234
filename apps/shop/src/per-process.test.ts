import type { IncomingMessage } from 'node:http'
import { expect, it } from 'vitest'
import { createPerProcessCache } from './per-process.ts'
import { json, type ShopResponse } from './response.ts'

const get = (url: string) => ({ url }) as IncomingMessage
const unavailable: ShopResponse = { ...json({}), status: 503 }

/** The cache before a handler whose responses come from `next`. */
function opened(next: () => Promise<ShopResponse> | ShopResponse) {
  let runs = 0
  const show = async () => {
    runs++
    return next()
  }
  const cache = createPerProcessCache()
  const { show: cached } = cache.handlers({ show, list: show, change: show })
  return { cache, show: (url: string) => cached(get(url), '7'), runs: () => runs }
}

it('runs the handler once for requests at once, and not at all for a hit', async () => {
  const { show, runs } = opened(() => json({ id: 7 }))
  const replies = await Promise.all([1, 2, 3].map(() => show('/per-process/api/products/7')))
  expect(new Set(replies).size).toBe(1)
  await show('/per-process/api/products/7')
  expect(runs()).toBe(1)
})

it('purges a path with all its queries', async () => {
  const { cache, show, runs } = opened(() => json({ id: 7 }))
  for (const query of ['', '?run=1', '?run=2']) await show(`/per-process/api/products/7${query}`)
  cache.purge('/api/products/7')
  await show('/per-process/api/products/7?run=1')
  expect(runs()).toBe(4)
})

it('does not store a failure, and returns it', async () => {
  const { show, runs } = opened(() => unavailable)
  expect((await show('/a')).status).toBe(503)
  expect((await show('/a')).status).toBe(503)
  expect(runs()).toBe(2)
})

it('serves an expired response if the handler fails', async () => {
  let isDown = false
  const { show } = opened(() => (isDown ? unavailable : json(1, { 'cache-control': 'max-age=0' })))
  await show('/a')
  isDown = true
  expect((await show('/a')).status).toBe(200)
})
