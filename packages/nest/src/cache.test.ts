// Nest alone in the journey of a cached request: guards, pipes, filters, interceptors, versions and
// modules, on both platforms. The rest is in the contract (test/contracts/cache-adapters.versions).

import { once } from 'node:events'
import { get as httpGet } from 'node:http'
import { text } from 'node:stream/consumers'
import {
  BadRequestException,
  type CallHandler,
  type CanActivate,
  Catch,
  Controller,
  type ExceptionFilter,
  type ExecutionContext,
  Get,
  Header,
  Headers,
  HttpCode,
  Injectable,
  type NestInterceptor,
  NotFoundException,
  Param,
  ParseIntPipe,
  Query,
  Redirect,
  RequestMethod,
  RequestTimeoutException,
  Scope,
  Sse,
  StreamableFile,
  UseGuards,
  UseInterceptors,
  Version,
  VersioningType,
} from '@nestjs/common'
import { APP_INTERCEPTOR } from '@nestjs/core'
import { createStampede, type Stampede } from '@stampede/core'
import express from 'express'
import { concat, delay, finalize, from, map, of, tap, throwError, timeout } from 'rxjs'
import { describe, expect, it, vi } from 'vitest'
import {
  controllerOf,
  createNestApp,
  listenOn,
  moduleOf,
  PLATFORMS,
  type Route,
  VERSION,
} from '../../../test/harness/nest-apps.ts'
import { deferred } from '../../node-http/src/testing/deferred.ts'
import { STAMPEDE, StampedeCache, StampedeModule, stampedeCache } from './index.ts'
import { addressOf } from './request.ts'

const CACHED = StampedeCache({ ttlMs: 60_000 })
const HIT = /Stampede; hit/

interface Got {
  readonly status: number
  readonly body: string
  readonly cache: string
  readonly headers: Headers
}

async function get(
  url: string,
  headers: Record<string, string> = {},
  method = 'GET',
): Promise<Got> {
  const response = await fetch(url, { method, headers, redirect: 'manual' })
  const cache = response.headers.get('cache-status') ?? ''
  return { status: response.status, body: await response.text(), cache, headers: response.headers }
}

/** The body for a request to another host. `fetch` does not send such a field. */
async function bodyFor(url: string, host: string): Promise<string> {
  const [response] = await once(httpGet(url, { headers: { host } }), 'response')
  return text(response)
}

/** A handler that counts its runs. */
function counting(more: Partial<Route> = {}) {
  const route = {
    runs: 0,
    decorators: [Get('a'), CACHED],
    run: () => `run ${++route.runs}`,
    ...more,
  }
  return route
}

describe.each(PLATFORMS)('@StampedeCache on Nest with %s', (platform) => {
  /** An app with one controller. */
  async function start(
    routes: Record<string, Route>,
    {
      decorators = [Controller()] as ClassDecorator[],
      providers = [] as object[],
      before = (_app: Awaited<ReturnType<typeof createNestApp>>) => {},
    } = {},
  ) {
    const controllers = [controllerOf(decorators, routes)]
    const app = await createNestApp(platform, { controllers, providers: providers as never[] })
    before(app)
    const running = await listenOn(app)
    return Object.assign(running, { app, stampede: app.get<Stampede>(STAMPEDE) })
  }

  it('caches a handler, and only that one', async () => {
    const [a, b] = [counting(), counting({ decorators: [Get('b')] })]
    await using app = await start({ a, b })
    expect((await get(`${app.url}/a`)).body).toBe('run 1')
    expect(await get(`${app.url}/a`)).toMatchObject({
      body: 'run 1',
      cache: expect.stringMatching(HIT),
    })
    expect((await get(`${app.url}/a`, {}, 'HEAD')).cache).toMatch(HIT)
    expect((await get(`${app.url}/b`)).body).toBe('run 1')
    expect(await get(`${app.url}/b`)).toMatchObject({ body: 'run 2', cache: '' })
  })

  it.each([
    ['two hosts', ['a.test', 'b.test']],
    ['two ports of a host', ['a.test:1', 'a.test:2']],
    ['a host with and without a port', ['a.test', 'a.test:2']],
  ])('has an entry for each host with its port: %s', async (_, hosts) => {
    await using app = await start({ a: counting() })
    const bodies: string[] = []
    for (const host of [...hosts, ...hosts]) bodies.push(await bodyFor(`${app.url}/a`, host))
    expect(bodies).toEqual(['run 1', 'run 2', 'run 1', 'run 2'])
  })

  it('caches all handlers of a controller, where the options of a handler win', async () => {
    const a = counting({ decorators: [Get('a')] })
    const b = counting({ decorators: [Get('b'), StampedeCache({ ttlMs: 5_000 })] })
    await using app = await start({ a, b }, { decorators: [Controller(), CACHED] })
    for (const path of ['a', 'b']) await get(`${app.url}/${path}`)
    expect((await get(`${app.url}/a`)).cache).toMatch(/hit; ttl=5\d$/)
    expect((await get(`${app.url}/b`)).cache).toMatch(/hit; ttl=[34]$/)
  })

  it('caches the whole app as a provider of APP_INTERCEPTOR', async () => {
    const a = counting({ decorators: [Get('a')] })
    const useClass = stampedeCache({ ttlMs: 60_000 })
    await using app = await start({ a }, { providers: [{ provide: APP_INTERCEPTOR, useClass }] })
    await get(`${app.url}/a`)
    expect((await get(`${app.url}/a`)).cache).toMatch(HIT)
  })

  it('runs guards before a hit', async () => {
    const guard: CanActivate = {
      canActivate: (context) => context.switchToHttp().getRequest().headers['x-pass'] === 'yes',
    }
    const a = counting({ decorators: [Get('a'), CACHED, UseGuards(guard)] })
    await using app = await start({ a })
    for (const _ of [1, 2])
      expect((await get(`${app.url}/a`, { 'x-pass': 'yes' })).body).toBe('run 1')
    expect(await get(`${app.url}/a`)).toMatchObject({ status: 403, cache: '' })
    expect((await get(`${app.url}/a`, { 'x-pass': 'yes' })).cache).toMatch(HIT)
  })

  it('stores no error of a pipe', async () => {
    const a = counting({ decorators: [Get('a/:id'), CACHED], params: [Param('id', ParseIntPipe)] })
    await using app = await start({ a })
    for (const _ of [1, 2]) expect((await get(`${app.url}/a/x`)).status).toBe(400)
    for (const _ of [1, 2]) expect((await get(`${app.url}/a/7`)).body).toBe('run 1')
  })

  it('judges the response of an exception filter by its status', async () => {
    let filtered = 0
    class Filter implements ExceptionFilter {
      catch(error: NotFoundException, host: ExecutionContext) {
        filtered += 1
        const reply = host.switchToHttp().getResponse()
        reply.status(error.getStatus()).send({ filtered })
      }
    }
    Catch(NotFoundException)(Filter)
    const cached = StampedeCache({ ttlMs: 60_000, negativeTtlMs: 60_000 })
    const routes = {
      missing: {
        decorators: [Get('missing'), cached],
        run: async () => {
          throw new NotFoundException()
        },
      },
      broken: {
        decorators: [Get('broken'), cached],
        run: () => {
          throw new BadRequestException()
        },
      },
    }
    await using app = await start(routes, { before: (each) => each.useGlobalFilters(new Filter()) })
    for (const _ of [1, 2]) {
      expect(await get(`${app.url}/missing`)).toMatchObject({ status: 404, body: '{"filtered":1}' })
    }
    expect((await get(`${app.url}/missing`)).cache).toMatch(HIT)
    for (const _ of [1, 2]) expect((await get(`${app.url}/broken`)).cache).toMatch(/detail=status/)
  })

  it.each([
    ['an error', () => throwError(() => new Error('late')).pipe(delay(1))],
    ['a rejection', async () => Promise.reject(new Error('late'))],
  ])('shares the 500 of %s with requests that wait', async (_, run) => {
    let runs = 0
    const decorators = [Get('a'), CACHED]
    const slow = async () => {
      runs += 1
      await new Promise((resolve) => setTimeout(resolve, 50))
      return run()
    }
    await using app = await start({ a: { decorators, run: slow } })
    const got = await Promise.all([1, 2, 3].map(() => get(`${app.url}/a`)))
    expect(got.map(({ status }) => status)).toEqual([500, 500, 500])
    expect(runs).toBe(1)
  })

  it('replays status, fields and bytes of decorated handlers', async () => {
    let n = 0
    const routes: Record<string, Route> = {
      accepted: {
        decorators: [Get('accepted'), HttpCode(203), Header('X-Own', 'yes'), CACHED],
        run: () => ({ n: ++n }),
      },
      moved: {
        decorators: [Get('moved'), Redirect('/else', 301), CACHED],
        run: () => ++n && undefined,
      },
      file: {
        decorators: [Get('file'), CACHED],
        run: () => new StreamableFile(Buffer.from(`bytes ${++n}`), { type: 'text/x-own' }),
      },
      observable: {
        decorators: [Get('observable'), CACHED],
        run: () => of({ n: ++n }).pipe(delay(1)),
      },
    }
    await using app = await start(routes)
    for (const path of Object.keys(routes)) {
      const [miss, hit] = [await get(`${app.url}/${path}`), await get(`${app.url}/${path}`)]
      expect(hit.cache, path).toMatch(HIT)
      expect([hit.status, hit.body], path).toEqual([miss.status, miss.body])
      for (const name of ['x-own', 'location', 'content-type', 'content-length'])
        expect(hit.headers.get(name), path).toBe(miss.headers.get(name))
    }
    expect(n).toBe(4)
  })

  it('sends the fields of dynamic @Header values as they were on the miss', async () => {
    let n = 0
    const a = counting({ decorators: [Get('a'), Header('X-Request', () => String(++n)), CACHED] })
    await using app = await start({ a })
    const [miss, hit] = [await get(`${app.url}/a`), await get(`${app.url}/a`)]
    expect([miss.headers.get('x-request'), hit.headers.get('x-request')]).toEqual(['1', '2'])
  })

  describe('with versions', () => {
    const version = (value: string) => {
      const show = { decorators: [Get('a'), CACHED], run: () => `version ${value}` }
      return controllerOf([Controller({ version: value })], { show })
    }

    it.each([
      ['a header', { type: VersioningType.HEADER, header: 'X-Version' }, 'x-version', ''],
      [
        'a media type',
        { type: VersioningType.MEDIA_TYPE, key: 'v=' },
        'accept',
        'application/json;v=',
      ],
    ] as const)('keeps versions by %s apart', async (_, options, name, prefix) => {
      const controllers = [version('1'), version('2')]
      const nest = await createNestApp(platform, { controllers })
      nest.enableVersioning(options)
      await using app = await listenOn(nest)
      for (const _ of [1, 2]) {
        for (const each of ['1', '2']) {
          const got = await get(`${app.url}/a`, { [name]: prefix + each })
          expect(got).toMatchObject({ status: 200, body: `version ${each}` })
        }
      }
      expect((await get(`${app.url}/a`, { [name]: `${prefix}2` })).cache).toMatch(HIT)
      expect((await get(`${app.url}/a`, { [name]: `${prefix}3` })).status).toBe(404)
    })

    it('keeps versions of two handlers apart, and one version for a purge of the path', async () => {
      const routes = Object.fromEntries(
        ['1', '2'].map((each) => [
          `v${each}`,
          { decorators: [Get('a'), Version(each), CACHED], run: () => `version ${each}` },
        ]),
      )
      const before = (nest: Awaited<ReturnType<typeof createNestApp>>) =>
        nest.enableVersioning({
          type: VersioningType.HEADER,
          header: 'X-Version',
          defaultVersion: '1',
        })
      await using app = await start(routes, { before })
      const ask = (each: string) => get(`${app.url}/a`, { 'x-version': each })
      for (const each of ['1', '2']) expect((await ask(each)).body).toBe(`version ${each}`)
      await app.stampede.purge({ path: '/a' })
      for (const each of ['1', '2']) expect((await ask(each)).cache).toMatch(/fwd=/)
    })

    it('counts routes with the global prefix and the version', async () => {
      const nest = await createNestApp(platform, { controllers: [version('1')] })
      nest.setGlobalPrefix('api', { exclude: [{ path: 'health', method: RequestMethod.GET }] })
      nest.enableVersioning({ type: VersioningType.URI })
      await using app = await listenOn(nest)
      for (const _ of [1, 2]) expect((await get(`${app.url}/api/v1/a`)).body).toBe('version 1')
      const routes = nest.get<Stampede>(STAMPEDE).stats().routes
      expect(Object.keys(routes)).toEqual([expect.stringContaining('/api/v1/a')])
    })
  })

  // Decorators apply from bottom to top, so the lower one is the outer interceptor, and the earlier
  // one here.
  describe('with other interceptors', () => {
    const interceptor = (intercept: (handler: CallHandler) => unknown) =>
      UseInterceptors({
        intercept: (_: unknown, handler: CallHandler) => intercept(handler),
      } as NestInterceptor)

    it('stores what the interceptors on both sides made of the value', async () => {
      const outer = interceptor((handler) => handler.handle().pipe(map((data) => ({ data }))))
      const inner = interceptor((handler) => handler.handle().pipe(map((text) => `<${text}>`)))
      const a = counting({ decorators: [Get('a'), outer, CACHED, inner] })
      await using app = await start({ a })
      for (const _ of [1, 2]) expect((await get(`${app.url}/a`)).body).toBe('{"data":"<run 1>"}')
      expect((await get(`${app.url}/a`)).cache).toMatch(HIT)
    })

    it('completes the Observable of outer interceptors after a hit', async () => {
      const log: unknown[] = []
      const outer = interceptor((handler) =>
        handler.handle().pipe(
          timeout(200),
          tap({ next: (value) => log.push(value), error: (error) => log.push(error) }),
          finalize(() => log.push('final')),
        ),
      )
      const a = counting({ decorators: [Get('a'), outer, CACHED] })
      await using app = await start({ a })
      for (const _ of [1, 2]) await get(`${app.url}/a`)
      await vi.waitFor(() => expect(log).toEqual(['run 1', 'final', undefined, 'final']))
      await new Promise((resolve) => setTimeout(resolve, 250))
      expect(log).toHaveLength(4)
    })

    it('sends nothing more if an outer interceptor fails after a hit', async () => {
      const outer = interceptor((handler) =>
        handler.handle().pipe(map((text: string) => text.toUpperCase())),
      )
      class Filter implements ExceptionFilter {
        caught = 0
        catch(_error: Error, host: ExecutionContext) {
          this.caught += 1
          const reply = host.switchToHttp().getResponse()
          if (platform === 'Express') reply.setHeader('X-Late', 'yes')
          else reply.header('X-Late', 'yes')
          reply.status(500).send({ late: true })
        }
      }
      Catch()(Filter)
      const filter = new Filter()
      const warnings = vi.spyOn(process, 'emitWarning')
      const a = counting({ decorators: [Get('a'), outer, CACHED] })
      await using app = await start({ a }, { before: (each) => each.useGlobalFilters(filter) })
      for (const _ of [1, 2, 3]) {
        expect(await get(`${app.url}/a`)).toMatchObject({ status: 200, body: 'RUN 1' })
      }
      await vi.waitFor(() => expect(filter.caught).toBe(2))
      expect((await get(`${app.url}/a`)).cache).toMatch(HIT)
      expect(warnings).not.toHaveBeenCalled()
    })

    it('sends the response of an outer timeout, and does not store it', async () => {
      const outer = interceptor((handler) =>
        handler
          .handle()
          .pipe(timeout({ each: 50, with: () => throwError(() => new RequestTimeoutException()) })),
      )
      let runs = 0
      const run = async () => {
        runs += 1
        if (runs === 1) await new Promise((resolve) => setTimeout(resolve, 150))
        return `run ${runs}`
      }
      await using app = await start({ a: { decorators: [Get('a'), outer, CACHED], run } })
      expect((await get(`${app.url}/a`)).status).toBe(408)
      expect(await get(`${app.url}/a`)).toMatchObject({ status: 200, body: 'run 2' })
    })
  })

  it('leaves event streams to Nest, with an event for an error', async () => {
    let runs = 0
    const events = {
      decorators: [Sse('events')],
      run: () => {
        runs += 1
        const later = throwError(() => new BadRequestException('no more'))
        return concat(of({ data: 'one' }).pipe(delay(20)), later)
      },
    }
    await using app = await start({ events }, { decorators: [Controller(), CACHED] })
    const got = await Promise.all([1, 2].map(() => get(`${app.url}/events`)))
    for (const { body, cache } of got) {
      expect(body).toContain('data: one')
      expect(body).toContain('event: error')
      expect(cache).toBe('')
    }
    expect(runs).toBe(2)
  })

  it('works for a request-scoped controller and guard', async () => {
    let made = 0
    class Guard implements CanActivate {
      constructor() {
        made += 1
      }
      canActivate() {
        return true
      }
    }
    Injectable({ scope: Scope.REQUEST })(Guard)
    let controllers = 0
    class Base {
      constructor() {
        controllers += 1
      }
    }
    const decorators = [Controller({ scope: Scope.REQUEST })]
    const a = counting({ decorators: [Get('a'), CACHED, UseGuards(Guard)] })
    const nest = await createNestApp(platform, {
      controllers: [controllerOf(decorators, { a }, Base as never)],
    })
    await using app = await listenOn(nest)
    for (const _ of [1, 2, 3]) expect((await get(`${app.url}/a`)).body).toBe('run 1')
    expect(nest.get<Stampede>(STAMPEDE).stats().hits.l1).toBe(2)
    expect(made).toBeGreaterThanOrEqual(3)
    expect(controllers).toBeGreaterThanOrEqual(3)
  })

  it('refreshes in the background through guards', async () => {
    const guarded: unknown[] = []
    const guard: CanActivate = {
      canActivate: (context) => guarded.push(context.getHandler().name) > 0,
    }
    const cached = StampedeCache({ ttlMs: 30, jitter: 0, staleWhileRevalidateMs: 60_000 })
    const a = counting({ decorators: [Get('a'), cached, UseGuards(guard)] })
    await using app = await start({ a })
    await get(`${app.url}/a`)
    await new Promise((resolve) => setTimeout(resolve, 60))
    expect((await get(`${app.url}/a`)).body).toBe('run 1')
    await vi.waitFor(() => expect(a.runs).toBe(2))
    expect(guarded).toHaveLength(3)
    await vi.waitFor(async () => expect((await get(`${app.url}/a`)).body).toMatch(/run [2-9]/))
  })

  it('passes callbacks the request of the platform', async () => {
    const seen: unknown[] = []
    const cached = StampedeCache({
      ttlMs: 60_000,
      tags: ({ params, query }) => {
        seen.push({ ...Object(params) }, { ...Object(query) })
        return ['tag']
      },
    })
    const params = [Query('q'), Headers('x-any')]
    await using app = await start({
      a: { decorators: [Get('a/:id'), cached], params, run: (q) => q },
    })
    await get(`${app.url}/a/7?q=1`)
    expect(seen).toEqual([{ id: '7' }, { q: '1' }])
    await app.stampede.purge({ tag: 'tag' })
    expect((await get(`${app.url}/a/7?q=1`)).cache).toMatch(/fwd=/)
  })

  it('runs an Observable again for a waiting request if its client leaves', async () => {
    let runs = 0
    const { promise: gate, resolve: finish } = deferred()
    const run = () => {
      const text = `run ${++runs}`
      return from(gate.then(() => text))
    }
    await using app = await start({ a: { decorators: [Get('a'), CACHED], run } })
    const leaver = new AbortController()
    const left = fetch(`${app.url}/a`, { signal: leaver.signal }).catch(() => 'left')
    await vi.waitFor(() => expect(runs).toBe(1))
    const waiter = get(`${app.url}/a`)
    await vi.waitFor(() => expect(app.stampede.stats().collapsed).toBe(1))
    leaver.abort()
    expect(await left).toBe('left')
    // Only Nest 12 unsubscribes. Older versions finish the run of the leaver.
    if (VERSION === '12') await vi.waitFor(() => expect(runs).toBe(2))
    finish()
    expect(await waiter).toMatchObject({ status: 200, body: `run ${runs}` })
  })

  it('has one Stampede per app, which the app closes', async () => {
    const [one, two] = [await start({ a: counting() }), await start({ a: counting() })]
    expect(one.stampede).not.toBe(two.stampede)
    const close = vi.spyOn(one.stampede, 'close')
    await one[Symbol.asyncDispose]()
    expect(close).toHaveBeenCalledOnce()
    await two[Symbol.asyncDispose]()
  })

  it('gets its Stampede of a factory with injected providers, and closes it', async () => {
    const stampede = createStampede()
    const close = vi.spyOn(stampede, 'close')
    const own = moduleOf({ providers: [{ provide: 'OWN', useValue: stampede }], exports: ['OWN'] })
    const imports = [
      StampedeModule.forRootAsync({
        imports: [own],
        inject: ['OWN'],
        useFactory: async (injected: Stampede) => injected,
      }),
    ]
    const controllers = [controllerOf([Controller()], { a: counting() })]
    const nest = await createNestApp(platform, { imports, controllers }, { module: false })
    {
      await using app = await listenOn(nest)
      for (const _ of [1, 2]) await get(`${app.url}/a`)
      expect(nest.get(STAMPEDE)).toBe(stampede)
      expect(stampede.stats().hits.l1).toBe(1)
    }
    expect(close).toHaveBeenCalledOnce()
  })

  it('rejects a factory that returns no Stampede', async () => {
    const useFactory = (): Stampede => undefined as unknown as Stampede
    const imports = [StampedeModule.forRootAsync({ useFactory })]
    const nest = createNestApp(platform, { imports }, { module: false })
    await expect(nest).rejects.toThrow(
      'StampedeModule.forRootAsync.useFactory(): received undefined; return a Stampede',
    )
  })

  it('does not close a Stampede that the app passed', async () => {
    const stampede = createStampede()
    const close = vi.spyOn(stampede, 'close')
    const imports = [StampedeModule.forRoot({ stampede })]
    const nest = await createNestApp(platform, { imports }, { module: false })
    await (await listenOn(nest))[Symbol.asyncDispose]()
    expect(close).not.toHaveBeenCalled()
    await stampede.close()
  })
})

it('responds to a hit of app.inject() on Fastify', async () => {
  const controllers = [controllerOf([Controller()], { a: counting() })]
  const nest = await createNestApp('Fastify', { controllers })
  await nest.init()
  const fastify = nest.getHttpAdapter().getInstance()
  await fastify.ready()
  for (const _ of [1, 2]) expect((await fastify.inject('/a')).body).toBe('run 1')
  expect((await fastify.inject('/a')).headers['cache-status']).toMatch(HIT)
  await nest.close()
})

it('caches and refreshes an app of Nest that another Express app mounts', async () => {
  const a = counting({
    decorators: [Get('a'), StampedeCache({ ttlMs: 30, jitter: 0, staleWhileRevalidateMs: 60_000 })],
  })
  const nest = await createNestApp('Express', {
    controllers: [controllerOf([Controller()], { a })],
  })
  await nest.init()
  const server = express().use('/nest', nest.getHttpAdapter().getInstance()).listen(0)
  const url = `http://127.0.0.1:${Object(server.address()).port}/nest/a`
  await get(url)
  expect((await get(url)).cache).toMatch(HIT)
  await new Promise((resolve) => setTimeout(resolve, 60))
  await get(url)
  await vi.waitFor(() => expect(a.runs).toBeGreaterThan(1))
  server.close()
  server.closeAllConnections()
  await nest.close()
})

describe('mistakes', () => {
  it('are named: a decorator that is not called', () => {
    const fix = 'a decorator is used without being called; add parentheses'
    expect(() => StampedeCache(class Products {} as never)).toThrow(fix)
    expect(() => Reflect.apply(StampedeCache, undefined, [class {}.prototype, 'show', {}])).toThrow(
      fix,
    )
  })

  it('are named: options of createStampede in forRoot', () => {
    expect(() => StampedeModule.forRoot({ store: {} } as object)).toThrow(
      'pass { stampede: createStampede({ store }) }, or nothing',
    )
  })

  it('are named: a mistyped option, when the app starts', async () => {
    const a = counting({ decorators: [Get('a'), StampedeCache({ ttl: 10 } as object)] })
    const controllers = [controllerOf([Controller()], { a })]
    await expect(createNestApp('Express', { controllers })).rejects.toThrow('did you mean ttlMs?')
  })
})

it('leaves microservices alone', () => {
  const handler = { handle: () => of('value') }
  const context = { getType: () => 'rpc', getHandler: () => () => {}, getClass: () => class {} }
  const interceptor = new (stampedeCache({ ttlMs: 10 }))(createStampede())
  const values: unknown[] = []
  const returned = interceptor.intercept(context as never, handler)
  Object(returned).subscribe((value: unknown) => values.push(value))
  expect(values).toEqual(['value'])
})

describe('the address of a request on Express 4', () => {
  const fields = { host: 'a.test:1', 'x-forwarded-host': 'b.test:2, c.test' }
  it.each<[string, object, boolean, string]>([
    ['the Host field', { host: 'a.test:1' }, false, 'a.test:1'],
    ['the Host field, if the app trusts a proxy', { host: 'a.test:1' }, true, 'a.test:1'],
    ['the Host field, not the claim of a client', fields, false, 'a.test:1'],
    ['the first X-Forwarded-Host of a trusted proxy', fields, true, 'b.test:2'],
  ])('has the host with its port from %s', (_, headers, isTrusted, host) => {
    const request = {
      // `req.host` of Express 4 has no port, and a read of it prints a warning.
      get host(): string {
        throw new Error('req.host is deprecated')
      },
      ...{ method: 'GET', protocol: 'http', originalUrl: '/a', url: '/a', params: {}, query: {} },
      headers,
      socket: { remoteAddress: '10.0.0.1' },
      app: { get: () => () => isTrusted },
    }
    expect(addressOf(request as never, '').host).toBe(host)
  })
})
