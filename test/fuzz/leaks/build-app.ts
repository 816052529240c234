// Builds a scenario's app on each framework, as one request listener. Caches for single routes are
// mounted there.

import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'
import { createHttpCache } from '@stampede/core/adapter'
import { stampedeCache as expressCache } from '@stampede/express'
import { stampedeCache as koaCache } from '@stampede/koa'
import { stampedeFront } from '@stampede/node-http'
import { createNodeCache } from '@stampede/node-http/adapter'
import express5, { type Request, type Response } from 'express'
import express4 from 'express4'
import Koa3, { type Middleware } from 'koa'
import Koa2 from 'koa2'
import { aborted } from './answers.ts'
import { type AppContext, cacheOptions, readsBody, routeOf, tell } from './app-context.ts'
import { koaLayer } from './koa-layers.ts'
import { writeOnKoa } from './koa-writers.ts'
import { type Next, type NodeLayer, nodeLayer } from './node-layers.ts'
import { writeOnNode } from './node-writers.ts'
import { bodies, noteLogin, targetOf } from './people.ts'
import type { Scenario } from './scenario.ts'

export function buildApp(context: AppContext): RequestListener {
  const app = appOf(context)
  return (req, res) => {
    noteLogin(req)
    app(req, res)
  }
}

function appOf(context: AppContext): RequestListener {
  switch (context.scenario.framework) {
    case 'express5':
      return expressApp(context, express5)
    case 'express4':
      return expressApp(context, express4)
    case 'koa3':
      return koaApp(context, Koa3)
    case 'koa2':
      return koaApp(context, Koa2)
    case 'node':
      return nodeApp(context, handlerOf(context))
    case 'front':
      return frontApp(context)
  }
}

/** False: the handler stopped its work, because the client of `res` left. */
function work(ms: number, res: ServerResponse | undefined): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms, true)
    res?.once('close', () => {
      clearTimeout(timer)
      resolve(false)
    })
  })
}

async function readBody(req: IncomingMessage): Promise<void> {
  bodies.set(req, await text(req))
}

/** Responds synchronously if there is no delay, as a handler may. */
function handlerOf(context: AppContext): NodeLayer {
  return (req, res, next) => {
    const respond = (): void => {
      const told = tell(context, req)
      if (told === undefined) {
        next()
        return
      }
      const { answer, delayMs, aborts } = told
      if (delayMs === 0) writeOnNode(res, answer)
      else
        work(delayMs, aborts && res)
          .then((done) => writeOnNode(res, done ? answer : aborted(answer, aborts)))
          .catch(next)
    }
    if (readsBody(context, req)) void readBody(req).then(respond).catch(next)
    else respond()
  }
}

function expressApp(context: AppContext, express: typeof express5): RequestListener {
  const app = express()
  app.set('env', 'test').set('trust proxy', context.scenario.trustsProxy)
  for (const layer of context.scenario.layers) {
    if (layer.kind !== 'cache') {
      app.use(nodeLayer(context, layer))
      continue
    }
    const cache = expressCache(cacheOptions<Request>(context, layer.options))
    if (layer.at === 'all') app.use(cache)
    else for (const route of layer.at) app.use(`/r${route}`, cache)
  }
  const handler = handlerOf(context)
  const router = express.Router()
  router.use((req: Request, res: Response, next) => handler(req, res, next))
  app.use(/^\/r\d+/, router)
  return app
}

function koaApp(context: AppContext, Koa: typeof Koa3): RequestListener {
  const app = new Koa({ proxy: context.scenario.trustsProxy })
  app.silent = true
  for (const layer of context.scenario.layers) {
    if (layer.kind !== 'cache') {
      app.use(koaLayer(context, layer))
      continue
    }
    const cache = koaCache(cacheOptions(context, layer.options))
    const { at } = layer
    app.use(at === 'all' ? cache : onRoutes(cache, at))
  }
  app.use(async (ctx) => {
    if (readsBody(context, ctx)) await readBody(ctx.req)
    const told = tell(context, ctx)
    if (told === undefined) return
    const { answer, delayMs, aborts } = told
    const isDone = delayMs === 0 || (await work(delayMs, aborts && ctx.res))
    writeOnKoa(ctx, isDone ? answer : aborted(answer, aborts))
  })
  return app.callback()
}

function onRoutes(cache: Middleware, at: readonly number[]): Middleware {
  return (ctx, next) => (at.includes(routeOf(ctx)) ? cache(ctx, next) : next())
}

/** The first cache for all routes becomes a front before an app with the other layers. */
function frontApp(context: AppContext): RequestListener {
  const { layers } = context.scenario
  const first = layers.findIndex((layer) => layer.kind === 'cache' && layer.at === 'all')
  const cache = layers[first]
  if (cache?.kind !== 'cache') return appBehind(context)
  const withLayers = (some: Scenario['layers']): AppContext => ({
    ...context,
    scenario: { ...context.scenario, layers: some },
  })
  const behind = appBehind(withLayers(layers.slice(first + 1)))
  const front = stampedeFront(behind, cacheOptions<IncomingMessage>(context, cache.options))
  return nodeApp(withLayers(layers.slice(0, first)), (req, res) => front(req, res))
}

/** Express, or node:http on HTTP/2, where Express does not run. */
function appBehind(context: AppContext): RequestListener {
  return context.scenario.wire === 'http2'
    ? nodeApp(context, handlerOf(context))
    : expressApp(context, express5)
}

function nodeApp(context: AppContext, last: NodeLayer): RequestListener {
  const layers: NodeLayer[] = context.scenario.layers.map((layer) => {
    if (layer.kind !== 'cache') return nodeLayer(context, layer)
    const visit = createNodeCache(createHttpCache(cacheOptions(context, layer.options)))
    return (req, res, next) => {
      if (layer.at !== 'all' && !layer.at.includes(routeOf(req))) return next()
      const target = targetOf(req)
      const rewritten = req.url === target ? undefined : req.url
      const scheme = context.scenario.wire === 'http' ? 'http' : 'https'
      const host = String(req.headers[':authority'] ?? req.headers.host ?? '')
      const address = { scheme, host, target, rewritten }
      visit({ req, res, next, native: req, address, dispatch: listener })
    }
  })
  layers.push(last)
  const listener: RequestListener = (req, res) => {
    Object.assign(req, { originalUrl: req.url })
    const failed = (error: unknown): void => {
      if (res.headersSent) return void res.destroy()
      res.statusCode = Number(Object(error).status ?? 404)
      res.end(String(error))
    }
    const step = (index: number): Next => {
      return (error) => {
        const layer = layers[index]
        if (error !== undefined || layer === undefined) return failed(error)
        try {
          layer(req, res, step(index + 1))
        } catch (thrown) {
          failed(thrown)
        }
      }
    }
    step(0)()
  }
  return listener
}
