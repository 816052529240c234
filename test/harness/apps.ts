// The same small app on every framework: in-process servers for the adapter contract.
import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from 'node:http'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { stampedeCache as expressCache } from '@stampede/express'
import { stampedeCache as koaCache } from '@stampede/koa'
import { stampedeFront } from '@stampede/node-http'
import type { CacheAdapter, Handler, Outside, RunningApp, Says, Seen } from '@stampede/testkit'
import express5, { type NextFunction, type Request, type Response } from 'express'
import express4 from 'express4'
import Koa3, { type Context } from 'koa'
import Koa2 from 'koa2'
import type { Ways } from './ways.ts'

export type { Handler, Outside, RunningApp, Says, Seen }

export type Framework = CacheAdapter

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

export const nodeWays: Ways<[IncomingMessage, ServerResponse]> = {
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

/** Koa 2 supports neither web streams nor blobs. */
export const KOA3_ONLY = ['web-stream', 'blob']

/**
 * Apps of each framework with caches in them. The same apps without caches stand behind a front.
 */
interface AppOf {
  readonly name: string
  readonly writesLast: boolean
  readonly leavesBrokenStreams?: boolean
  app(options: readonly object[], handler: Handler, outside?: Outside): RequestListener
  ways(options: readonly object[]): readonly [RequestListener, readonly string[]]
}

function expressOf(name: string, express: typeof express5): AppOf {
  return {
    name,
    writesLast: false,
    app(options, handler, outside) {
      const app = express().set('env', 'test')
      if (outside) app.use((_req: Request, res: Response, next) => void outside(res, () => next()))
      for (const each of options) app.use(expressCache(each))
      return app.use((req: Request, res: Response, next: NextFunction) =>
        answer(handler, req.path, req.originalUrl, req, res).catch(next),
      )
    },
    ways(options) {
      const app = express()
      for (const each of options) app.use(expressCache(each))
      for (const [way, answer] of Object.entries(expressWays))
        app.get(`/${way}`, (req, res) => void answer(req, res))
      return [app, Object.keys(expressWays)]
    },
  }
}

function koaOf(name: string, Koa: typeof Koa3): AppOf {
  return {
    name,
    writesLast: true,
    leavesBrokenStreams: name.startsWith('Koa 2'),
    app(options, handler, outside) {
      const app = new Koa()
      app.silent = true
      if (outside) app.use(async (ctx, next) => void (await outside(ctx.res, next)))
      for (const each of options) app.use(koaCache(each))
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
      return app.callback()
    },
    ways(options) {
      const app = new Koa()
      for (const each of options) app.use(koaCache(each))
      app.use(async (ctx) => void koaWays[ctx.path.slice(1)]?.(ctx))
      const ways = Object.keys(koaWays).filter(
        (way) => !name.startsWith('Koa 2') || !KOA3_ONLY.includes(way),
      )
      return [app.callback(), ways]
    },
  }
}

/** node:http has no place for a cache in the app, so there are only fronts. */
const nodeOf: AppOf = {
  name: 'node:http',
  writesLast: false,
  app: (_options, handler) => (req, res) => answer(handler, pathOf(req), urlOf(req), req, res),
  ways: () => [
    async (req, res) => void nodeWays[pathOf(req).slice(1)]?.(req, res),
    Object.keys(nodeWays),
  ],
}

/** The middleware in the app. */
function inside(framework: AppOf): Framework {
  return {
    name: framework.name,
    writesLast: framework.writesLast,
    leavesBrokenStreams: framework.leavesBrokenStreams ?? false,
    refreshesOutside: true,
    start: (options, handler, outside) => listen(framework.app([options].flat(), handler, outside)),
    async startWays(options) {
      const [app, ways] = framework.ways([options])
      return { ...(await listen(app)), ways }
    },
  }
}

/** stampedeFront before an app without a cache. Several fronts stand one before the other. */
function before(framework: AppOf): Framework {
  const fronted = (app: RequestListener, options: readonly object[]): RequestListener =>
    options.reduceRight<RequestListener>((behind, each) => stampedeFront(behind, each), app)
  return {
    name: `a front before ${framework.name}`,
    // Inside the app, the adapter takes the stream from Koa.
    endsStreamOfLeaver: framework.name === 'Koa 3',
    writesLast: framework.writesLast,
    leavesBrokenStreams: framework.leavesBrokenStreams ?? false,
    refreshesOutside: false,
    start(options, handler, outside = (_res, next) => next()) {
      const front = fronted(framework.app([], handler), [options].flat())
      return listen((req, res) => void outside(res, () => front(req, res)))
    },
    async startWays(options) {
      const [app, ways] = framework.ways([])
      return { ...(await listen(fronted(app, [options]))), ways }
    },
  }
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
  if (!(body instanceof Readable)) return void res.end(body)
  body.once('error', (error) => res.destroy(error))
  body.once('close', () => body.readableEnded || res.destroy()).pipe(res)
}

const [EXPRESS_5, EXPRESS_4, KOA_3, KOA_2] = [
  expressOf('Express 5', express5),
  expressOf('Express 4', express4),
  koaOf('Koa 3', Koa3),
  koaOf('Koa 2', Koa2),
]

export const currentFrameworks: readonly Framework[] = [
  ...[EXPRESS_5, KOA_3].map(inside),
  before(nodeOf),
]

/** Older versions, and fronts that stand before a framework instead of a listener. */
export const olderFrameworks: readonly Framework[] = [
  ...[EXPRESS_4, KOA_2].map(inside),
  ...[EXPRESS_5, KOA_3, EXPRESS_4].map(before),
]

/** The middleware in an app of another version. */
export const cacheOnExpress = (name: string, express: typeof express5): Framework =>
  inside(expressOf(name, express))
export const cacheOnKoa = (name: string, Koa: typeof Koa3): Framework => inside(koaOf(name, Koa))

export const frameworks: readonly Framework[] = [...currentFrameworks, ...olderFrameworks]

const urlOf = (req: IncomingMessage): string => req.url ?? '/'
const pathOf = (req: IncomingMessage): string => urlOf(req).split('?')[0] ?? '/'

const queryOf = (url: string): string => url.split('?')[1] ?? ''

export async function listen(listener: RequestListener): Promise<RunningApp> {
  return listenOn(createServer(listener))
}

export async function listenOn(server: Server): Promise<RunningApp> {
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
