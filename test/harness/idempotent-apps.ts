// In-process apps whose POSTs are guarded by idempotency keys, the same on every framework: for the adapter contract.
import { type IncomingMessage, request, type ServerResponse } from 'node:http'
import { createRequire } from 'node:module'
import { Readable } from 'node:stream'
import { gzipSync } from 'node:zlib'
import type { Attempt, Stampede } from '@stampede/core'
import { idempotency as expressIdempotency } from '@stampede/express'
import { idempotency as koaIdempotency } from '@stampede/koa'
import express5, { type NextFunction, type Request, type Response } from 'express'
import express4 from 'express4'
import Koa3, { type Context, type Middleware } from 'koa'
import Koa2 from 'koa2'
import { expressWays, KOA3_ONLY, koaWays, listen, type RunningApp, type Ways } from './apps.ts'
import { createGate } from './origin.ts'

export interface Visit {
  readonly req: IncomingMessage
  readonly res: ServerResponse
  readonly attempt: Attempt | undefined
  /** Of this path, over all apps of the handler. */
  readonly run: number
}

/** `body`: a stream is piped, or given to Koa; what is not said is left to the framework. */
export interface Said {
  readonly status?: number
  readonly headers?: Record<string, string | string[]>
  readonly body?: string | Buffer | Readable
}

/** As in Express; `gzip` stands for what the framework uses for that. */
export type Layer =
  | 'gzip'
  | ((req: IncomingMessage, res: ServerResponse, next: (error?: unknown) => void) => void)

export interface AppOptions {
  readonly stampede: Stampede
  /** Options of idempotency(); the default scope is the header `x-user`. */
  readonly rules?: object
  readonly outside?: readonly Layer[]
  readonly inside?: readonly Layer[]
  /** Mounts the middleware under each of these instead of `/`, as a router does. */
  readonly mounts?: readonly string[]
  /** What it throws is answered by the framework; with a property `answer`, by an error handler with that status. */
  readonly handler: (visit: Visit) => Said | Promise<Said>
}

export interface IdempotentFramework {
  readonly name: string
  /** `POST /ways/<way>`: each way this framework has to answer. */
  readonly ways: readonly string[]
  /** `POST /odd/<name>`: an answer `first` that is given twice, is followed by an error, or by trailers. */
  start(options: AppOptions): Promise<RunningApp>
}

const PIECES = [
  Buffer.from([0xe2, 0x82]),
  Buffer.from([0xac, 0xf0, 0x9f]),
  Buffer.from([0x98, 0x80]),
]
const pieces = () => Readable.from(PIECES)
const HEAD_LINES = ['X-Own', 'yes', 'Location', '/orders/7', 'Link', '<a>', 'Link', '<b>']

const moreExpressWays: Ways<[Request, Response]> = {
  created: (_req, res) => res.status(201).location('/orders/7').end(),
  'no-content': (_req, res) => res.status(204).end(),
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
  tagged: (ctx) => {
    ctx.set({ ETag: '"v"', 'Cache-Control': 'no-cache' })
    ctx.body = { a: 1 }
  },
}

const allExpressWays = { ...expressWays, ...moreExpressWays }
const allKoaWays = { ...koaWays, ...moreKoaWays }

const withTrailers = (res: ServerResponse): void => {
  res.writeHead(201, { Trailer: 'X-Sum' })
  res.write('"fi')
  res.addTrailers({ 'X-Sum': '7' })
  res.end('rst"')
}

const expressOdd: Ways<[Request, Response]> = {
  trailers: (_req, res) => withTrailers(res),
  twice: (_req, res) => {
    res.status(201).json('first')
    res.status(500).json('second')
  },
  'then-throws': (_req, res) => {
    res.status(201).json('first')
    throw new Error('after the answer')
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
  'then-throws': (ctx) => {
    ctx.respond = false
    ctx.res.statusCode = 201
    ctx.res.end('"first"')
    throw new Error('after the answer')
  },
}

const require = createRequire(import.meta.url)

/** Runs of the handler by path, over all apps that share it. */
const runsOf = new WeakMap<AppOptions['handler'], Map<string, number>>()

export function runs({ handler }: Pick<AppOptions, 'handler'>, path: string): number {
  return runsOf.get(handler)?.get(path) ?? 0
}

function countRun({ handler }: AppOptions, url: string): number {
  const counts = runsOf.get(handler) ?? new Map<string, number>()
  runsOf.set(handler, counts)
  const path = url.split('?')[0] ?? url
  const run = (counts.get(path) ?? 0) + 1
  counts.set(path, run)
  return run
}

const answerOf = (error: unknown): number | undefined =>
  (error as { answer?: number } | undefined)?.answer

/** A handler that tells when it is at work, and answers when it is let go. */
export function gated() {
  const gate = createGate()
  let tell: (visit: Visit) => void = () => {}
  const atWork = new Promise<Visit>((resolve) => {
    tell = resolve
  })
  const handler = async (visit: Visit): Promise<Said> => {
    tell(visit)
    await gate.opened
    return { status: 201, body: 'done' }
  }
  return { handler, atWork, letGo: gate.open }
}

/** A path may say `__proto__`. */
function own<T>(all: Readonly<Record<string, T>> | undefined, name: string): T | undefined {
  return all !== undefined && Object.hasOwn(all, name) ? all[name] : undefined
}

function expressFramework(name: string, express: typeof express5): IdempotentFramework {
  return {
    name,
    ways: Object.keys(allExpressWays),
    start(options) {
      const { rules, stampede, outside = [], inside = [], mounts = ['/'] } = options
      const layer = (each: Layer) =>
        each === 'gzip' ? require('compression')({ threshold: 0 }) : each
      const app = express()
      // Its own error handler is silent then.
      app.set('env', 'test')
      for (const each of outside) app.use(layer(each))
      const scope = (req: Request) => req.get('x-user') ?? ''
      for (const path of mounts) app.use(path, expressIdempotency({ scope, stampede, ...rules }))
      for (const each of inside) app.use(layer(each))
      app.use(async (req: Request, res: Response, next: NextFunction) => {
        const run = countRun(options, req.originalUrl)
        try {
          const [, kind = '', way = ''] = req.path.split('/')
          const answer = own(own({ ways: allExpressWays, odd: expressOdd }, kind), way)
          if (answer !== undefined) return void answer(req, res)
          const said = await options.handler({ req, res, attempt: req.idempotency, run })
          sayInExpress(res, said)
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

function koaFramework(name: string, Koa: typeof Koa3): IdempotentFramework {
  return {
    name,
    ways: Object.keys(allKoaWays).filter((way) => name !== 'Koa 2' || !KOA3_ONLY.includes(way)),
    start(options) {
      const { rules, stampede, outside = [], inside = [], mounts = ['/'] } = options
      const app = new Koa()
      app.silent = true
      app.use(renderErrors)
      for (const each of outside) app.use(each === 'gzip' ? gzipInKoa : inKoa(each))
      const scope = (ctx: Context) => ctx.get('x-user')
      const guard = koaIdempotency({ scope, stampede, ...rules })
      app.use(mounts[0] === '/' ? guard : mountInKoa(mounts, guard))
      for (const each of inside) app.use(each === 'gzip' ? gzipInKoa : inKoa(each))
      app.use(async (ctx) => {
        const run = countRun(options, ctx.originalUrl)
        const [, kind = '', way = ''] = ctx.path.split('/')
        const answer = own(own({ ways: allKoaWays, odd: koaOdd }, kind), way)
        if (answer !== undefined) return void answer(ctx)
        const { req, res, idempotency: attempt } = ctx
        sayInKoa(ctx, await options.handler({ req, res, attempt, run }))
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

/** As koa-compress, for bodies at hand. */
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

/** As koa-mount: what is mounted does not see where. */
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

export const idempotentFrameworks: readonly IdempotentFramework[] = [
  expressFramework('Express 5', express5),
  expressFramework('Express 4', express4),
  koaFramework('Koa 3', Koa3),
  koaFramework('Koa 2', Koa2),
]

export interface Post {
  readonly method?: string
  readonly key?: string
  readonly user?: string
  readonly body?: string
  readonly headers?: Record<string, string>
  /** Aborted, the client is gone: its answer is `cut`. */
  readonly signal?: AbortSignal
}

export interface Got {
  readonly status: number
  /** Every line as sent, names in lower case. */
  readonly fields: ReadonlyArray<readonly [string, string]>
  readonly headers: IncomingMessage['headers']
  readonly body: Buffer
  readonly trailers: IncomingMessage['trailers']
  /** The end did not come. */
  readonly cut: boolean
}

/** One request on a connection of its own; never rejects. */
export function post(url: string, options: Post = {}): Promise<Got> {
  const { method = 'POST', key = 'k', user = 'ada', body = '{"amount":1}', signal } = options
  const headers = {
    'content-type': 'application/json',
    'idempotency-key': key,
    'x-user': user,
    'content-length': String(Buffer.byteLength(body)),
    ...options.headers,
  }
  return new Promise((resolve) => {
    const none = {
      status: 0,
      fields: [],
      headers: {},
      trailers: {},
      body: Buffer.alloc(0),
      cut: true,
    }
    const sent = request(url, { method, headers, agent: false, ...(signal && { signal }) })
    sent.on('error', () => resolve(none))
    sent.on('response', (res) => {
      const chunks: Buffer[] = []
      res.on('data', (chunk: Buffer) => chunks.push(chunk))
      res.on('error', () => {})
      res.on('close', () => {
        const { rawHeaders } = res
        const fields = rawHeaders.flatMap((name, i) =>
          i % 2 === 0 ? [[name.toLowerCase(), rawHeaders[i + 1] ?? ''] as const] : [],
        )
        const { statusCode: status = 0, headers, trailers, complete } = res
        resolve({
          status,
          fields,
          headers,
          trailers,
          body: Buffer.concat(chunks),
          cut: !complete,
        })
      })
    })
    sent.end(body)
  })
}
