// The small apps of the adapter contracts on Nest, with Express and with Fastify.

import type { IncomingMessage, ServerResponse } from 'node:http'
import { createRequire } from 'node:module'
import { Readable } from 'node:stream'
import {
  All,
  type ArgumentsHost,
  Controller,
  Get,
  Header,
  HttpCode,
  HttpException,
  type INestApplication,
  Module,
  type ModuleMetadata,
  type NestInterceptor,
  Post,
  Redirect,
  Req,
  Res,
  StreamableFile,
  UseInterceptors,
} from '@nestjs/common'
import { BaseExceptionFilter, NestFactory } from '@nestjs/core'
import { ExpressAdapter } from '@nestjs/platform-express'
import { FastifyAdapter } from '@nestjs/platform-fastify'
import type { Attempt } from '@stampede/core'
import {
  type HttpRequest,
  IdempotencyAttempt,
  idempotency,
  StampedeModule,
  stampedeCache,
} from '@stampede/nest'
import type { CacheAdapter, IdempotencyAdapter, Layer, RunningApp, Said } from '@stampede/testkit'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Observable, of } from 'rxjs'
import { SPLIT_CHARACTERS } from './ways.ts'

/** vitest.config.ts sets it for the projects `nest10` and `nest11`. */
export const VERSION = process.env.STAMPEDE_TEST_NEST ?? '12'

export const PLATFORMS = ['Express', 'Fastify'] as const
export type Platform = (typeof PLATFORMS)[number]

/** A handler with its decorators, and the decorators of its parameters. */
export interface Route {
  readonly decorators: readonly MethodDecorator[]
  readonly params?: readonly ParameterDecorator[]
  // biome-ignore lint/suspicious/noExplicitAny: the decorators decide what a handler gets.
  run(...args: any[]): unknown
}

type Class = new (...args: never[]) => object

/** Vitest compiles no parameter decorators, so decorators are called as functions. */
export function controllerOf(
  decorators: readonly ClassDecorator[],
  routes: Readonly<Record<string, Route>>,
  base: Class = class {},
): Class {
  class TestController extends base {}
  const { prototype } = TestController
  for (const [name, { decorators: ofRoute, params = [], run }] of Object.entries(routes)) {
    const descriptor = { value: run, writable: true, configurable: true }
    Object.defineProperty(prototype, name, descriptor)
    params.forEach((decorate, index) => {
      decorate(prototype, name, index)
    })
    for (const decorate of ofRoute) decorate(prototype, name, descriptor)
  }
  for (const decorate of decorators) decorate(TestController)
  return TestController
}

export function moduleOf(metadata: ModuleMetadata): Class {
  class TestModule {}
  Module(metadata)(TestModule)
  return TestModule
}

/** An app that does not listen yet. */
export async function createNestApp(
  platform: Platform,
  metadata: ModuleMetadata,
  { module: isAdded = true, ...options }: { module?: boolean; bodyParser?: boolean } = {},
): Promise<INestApplication> {
  const adapter = platform === 'Express' ? new ExpressAdapter() : new FastifyAdapter()
  const imports = [...(isAdded ? [StampedeModule.forRoot()] : []), ...(metadata.imports ?? [])]
  const module = moduleOf({ ...metadata, imports })
  return NestFactory.create(module, adapter, { logger: false, abortOnError: false, ...options })
}

export async function listenOn(app: INestApplication): Promise<RunningApp> {
  await app.listen(0, '127.0.0.1')
  const url = `http://127.0.0.1:${app.getHttpServer().address().port}`
  return {
    url,
    async [Symbol.asyncDispose]() {
      app.getHttpServer().closeAllConnections()
      await app.close()
    },
  }
}

type Native = ServerResponse | FastifyReply
const rawOf = <T extends object>(native: T) => ('raw' in native ? native.raw : native)
const resOf = (native: Native) => rawOf(native) as ServerResponse
const reqOf = (native: IncomingMessage | FastifyRequest) => rawOf(native) as IncomingMessage

/** Sends bytes as they are: Nest would add a content type, which the contract omits. */
function say(native: Native, { status = 200, headers = {}, body = '' }: Said): void {
  const res = resOf(native)
  res.statusCode = status
  for (const [field, value] of Object.entries(headers)) res.setHeader(field, value)
  if ('hijack' in native) native.hijack()
  if (!(body instanceof Readable)) return void res.end(body)
  body.once('error', (error) => res.destroy(error))
  body.once('close', () => body.readableEnded || res.destroy()).pipe(res)
}

const RAW = [Req(), Res()]

const streamOf = (...pieces: readonly Uint8Array[]) => new StreamableFile(Readable.from(pieces))
const PASSTHROUGH = [Res({ passthrough: true })]

type Way = Omit<Route, 'decorators'> & { readonly decorators?: readonly MethodDecorator[] }

const ways: Readonly<Record<string, Way>> = {
  object: { run: () => ({ a: 1 }) },
  array: { run: () => [1, 'two'] },
  string: { decorators: [HttpCode(203)], run: () => '<p>héllo</p>' },
  html: { decorators: [Header('Content-Type', 'text/html')], run: () => '<p>héllo</p>' },
  promise: { run: async () => ({ a: 1 }) },
  observable: { run: () => of({ a: 1 }, { a: 2 }) },
  nothing: { run: () => undefined },
  file: { run: () => new StreamableFile(Buffer.from([0, 255, 128]), { type: 'image/png' }) },
  stream: { run: () => streamOf(Buffer.from('a'), Buffer.from('b')) },
  redirect: { decorators: [Redirect('/elsewhere', 301)], run: () => undefined },
  passthrough: {
    params: PASSTHROUGH,
    run(native: Native) {
      const fields = 'raw' in native ? native.header.bind(native) : native.setHeader.bind(native)
      fields('Link', ['<a>', '<b>'])
      return 'links'
    },
  },
  'on-raw': {
    params: RAW,
    run(_req: object, native: Native) {
      if ('hijack' in native) native.hijack()
      const res = resOf(native)
      res.writeHead(200, { 'X-Own': 'yes' })
      res.write('own ')
      res.end('words')
    },
  },
}

const EVENT_STREAM = [Header('Content-Type', 'text/event-stream')]

const moreWays: Readonly<Record<string, Way>> = {
  created: { decorators: [Header('Location', '/orders/7')], run: () => undefined },
  'no-content': { decorators: [HttpCode(204)], run: () => undefined },
  'json-0': { decorators: [Header('Content-Type', 'application/json')], run: () => 0 },
  'json-null': { run: () => null },
  'empty-text': { run: () => '' },
  bytes: { run: () => new StreamableFile(Buffer.from([0x00, 0xff])) },
  'see-other': { decorators: [Redirect('/orders/7', 303)], run: () => undefined },
  'split-character': { run: () => streamOf(...SPLIT_CHARACTERS) },
  events: {
    decorators: EVENT_STREAM,
    run: () => streamOf(Buffer.from('data: 1\n\n'), Buffer.from('data: 2\n\n')),
  },
  'large-stream': { run: () => streamOf(Buffer.alloc(180_000, 'a'), Buffer.alloc(180_000, 'b')) },
  tagged: {
    decorators: [Header('ETag', '"v"'), Header('Cache-Control', 'no-cache')],
    run: () => ({ a: 1 }),
  },
}

/** Responds 201 with the body `"first"`, and goes on. */
const first = (native: Native): void => {
  const res = resOf(native)
  if ('hijack' in native) native.hijack()
  res.statusCode = 201
  res.end('"first"')
}

const odd: Readonly<Record<string, Way>> = {
  twice: {
    params: RAW,
    run(_req: object, native: Native) {
      first(native)
      resOf(native).end('second, and much longer than the first')
    },
  },
  'then-returns': {
    params: [Req(), ...PASSTHROUGH],
    run(_req: object, native: Native) {
      first(native)
      return { second: true }
    },
  },
  'then-throws': {
    params: RAW,
    run(_req: object, native: Native) {
      first(native)
      throw new Error('after the answer')
    },
  },
  'then-rejects': {
    params: RAW,
    async run(_req: object, native: Native) {
      first(native)
      throw new HttpException('after the answer', 400)
    },
  },
  trailers: {
    params: RAW,
    run(_req: object, native: Native) {
      if ('hijack' in native) native.hijack()
      const res = resOf(native)
      res.writeHead(201, { Trailer: 'X-Sum' })
      res.write('"fi')
      res.addTrailers({ 'X-Sum': '7' })
      res.end('rst"')
    },
  },
}

type Attempted = { readonly req: IncomingMessage; readonly attempt: Attempt | undefined }

/** One route for each way, at its name. `enter` is called before each handler. */
function routesOf(
  all: Readonly<Record<string, Way>>,
  verb: (path: string) => MethodDecorator,
  enter: (attempted: Attempted) => unknown = () => {},
): Record<string, Route> {
  return Object.fromEntries(
    Object.entries(all).map(([name, { decorators = [], params = [], run }]) => [
      name,
      {
        decorators: [verb(name), ...decorators],
        params: [IdempotencyAttempt(), Req(), ...params],
        async run(attempt: Attempt | undefined, req: IncomingMessage, ...args: unknown[]) {
          await enter({ req: reqOf(req), attempt })
          return run(...args)
        },
      },
    ]),
  )
}

/** Nest 10 runs on Express 4, whose patterns have no named wildcards. */
const everyPath = (platform: Platform) =>
  platform === 'Express' && VERSION !== '10' ? ['', '*path'] : '*'

const cacheOn = (platform: Platform): CacheAdapter => ({
  name: `Nest ${VERSION} on ${platform}`,
  refreshesOutside: true,
  writesLast: false,
  async start(options, handler, outside) {
    const all: Route = {
      decorators: [All(everyPath(platform))],
      params: RAW,
      async run(request: IncomingMessage & { originalUrl: string }, native: Native) {
        const { originalUrl: url, headers } = request
        const [path = '', query = ''] = url.split('?')
        const said = await handler({ path, url, headers, query }, resOf(native))
        if (said !== undefined) say(native, said)
        else if ('hijack' in native) native.hijack()
      },
    }
    const caches = [options].flat().map((each) => stampedeCache(each))
    const controllers = [controllerOf([Controller(), UseInterceptors(...caches)], { all })]
    const app = await createNestApp(platform, { controllers })
    if (outside)
      app.use((_req: object, res: ServerResponse, next: () => void) => outside(res, next))
    return listenOn(app)
  },
  async startWays(options) {
    const decorators = [Controller(), UseInterceptors(stampedeCache(options))]
    const controllers = [controllerOf(decorators, routesOf(ways, Get))]
    const app = await createNestApp(platform, { controllers })
    return { ...(await listenOn(app)), ways: Object.keys(ways) }
  },
})

const require = createRequire(import.meta.url)

/** Runs a function with the parameters of an Express middleware as an interceptor. */
const asInterceptor = (layer: Layer): NestInterceptor => ({
  intercept: (context, handler) =>
    new Observable((subscriber) => {
      const { getRequest, getResponse } = context.switchToHttp()
      layerOf(layer)(reqOf(getRequest()), resOf(getResponse()), (error) => {
        if (error === undefined) handler.handle().subscribe(subscriber)
        else subscriber.error(error)
      })
    }),
})

const layerOf = (layer: Layer): Exclude<Layer, 'gzip'> =>
  layer === 'gzip' ? require('compression')({ threshold: 0 }) : layer

/** Responds to errors that have a property `answer`. */
class AnswerFilter extends BaseExceptionFilter {
  override catch(error: Error & { answer?: number }, host: ArgumentsHost): void {
    const { answer } = error
    const known = answer === undefined ? error : new HttpException({ error: String(error) }, answer)
    super.catch(known, host)
  }
}

const idempotencyOn = (platform: Platform): IdempotencyAdapter => ({
  name: `Nest ${VERSION} on ${platform}`,
  ways: Object.keys({ ...ways, ...moreWays }),
  odd: Object.keys(odd).filter((name) => name !== 'trailers'),
  async start({ rules, stampede, outside = [], inside = [], mounts = ['/'], visit }) {
    const enter = ({ req, attempt }: Attempted) => visit({ req, attempt, res: {} as never })
    const other: Route = {
      decorators: [All(everyPath(platform))],
      params: [IdempotencyAttempt(), ...RAW],
      async run(attempt: Attempt | undefined, request: IncomingMessage, native: Native) {
        const said = await visit({ req: reqOf(request), res: resOf(native), attempt })
        if (said !== undefined) say(native, said)
      },
    }
    const routes = {
      ...routesOf({ ...ways, ...moreWays }, (name) => Post(`ways/${name}`), enter),
      ...routesOf(odd, (name) => Post(`odd/${name}`), enter),
      other,
    }
    const scope = ({ headers }: HttpRequest) => String(headers['x-user'] ?? '')
    const guarded = mounts.length === 0 ? [] : [idempotency({ scope, stampede, ...rules })]
    const path = mounts.length === 0 ? '/' : [...mounts]
    const decorators = [Controller(path), UseInterceptors(...guarded, ...inside.map(asInterceptor))]
    const controllers = [controllerOf(decorators, routes)]
    // The body stays unread, as in the apps of Express and Koa.
    const app = await createNestApp(platform, { controllers }, { bodyParser: false })
    const instance = app.getHttpAdapter().getInstance()
    if (platform === 'Fastify') {
      instance.removeAllContentTypeParsers()
      instance.addContentTypeParser('*', (_req: object, _body: object, done: (e: null) => void) =>
        done(null),
      )
    }
    for (const each of outside) app.use(layerOf(each))
    app.useGlobalFilters(new AnswerFilter(app.getHttpAdapter()))
    return listenOn(app)
  },
})

export const nestCaches: readonly CacheAdapter[] = PLATFORMS.map(cacheOn)
export const nestIdempotency: readonly IdempotencyAdapter[] = PLATFORMS.map(idempotencyOn)
