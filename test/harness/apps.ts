// The same small app on every framework: in-process servers for the adapter contract.
import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type ServerResponse,
} from 'node:http'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { type CacheOptions, createHttpCache } from '@stampede/core'
import { stampedeCache as expressCache } from '@stampede/express'
import { stampedeCache as koaCache } from '@stampede/koa'
import { createNodeCache } from '@stampede/node-http'
import express5, { type NextFunction, type Request, type Response } from 'express'
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
  /** A stream is piped, or given to Koa. */
  readonly body?: string | Buffer | Readable
}

/**
 * What a handler does, framework by framework. It may act on the raw response too; with `undefined` it has
 * answered there by itself. What it throws is the framework's business.
 */
export type Handler = (
  seen: Seen,
  res: ServerResponse,
) => Says | undefined | Promise<Says | undefined>

/** A layer in front of the cache. */
export type Outside = (res: ServerResponse, next: () => unknown) => unknown

type Options = Omit<
  CacheOptions<never>,
  'key' | 'identity' | 'bypass' | 'tags' | 'invalidateOn'
> & {
  tags?: readonly string[]
}

export interface RunningApp extends AsyncDisposable {
  readonly url: string
}

export interface Framework {
  readonly name: string
  /** With a list the middleware is mounted so many times; with an empty one, not at all. */
  start(
    options: Options | readonly Options[],
    handler: Handler,
    outside?: Outside,
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

const nodeWays: Ways<[IncomingMessage, ServerResponse]> = {
  'end-alone': (_req, res) => res.end(),
  'end-buffer': (_req, res) =>
    res.setHeader('Content-Type', 'image/png').end(Buffer.from([0, 255])),
  'write-end': (_req, res) => {
    res.write('one ')
    res.write(Buffer.from('two '))
    res.end('68c3a9', 'hex')
  },
  'write-head': (_req, res) =>
    res.writeHead(200, { 'X-Own': 'yes', Link: ['<a>', '<b>'] }).end('own'),
  'write-head-array': (_req, res) =>
    res.writeHead(200, 'Fine', ['X-Own', 'yes', 'Link', '<a>', 'Link', '<b>']).end('own'),
  stream: (_req, res) => Readable.from(['a', 'b', 'c'].map((text) => Buffer.from(text))).pipe(res),
  redirect: (_req, res) => res.writeHead(301, { Location: '/elsewhere' }).end(),
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
    start(options, handler, outside) {
      const app = express().set('env', 'test')
      if (outside) app.use((_req: Request, res: Response, next) => void outside(res, () => next()))
      for (const each of [options].flat()) app.use(expressCache(each))
      app.use((req: Request, res: Response, next: NextFunction) =>
        answer(handler, req.path, req.originalUrl, req, res).catch(next),
      )
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
    start(options, handler, outside) {
      const app = new Koa()
      app.silent = true
      if (outside) app.use(async (ctx, next) => void (await outside(ctx.res, next)))
      for (const each of [options].flat()) app.use(koaCache(each))
      app.use(async (ctx) => {
        const { path, originalUrl: url, headers: received } = ctx
        const said = await handler({ path, url, headers: received, query: queryOf(url) }, ctx.res)
        if (said === undefined) {
          ctx.respond = false
          return
        }
        const { status = 200, headers = {}, body = '' } = said
        ctx.body = body instanceof Readable ? body : Buffer.from(body)
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

/** The core behind a bare listener, for which no adapter is needed. */
const nodeFramework: Framework = {
  name: 'node:http',
  start(options, handler, outside) {
    return listen(
      cachedListener(
        options,
        (req, res) => answer(handler, pathOf(req), urlOf(req), req, res),
        outside,
      ),
    )
  },
  async startWays(options) {
    const app = await listen(
      cachedListener(options, async (req, res) => void nodeWays[pathOf(req).slice(1)]?.(req, res)),
    )
    return { ...app, ways: Object.keys(nodeWays) }
  },
}

/** `inside` is entered for what no cache answers; an error of it is a 500. */
function cachedListener(
  options: object | readonly object[],
  inside: (req: IncomingMessage, res: ServerResponse) => Promise<void>,
  outside: Outside = (_res, next) => next(),
): RequestListener {
  const caches = [options].flat().map((each) => createNodeCache(createHttpCache(each)))
  const listener = (req: IncomingMessage, res: ServerResponse): void => {
    const address = { scheme: 'http', host: req.headers.host ?? '', target: urlOf(req) }
    const failed = (): void => {
      if (res.headersSent) res.destroy()
      else res.writeHead(500).end('Internal Server Error')
    }
    const enter = (layer: number, error?: unknown): void => {
      const visit = caches[layer]
      const next = (thrown?: unknown) => enter(layer + 1, thrown)
      if (error !== undefined) failed()
      else if (visit) visit({ req, res, next, native: req, address, dispatch: listener })
      else inside(req, res).catch(failed)
    }
    outside(res, () => enter(0))
  }
  return listener
}

async function answer(
  handler: Handler,
  path: string,
  url: string,
  req: IncomingMessage,
  res: ServerResponse,
): Promise<void> {
  const said = await handler({ path, url, headers: req.headers, query: queryOf(url) }, res)
  if (said === undefined) return
  const { status = 200, headers = {}, body = '' } = said
  res.statusCode = status
  for (const [field, value] of Object.entries(headers)) res.setHeader(field, value)
  if (body instanceof Readable) body.once('error', (error) => res.destroy(error)).pipe(res)
  else res.end(body)
}

export const frameworks: readonly Framework[] = [
  expressFramework('Express 5', express5),
  expressFramework('Express 4', express4),
  koaFramework('Koa 3', Koa3),
  koaFramework('Koa 2', Koa2),
  nodeFramework,
]

const urlOf = (req: IncomingMessage): string => req.url ?? '/'
const pathOf = (req: IncomingMessage): string => urlOf(req).split('?')[0] ?? '/'

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
