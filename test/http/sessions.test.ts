// The settings of express-session that docs/guide/users.md names, in front of the cache.

import { createRequire } from 'node:module'
import { stampedeCache } from '@stampede/express'
import express, { type Request, type RequestHandler } from 'express'
import { describe, expect, it } from 'vitest'
import { listen } from '../harness/apps.ts'

const session: (options: object) => RequestHandler = createRequire(import.meta.url)(
  'express-session',
)
const userOf = (req: Request): string | undefined =>
  (req as Request & { session: { user?: string } }).session.user

async function startShop(settings: object) {
  const app = express()
  app.use(session({ secret: 'test', resave: false, ...settings }))
  app.post('/login', (req, res) => {
    Object.assign(req, { session: Object.assign(Reflect.get(req, 'session'), { user: 'ann' }) })
    res.sendStatus(204)
  })
  app.use(stampedeCache({ ttlMs: 60_000, identity: (req) => userOf(req) ?? 'guest' }))
  app.get('/', (req, res) => void res.json({ hello: userOf(req) ?? 'guest' }))
  return listen(app)
}

async function get(url: string, cookie = '') {
  const response = await fetch(url, { headers: cookie ? { cookie } : {} })
  const [set] = response.headers.getSetCookie()
  return { set, body: await response.text(), cache: response.headers.get('cache-status') ?? '' }
}

describe('a page behind express-session', () => {
  it.each([
    ['off', { saveUninitialized: false }],
    ['on', { saveUninitialized: false, rolling: true }],
  ])('is stored for guests without a cookie if rolling is %s', async (_, settings) => {
    await using app = await startShop(settings)
    expect(await get(app.url)).toMatchObject({ set: undefined, body: '{"hello":"guest"}' })
    expect(await get(app.url)).toMatchObject({
      set: undefined,
      cache: expect.stringMatching(/hit/),
    })
  })

  it('is not stored for a user whose cookie rolls, and no guest gets the page', async () => {
    await using app = await startShop({ saveUninitialized: false, rolling: true })
    const login = await fetch(`${app.url}/login`, { method: 'POST' })
    const cookie = login.headers.getSetCookie()[0]?.split(';')[0] ?? ''
    for (let i = 0; i < 3; i++) {
      const page = await get(app.url, cookie)
      expect(page.body).toBe('{"hello":"ann"}')
      expect(page.set).toMatch(/^connect\.sid=/)
      expect(page.cache).not.toMatch(/hit;/)
    }
    expect((await get(app.url)).body).toBe('{"hello":"guest"}')
  })

  it('is never a hit if saveUninitialized is on', async () => {
    await using app = await startShop({ saveUninitialized: true })
    for (let i = 0; i < 3; i++) expect((await get(app.url)).cache).not.toMatch(/hit;/)
  })
})

describe('a cache for guests only, behind express-session', () => {
  it('serves guests from one entry and never stores the page of a signed-in user', async () => {
    const app = express()
    app.use(session({ secret: 'test', resave: false, saveUninitialized: false }))
    app.post('/login', (req, res) => {
      Object.assign(Reflect.get(req, 'session'), { user: 'ann' })
      res.sendStatus(204)
    })
    const bypass = (req: Request) => userOf(req) !== undefined
    app.use(stampedeCache({ ttlMs: 60_000, cookies: 'ignore', bypass }))
    app.get('/', (req, res) => void res.json({ hello: userOf(req) ?? 'guest' }))
    await using shop = await listen(app)
    const login = await fetch(`${shop.url}/login`, { method: 'POST' })
    const cookie = login.headers.getSetCookie()[0]?.split(';', 1)[0] ?? ''
    const guest = '{"hello":"guest"}'
    const bypassed = { body: '{"hello":"ann"}', cache: 'Stampede; fwd=bypass; detail=option' }
    expect(await get(shop.url, cookie)).toMatchObject(bypassed)
    expect(await get(shop.url)).toMatchObject({ body: guest })
    expect(await get(shop.url, cookie)).toMatchObject(bypassed)
    expect(await get(shop.url, '_ga=1')).toMatchObject({
      body: guest,
      cache: expect.stringContaining('; hit'),
    })
  })
})
