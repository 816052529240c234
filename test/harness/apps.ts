// The same small app on every framework: in-process servers for the adapter contract.
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import type { CacheOptions } from '@stampede/core'
import { stampedeCache as expressCache } from '@stampede/express'
import { stampedeCache as koaCache } from '@stampede/koa'
import express5, { type Request, type Response } from 'express'
import express4 from 'express4'
import Koa3, { type Context } from 'koa'
import Koa2 from 'koa2'

export interface Seen {
  readonly path: string
  readonly url: string
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly query: string
}

export interface Says {
  readonly status?: number
  readonly headers?: Record<string, string | string[]>
  readonly body?: string | Buffer
}

/** What a handler does, framework by framework; `say` is the plain way. */
export type Handler = (seen: Seen) => Says | Promise<Says>

export interface RunningApp extends AsyncDisposable {
  readonly url: string
}

export interface Framework {
  readonly name: string
  start(
    options: Omit<CacheOptions<never>, 'key' | 'identity' | 'bypass'>,
    handler: Handler,
  ): Promise<RunningApp>
  /** Every way this framework has to answer, each a route that answers with the same bytes each time. */
  startWays(options: object): Promise<RunningApp & { readonly ways: readonly string[] }>
}

export type Ways<Args extends unknown[]> = Readonly<Record<string, (...args: Args) => unknown>>

export const expressWays: Ways<[Request, Response]> = {
  json: (_req, res) => res.json({ a: 1 }),
  send: (_req, res) => res.status(203).send('<p>héllo</p>'),
  'send-buffer': (_req, res) => res.type('png').send(Buffer.from([0, 255, 128])),
  'end-alone': (_req, res) => res.end(),
  'end-text': (_req, res) => res.type('text').end('plain'),
  'write-end': (_req, res) => {
    res.write('one ')
    res.write(Buffer.from('two '))
    res.end('68c3a9', 'hex')
  },
  'write-head': (_req, res) => {
    res.writeHead(200, { 'Content-Type': 'text/x-own', 'X-Own': 'yes' })
    res.end('own')
  },
  'write-head-array': (_req, res) => {
    res.writeHead(200, 'Fine', ['X-Own', 'yes', 'Link', '<a>', 'Link', '<b>'])
    res.end('own')
  },
  stream: (_req, res) => Readable.from(['a', 'b', 'c'].map((text) => Buffer.from(text))).pipe(res),
  'send-file': (_req, res) => res.sendFile('package.json', { root: process.cwd(), maxAge: 60_000 }),
  redirect: (_req, res) => res.redirect(301, '/elsewhere'),
  'two-links': (_req, res) => res.append('Link', '<a>').append('Link', '<b>').send('links'),
}

export const koaWays: Ways<[Context]> = {
  string: (ctx) => (ctx.body = '<p>héllo</p>'),
  buffer: (ctx) => {
    ctx.type = 'png'
    ctx.body = Buffer.from([0, 255, 128])
  },
  object: (ctx) => (ctx.body = { a: 1 }),
  array: (ctx) => (ctx.body = [1, 'two']),
  stream: (ctx) => {
    ctx.type = 'text/plain'
    ctx.body = Readable.from(['a', 'b', 'c'].map((text) => Buffer.from(text)))
  },
  'web-stream': (ctx) => {
    ctx.type = 'text/plain'
    ctx.body = Readable.toWeb(Readable.from([Buffer.from('web')]))
  },
  blob: (ctx) => (ctx.body = new Blob(['blob'], { type: 'text/x-blob' })),
  'status-only': (ctx) => (ctx.status = 200),
  redirect: (ctx) => {
    ctx.status = 301
    ctx.redirect('/elsewhere')
  },
  'two-links': (ctx) => {
    ctx.append('Link', '<a>')
    ctx.append('Link', '<b>')
    ctx.body = 'links'
  },
}

/** Koa 2 knows neither web streams nor blobs. */
export const KOA3_ONLY = ['web-stream', 'blob']

function expressFramework(name: string, express: typeof express5): Framework {
  return {
    name,
    start(options, handler) {
      const app = express()
      app.use(expressCache(options))
      app.use(async (req: Request, res: Response) => {
        const seen = { path: req.path, url: req.originalUrl, headers: req.headers }
        const {
          status = 200,
          headers = {},
          body = '',
        } = await handler({ ...seen, query: queryOf(req.originalUrl) })
        res.status(status)
        for (const [field, value] of Object.entries(headers)) res.setHeader(field, value)
        res.end(body)
      })
      return listen(app)
    },
    async startWays(options) {
      const app = express()
      app.use(expressCache(options))
      for (const [way, answer] of Object.entries(expressWays))
        app.get(`/${way}`, (req, res) => void answer(req, res))
      return { ...(await listen(app)), ways: Object.keys(expressWays) }
    },
  }
}

function koaFramework(name: string, Koa: typeof Koa3): Framework {
  return {
    name,
    start(options, handler) {
      const app = new Koa()
      app.silent = true
      app.use(koaCache(options))
      app.use(async (ctx) => {
        const { path, originalUrl, headers: received } = ctx
        const {
          status = 200,
          headers = {},
          body = '',
        } = await handler({
          path,
          url: originalUrl,
          headers: received,
          query: queryOf(originalUrl),
        })
        ctx.body = Buffer.from(body)
        ctx.status = status
        ctx.remove('content-type')
        for (const [field, value] of Object.entries(headers)) ctx.set(field, value)
      })
      return listen(app.callback())
    },
    async startWays(options) {
      const app = new Koa()
      app.use(koaCache(options))
      app.use(async (ctx) => void koaWays[ctx.path.slice(1)]?.(ctx))
      const ways = Object.keys(koaWays).filter(
        (way) => name !== 'Koa 2' || !KOA3_ONLY.includes(way),
      )
      return { ...(await listen(app.callback())), ways }
    },
  }
}

export const frameworks: readonly Framework[] = [
  expressFramework('Express 5', express5),
  expressFramework('Express 4', express4),
  koaFramework('Koa 3', Koa3),
  koaFramework('Koa 2', Koa2),
]

const queryOf = (url: string): string => url.split('?')[1] ?? ''

export async function listen(listener: RequestListener): Promise<RunningApp> {
  const server = createServer(listener)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
