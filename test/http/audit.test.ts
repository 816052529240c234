// The option `audit: true` warns of each input that a handler reads and the key does not cover, on
// every framework, and of no other.

import { createServer, type IncomingMessage } from 'node:http'
import { createRequire } from 'node:module'
import type { AddressInfo } from 'node:net'
import { createStampede, type Stampede } from '@stampede/core'
import { stampedeCache as expressCache } from '@stampede/express'
import { stampedeCache as koaCache } from '@stampede/koa'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { ask } from '../harness/load.ts'

const require = createRequire(import.meta.url)

interface Reader {
  header(name: string): unknown
  query(name: string): unknown
  cookie(name: string): unknown
  vary(name: string): void
}

type App = (
  options: object,
  handler: (read: Reader) => unknown,
) => (req: never, res: never) => unknown

/** Cookies as cookie-parser leaves them. */
function cookieParser(req: IncomingMessage, _res: never, next: () => void): void {
  const pairs = (req.headers.cookie ?? '').split('; ').map((pair) => pair.split('='))
  Object.assign(req, { cookies: Object.fromEntries(pairs) })
  next()
}

const expressApp =
  (name: string): App =>
  (options, handler) => {
    const app = require(name)()
    app.use(cookieParser)
    app.use(expressCache({ ttlMs: 60_000, audit: true, ...options }))
    // biome-ignore lint/suspicious/noExplicitAny: two majors of one framework
    app.use((req: any, res: any) => {
      const hello = handler({
        header: (field) => req.get(field),
        query: (field) => req.query[field],
        cookie: (field) => req.cookies[field],
        vary: (field) => res.vary(field),
      })
      res.json({ hello: hello ?? 'you' })
    })
    return app
  }

const koaApp =
  (name: string): App =>
  (options, handler) => {
    const Koa = require(name)
    const app = new Koa()
    app.use(koaCache({ ttlMs: 60_000, audit: true, ...options }))
    // biome-ignore lint/suspicious/noExplicitAny: two majors of one framework
    app.use((ctx: any) => {
      const hello = handler({
        header: (field) => ctx.get(field),
        query: (field) => ctx.query[field],
        cookie: (field) => ctx.cookies.get(field),
        vary: (field) => ctx.vary(field),
      })
      ctx.body = { hello: hello ?? 'you' }
    })
    return app.callback()
  }

let warnings: string[]
const listen = (warning: Error & { code?: string }) => {
  if (warning.code === 'STAMPEDE_AUDIT') warnings.push(warning.message)
}
beforeEach(() => {
  warnings = []
  process.on('warning', listen)
})
afterEach(() => void process.off('warning', listen))

let paths = 0
/** With `refreshed`, the second request gets a stale response, which is refreshed behind it. */
async function warningsOf(
  app: App,
  options: object,
  handler: (read: Reader) => unknown,
  more: Record<string, string> = {},
  refreshed?: Stampede,
) {
  const server = createServer(app(options, handler) as never)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  paths += 1
  warnings = []
  const path = `/page-${paths}`
  try {
    const headers = { 'x-lang': 'de', accept: 'text/html', cookie: 'theme=dark; visits=3', ...more }
    for (let i = 0; i < 2; i++) {
      const { status } = await ask(`http://127.0.0.1:${port}${path}?q=1&utm=2`, { headers })
      expect(status).toBe(more.range ? 206 : 200)
      if (i === 0) await refreshed?.purge({ all: true }, { soft: true })
    }
    if (refreshed) await expect.poll(() => refreshed.stats().fills.committed).toBe(2)
    await new Promise((resolve) => setImmediate(resolve))
    return warnings.map((text) => text.replace(path, '/page'))
  } finally {
    server.closeAllConnections()
    server.close()
  }
}

const FREE = { cookies: 'ignore' } as const

describe.each([
  ['Express 5', expressApp('express')],
  ['Express 4', expressApp('express4')],
  ['Koa 3', koaApp('koa')],
  ['Koa 2', koaApp('koa2')],
])('the option audit on %s', (_, app) => {
  it('names once each header that the handler reads and the key lacks, with the remedy', async () => {
    expect(await warningsOf(app, FREE, (read) => void read.header('X-Lang'))).toEqual([
      "GET /page: the handler read the request header x-lang, which is not in the key; use vary: ['x-lang'], or name it in Vary of the response",
    ])
  })

  it('does not warn of a header that is in the key, or in Vary of the response', async () => {
    const vary = { ...FREE, vary: ['X-Lang'] }
    expect(await warningsOf(app, vary, (read) => void read.header('X-Lang'))).toEqual([])
    const varies = (read: Reader) => {
      read.vary('X-Lang')
      read.header('X-Lang')
    }
    expect(await warningsOf(app, FREE, varies)).toEqual([])
  })

  it('names a header that the handler read although the request lacks it', async () => {
    const [only = ''] = await warningsOf(app, FREE, (read) => void read.header('X-Beta'))
    expect(only).toContain('x-beta')
  })

  it('names a query parameter that the key leaves out', async () => {
    const options = { ...FREE, query: { ignore: ['utm'] } }
    expect(await warningsOf(app, options, (read) => void read.query('q'))).toEqual([])
    const [only = ''] = await warningsOf(app, options, (read) => void read.query('utm'))
    expect(only).toContain('the query parameter utm')
  })

  it('names cookies that the handler reads', async () => {
    const told = await warningsOf(app, FREE, (read) => void read.cookie('theme'))
    expect(told).toHaveLength(1)
    expect(told[0]).toMatch(/cookie/)
    const keyed = { cookies: { key: ['theme'] } }
    expect(await warningsOf(app, keyed, (read) => void read.cookie('theme'))).toEqual([])
  })

  it('does not warn if identity puts the caller in the key, or if audit is off', async () => {
    const read = ({ header }: Reader) => void header('X-Lang')
    expect(await warningsOf(app, { ...FREE, identity: () => 'me' }, read)).toEqual([])
    expect(await warningsOf(app, { ...FREE, audit: false }, read)).toEqual([])
  })

  it('does not warn for a handler that reads no input', async () => {
    expect(await warningsOf(app, FREE, () => {})).toEqual([])
  })

  it('warns of the same inputs if the request has a condition, which is hidden from the handler', async () => {
    const condition = { 'if-none-match': '"other"', range: 'bytes=0-' }
    expect(await warningsOf(app, FREE, () => {}, condition)).toEqual([])
    const read = ({ header }: Reader) => void header('X-Lang')
    expect(await warningsOf(app, FREE, read, condition)).toEqual([
      expect.stringContaining('the request header x-lang'),
    ])
  })

  it('warns of what a background refresh reads, whose response all clients get', async () => {
    const stampede = createStampede()
    const options = { ...FREE, stampede, staleWhileRevalidateMs: 60_000, keepMs: 0 }
    let runs = 0
    const read = ({ header }: Reader) => {
      runs += 1
      if (runs > 1) header('X-Lang')
      // A new body, because Express would respond 304 to the condition of the refresh.
      return runs
    }
    expect(await warningsOf(app, options, read, {}, stampede)).toEqual([
      expect.stringContaining('the request header x-lang'),
    ])
    expect(runs).toBe(2)
    await stampede.close()
  })
})
