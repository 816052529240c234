// In-process apps whose POSTs have idempotency keys, on every framework. The adapter contract uses
// them.
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import { createRequire } from 'node:module'
import { resolve } from 'node:path'
import { Readable } from 'node:stream'
import { gzipSync } from 'node:zlib'
import { idempotency as expressIdempotency } from '@stampede/express'
import { idempotency as koaIdempotency } from '@stampede/koa'
import { idempotentFront } from '@stampede/node-http'
import type { IdempotencyAdapter, Layer, Said } from '@stampede/testkit'
import express5, { type NextFunction, type Request, type Response } from 'express'
import express4 from 'express4'
import Koa3, { type Context, type Middleware } from 'koa'
import Koa2 from 'koa2'
import { expressWays, KOA3_ONLY, koaWays, listen, nodeWays } from './apps.ts'
import { HEAD_LINES, own, SPLIT_CHARACTERS, type Ways } from './ways.ts'

export {
  countRuns,
  type Got,
  type Post,
  post,
  type Visit,
} from '../../packages/testkit/src/idempotency-adapter.ts'

const pieces = () => Readable.from(SPLIT_CHARACTERS)

const moreExpressWays: Ways<[Request, Response]> = {
  created: (_req, res) => res.status(201).location('/orders/7').end(),
  'no-content': (_req, res) => res.status(204).end(),
  'send-status': (_req, res) => res.sendStatus(202),
  download: (_req, res) => res.download(resolve('package.json'), 'orders.json'),
  'json-0': (_req, res) => res.json(0),
  'json-null': (_req, res) => res.json(null),
  'json-false': (_req, res) => res.json(false),
  'empty-text': (_req, res) => res.send(''),
  bytes: (_req, res) => res.type('bin').send(Buffer.from([0x00, 0xff])),
  'see-other': (_req, res) => res.redirect(303, '/orders/7'),
  'split-character': (_req, res) => pieces().pipe(res.type('text')),
  events: (_req, res) => {
    res.type('text/event-stream').flushHeaders()
    res.write('data: 1\n\n')
    setImmediate(() => res.end('data: 2\n\n'))
  },
  'write-head-lines': (_req, res) => res.writeHead(202, 'Soon', HEAD_LINES).end('later'),
  tagged: (_req, res) => res.set({ ETag: '"v"', 'Cache-Control': 'no-cache' }).json({ a: 1 }),
}

const moreKoaWays: Ways<[Context]> = {
  created: (ctx) => {
    ctx.status = 201
    ctx.set('Location', '/orders/7')
    ctx.body = ''
  },
  'no-content': (ctx) => (ctx.status = 204),
  'json-0': (ctx) => (ctx.body = 0),
  'json-null': (ctx) => (ctx.body = null),
  'json-false': (ctx) => (ctx.body = false),
  'empty-text': (ctx) => (ctx.body = ''),
  bytes: (ctx) => (ctx.body = Buffer.from([0x00, 0xff])),
  'see-other': (ctx) => {
    ctx.status = 303
    ctx.redirect('/orders/7')
  },
  'split-character': (ctx) => {
    ctx.type = 'text/plain'
    ctx.body = pieces()
  },
  events: (ctx) => {
    ctx.type = 'text/event-stream'
    ctx.body = Readable.from(['data: 1\n\n', 'data: 2\n\n'])
  },
  'write-head-lines': (ctx) => {
    ctx.respond = false
    ctx.res.writeHead(202, 'Soon', HEAD_LINES).end('later')
  },
  'without-koa': (ctx) => {
    ctx.respond = false
    ctx.res.statusCode = 200
    ctx.res.setHeader('X-Own', 'yes')
    ctx.res.write('own ')
    ctx.res.end('words')
  },
  response: (ctx) => {
    ctx.body = new Response('hello', { status: 203, headers: { 'X-Own': 'yes' } })
  },
  'large-stream': (ctx) => {
    ctx.type = 'text/plain'
    ctx.body = Readable.from([Buffer.alloc(180_000, 'a'), Buffer.alloc(180_000, 'b')])
  },
  'behind-koa': (ctx) => {
    ctx.res.statusCode = 201
    ctx.res.end('direct')
  },
  'later-on-res': (ctx) => {
    ctx.respond = false
    setImmediate(() => Object.assign(ctx.res, { statusCode: 201 }).end('later'))
  },
  tagged: (ctx) => {
    ctx.set({ ETag: '"v"', 'Cache-Control': 'no-cache' })
    ctx.body = { a: 1 }
  },
}

const oddOf = (all: object): readonly string[] =>
  Object.keys(all).filter((name) => name !== 'trailers')

const allExpressWays = { ...expressWays, ...moreExpressWays }
const allKoaWays = { ...koaWays, ...moreKoaWays }

const withTrailers = (res: ServerResponse): void => {
  res.writeHead(201, { Trailer: 'X-Sum' })
  res.write('"fi')
  res.addTrailers({ 'X-Sum': '7' })
  res.end('rst"')
}

const first = (res: Response): Response => res.status(201).json('first')

const expressOdd: Ways<[Request, Response, NextFunction]> = {
  trailers: (_req, res) => withTrailers(res),
  twice: (_req, res) => {
    first(res)
    res.status(500).json('second, and much longer than the first')
  },
  'end-twice': (_req, res) => first(res).end('second'),
  'then-throws': (_req, res) => {
    first(res)
    throw new Error('after the answer')
  },
  'then-fails': (_req, res, next) => {
    first(res)
    next(new Error('after the answer'))
  },
  'then-fails-later': (_req, res, next) => {
    first(res)
    setImmediate(() => next(Object.assign(new Error('after the answer'), { answer: 500 })))
  },
  'then-goes-on': (_req, res, next) => {
    first(res)
    next()
  },
}

const koaOdd: Ways<[Context]> = {
  trailers: (ctx) => {
    ctx.respond = false
    withTrailers(ctx.res)
  },
  twice: (ctx) => {
    ctx.status = 201
    ctx.body = '"first"'
    setImmediate(() => {
      ctx.status = 500
      ctx.body = '"second"'
    })
  },
  'twice-on-res': (ctx) => {
    ctx.respond = false
    ctx.res.statusCode = 201
    ctx.res.end('"first"')
    ctx.body = 'second, and longer'
    ctx.res.end('second, and longer')
  },
  'then-throws': (ctx) => {
    ctx.respond = false
    ctx.res.statusCode = 201
    ctx.res.end('"first"')
    throw new Error('after the answer')
  },
}

const require = createRequire(import.meta.url)

const answerOf = (error: unknown): number | undefined =>
  (error as { answer?: number } | undefined)?.answer

export function expressFramework(name: string, express: typeof express5): IdempotencyAdapter {
  return {
    name,
    ways: Object.keys(allExpressWays),
    odd: oddOf(expressOdd),
    start(options) {
      const { rules, stampede, outside = [], inside = [], mounts = ['/'] } = options
      const layer = (each: Layer) =>
        each === 'gzip' ? require('compression')({ threshold: 0 }) : each
      const app = express()
      // Express's own error handler prints nothing in this environment.
      app.set('env', 'test')
      for (const each of outside) app.use(layer(each))
      const scope = (req: Request) => req.get('x-user') ?? ''
      for (const path of mounts) app.use(path, expressIdempotency({ scope, stampede, ...rules }))
      for (const each of inside) app.use(layer(each))
      app.use(async (req: Request, res: Response, next: NextFunction) => {
        try {
          const said = await options.visit({ req, res, attempt: req.idempotency })
          if (said !== undefined) return sayInExpress(res, said)
          const [, kind = '', way = ''] = req.path.split('/')
          if (kind === 'odd') return void own(expressOdd, way)?.(req, res, next)
          own(allExpressWays, way)?.(req, res)
        } catch (error) {
          next(error)
        }
      })
      app.use((error: unknown, _req: Request, res: Response, next: NextFunction) => {
        const status = answerOf(error)
        if (status === undefined) next(error)
        else res.status(status).json({ error: String(error) })
      })
      return listen(app)
    },
  }
}

function sayInExpress(res: Response, { status = 200, headers = {}, body = '' }: Said): void {
  res.status(status)
  for (const [field, value] of Object.entries(headers)) res.setHeader(field, value)
  if (body instanceof Readable) body.pipe(res)
  else res.end(body)
}

export function koaFramework(name: string, Koa: typeof Koa3): IdempotencyAdapter {
  return {
    name,
    ways: Object.keys(allKoaWays).filter(
      (way) => !name.startsWith('Koa 2') || !KOA3_ONLY.includes(way),
    ),
    odd: oddOf(koaOdd),
    start(options) {
      const { rules, stampede, outside = [], inside = [], mounts = ['/'] } = options
      const app = new Koa()
      app.silent = true
      app.use(renderErrors)
      for (const each of outside) app.use(each === 'gzip' ? gzipInKoa : inKoa(each))
      const scope = (ctx: Context) => ctx.get('x-user')
      const guard = koaIdempotency({ scope, stampede, ...rules })
      if (mounts[0] === '/') app.use(guard)
      else if (mounts.length > 0) app.use(mountInKoa(mounts, guard))
      for (const each of inside) app.use(each === 'gzip' ? gzipInKoa : inKoa(each))
      app.use(async (ctx) => {
        const { req, res, idempotency: attempt } = ctx
        const said = await options.visit({ req, res, attempt })
        if (said !== undefined) return sayInKoa(ctx, said)
        const [, kind = '', way = ''] = ctx.path.split('/')
        own(kind === 'odd' ? koaOdd : allKoaWays, way)?.(ctx)
      })
      return listen(app.callback())
    },
  }
}

function sayInKoa(ctx: Context, { status = 200, headers = {}, body = '' }: Said): void {
  ctx.body = typeof body === 'string' ? Buffer.from(body) : body
  ctx.status = status
  ctx.remove('content-type')
  for (const [field, value] of Object.entries(headers)) ctx.set(field, value)
}

const renderErrors: Middleware = async (ctx, next) => {
  try {
    await next()
  } catch (error) {
    const status = answerOf(error)
    if (status === undefined) throw error
    ctx.status = status
    ctx.body = { error: String(error) }
  }
}

/** Behaves like koa-compress, for bodies in memory. */
const gzipInKoa: Middleware = async (ctx, next) => {
  await next()
  ctx.vary('Accept-Encoding')
  const plain = ctx.body
  if (!ctx.acceptsEncodings('gzip') || !ctx.get('accept-encoding')) return
  if (!(plain instanceof Buffer) || ctx.response.get('content-encoding')) return
  ctx.body = gzipSync(plain)
  ctx.set('Content-Encoding', 'gzip')
}

function inKoa(layer: Exclude<Layer, 'gzip'>): Middleware {
  return (ctx, next) =>
    new Promise((resolve, reject) => {
      layer(ctx.req, ctx.res, (error) => (error ? reject(error) : next().then(resolve, reject)))
    })
}

/** Behaves like koa-mount: the mounted app does not see its mount path. */
function mountInKoa(mounts: readonly string[], guard: Middleware): Middleware {
  return (ctx, next) => {
    const { path } = ctx
    const mount = mounts.find((each) => path.startsWith(each))
    if (mount === undefined) return next()
    ctx.path = path.slice(mount.length)
    return guard(ctx as Context, async () => {
      ctx.path = path
      await next()
    })
  }
}

const allNodeWays: Ways<[IncomingMessage, ServerResponse]> = {
  ...nodeWays,
  created: (_req, res) => res.writeHead(201, { Location: '/orders/7' }).end(),
  'no-content': (_req, res) => res.writeHead(204).end(),
  bytes: (_req, res) => res.end(Buffer.from([0x00, 0xff])),
  'see-other': (_req, res) => res.writeHead(303, { Location: '/orders/7' }).end(),
  'split-character': (_req, res) => pieces().pipe(res.setHeader('Content-Type', 'text/plain')),
  events: (_req, res) => {
    res.setHeader('Content-Type', 'text/event-stream').flushHeaders()
    res.write('data: 1\n\n')
    setImmediate(() => res.end('data: 2\n\n'))
  },
  'write-head-lines': (_req, res) => res.writeHead(202, 'Soon', HEAD_LINES).end('later'),
}

const firstInNode = (res: ServerResponse): ServerResponse => res.writeHead(201).end('"first"')

const nodeOdd: Ways<[IncomingMessage, ServerResponse]> = {
  trailers: (_req, res) => withTrailers(res),
  'end-twice': (_req, res) => firstInNode(res).end('second'),
  'then-throws': (_req, res) => {
    firstInNode(res)
    throw new Error('after the answer')
  },
  'then-rejects': async (_req, res) => {
    firstInNode(res)
    throw new Error('after the answer')
  },
}

/** A front before a plain listener. Layers are functions around the front and behind it. */
const nodeFront: IdempotencyAdapter = {
  name: 'a front before node:http',
  ways: Object.keys(allNodeWays),
  odd: oddOf(nodeOdd),
  start({ rules, stampede, outside = [], inside = [], mounts = ['/'], visit }) {
    const layered =
      (layers: readonly Layer[], last: RequestListener): RequestListener =>
      (req, res) => {
        const [first, ...rest] = layers
        if (first === undefined) return last(req, res)
        const layer = first === 'gzip' ? require('compression')({ threshold: 0 }) : first
        layer(req, res, (error?: unknown) => {
          if (error === undefined) layered(rest, last)(req, res)
          else res.writeHead(answerOf(error) ?? 500).end(JSON.stringify({ error: String(error) }))
        })
      }
    const app = async (req: IncomingMessage, res: ServerResponse) => {
      const attempt = Reflect.get(req, 'idempotency')
      try {
        const said = await visit({ req, res, attempt })
        if (said !== undefined) {
          const { status = 200, headers = {}, body = '' } = said
          for (const [field, value] of Object.entries(headers)) res.setHeader(field, value)
          res.statusCode = status
          return void (body instanceof Readable ? body.pipe(res) : res.end(body))
        }
        const [, kind = '', way = ''] = (req.url ?? '').split('?', 1)[0]?.split('/') ?? []
        return own(kind === 'odd' ? nodeOdd : allNodeWays, way)?.(req, res)
      } catch (error) {
        const status = answerOf(error)
        if (status === undefined || res.headersSent) throw error
        res.writeHead(status, { 'Content-Type': 'application/json' })
        res.end(JSON.stringify({ error: String(error) }))
      }
    }
    const scope = ({ headers }: IncomingMessage) => String(headers['x-user'] ?? '')
    const behind = layered(inside, app)
    const fronts = mounts.map((path) => {
      const front = idempotentFront(behind, { scope, stampede, ...rules })
      return { path, front }
    })
    const listener: RequestListener = (req, res) => {
      const found = fronts.find(({ path }) => req.url?.startsWith(path))
      return found ? found.front(req, res) : behind(req, res)
    }
    return listen(layered(outside, listener))
  },
}

export const currentIdempotentFrameworks: readonly IdempotencyAdapter[] = [
  expressFramework('Express 5', express5),
  koaFramework('Koa 3', Koa3),
  nodeFront,
]

export const olderIdempotentFrameworks: readonly IdempotencyAdapter[] = [
  expressFramework('Express 4', express4),
  koaFramework('Koa 2', Koa2),
]
