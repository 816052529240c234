// A small app on each framework that caches GET and QUERY, with the ways in which apps read a body.

import { createServer, type RequestListener } from 'node:http'
import { text } from 'node:stream/consumers'
import { createAdaptorServer } from '@hono/node-server'
import { All, Body, Controller, Req, UseInterceptors } from '@nestjs/common'
import { stampedeCache as onExpress, rememberRawBody } from '@stampede/express'
import { stampedeCache as onFastify } from '@stampede/fastify'
import { stampedeCache as onHono } from '@stampede/hono'
import { stampedeCache as onKoa } from '@stampede/koa'
import { stampedeCache as onNest } from '@stampede/nest'
import { stampedeFront } from '@stampede/node-http'
import type { RunningApp } from '@stampede/testkit'
import express5, { type Request, type Response } from 'express'
import express4 from 'express4'
import fastify, { type FastifyReply, type FastifyRequest } from 'fastify'
import { Hono } from 'hono'
import Koa3, { type Context } from 'koa'
import Koa2 from 'koa2'
import { listen, listenOn } from './apps.ts'
import {
  controllerOf,
  createNestApp,
  listenOn as listenOnNest,
  type Platform,
} from './nest-apps.ts'

export interface Asked {
  readonly method: string
  /** The body as text. If a parser has read JSON, it is the JSON of the value. */
  readonly body: string
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
}

export interface Answers {
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body: string
}

export interface QueryApp {
  readonly name: string
  /** Whether a parser of JSON has read the body before the cache. */
  readonly isParsed?: boolean
  start(options: object, handler: (asked: Asked) => Answers): Promise<RunningApp>
}

const shown = (value: unknown): string =>
  typeof value === 'string' ? value : value === undefined ? '' : JSON.stringify(value)

type Parsers = (express: typeof express5) => {
  before?: ReturnType<typeof express5.json>
  behind?: ReturnType<typeof express5.json>
}

function expressApp(name: string, express: typeof express5, parsers: Parsers): QueryApp {
  const { before, behind } = parsers(express)
  return {
    name,
    isParsed: before !== undefined,
    start(options, handler) {
      const app = express().set('env', 'test')
      if (before !== undefined) app.use(before)
      app.use(onExpress(options))
      if (behind !== undefined) app.use(behind)
      app.use(async (req: Request, res: Response) => {
        const { method, headers } = req
        const body = before || behind ? shown(req.body) : await text(req)
        const said = handler({ method, headers, body })
        res
          .status(said.status ?? 200)
          .set(said.headers ?? {})
          .type('text')
          .send(said.body)
      })
      return listen(app)
    },
  }
}

const koaApp = (name: string, Koa: typeof Koa3): QueryApp => ({
  name,
  start(options, handler) {
    const app = new Koa()
    app.use(onKoa(options))
    app.use(async (ctx: Context) => {
      const { method, headers } = ctx
      const said = handler({ method, headers, body: await text(ctx.req) })
      ctx.body = said.body
      ctx.status = said.status ?? 200
      ctx.set(said.headers ?? {})
    })
    return listen(app.callback())
  },
})

const front: QueryApp = {
  name: 'a front before node:http',
  start(options, handler) {
    const listener: RequestListener = async (req, res) => {
      const { method = '', headers } = req
      const said = handler({ method, headers, body: await text(req) })
      res.setHeader('Content-Type', 'text/plain')
      for (const [name, value] of Object.entries(said.headers ?? {})) res.setHeader(name, value)
      res.statusCode = said.status ?? 200
      res.end(said.body)
    }
    return listenOn(createServer(stampedeFront(listener, options)))
  },
}

const onFastify5: QueryApp = {
  name: 'Fastify 5',
  async start(options, handler) {
    const app = fastify()
    app.register(onFastify(options))
    const answer = (request: FastifyRequest, reply: FastifyReply): FastifyReply => {
      const { method, headers, body } = request
      const said = handler({ method, headers, body: shown(body) })
      return reply
        .code(said.status ?? 200)
        .headers(said.headers ?? {})
        .type('text/plain')
        .send(said.body)
    }
    app.route({ method: ['GET', 'POST', 'QUERY'], url: '*', handler: answer })
    await app.ready()
    return listen((req, res) => app.routing(req, res))
  },
}

const onHono4: QueryApp = {
  name: 'Hono 4',
  start(options, handler) {
    const app = new Hono()
    app.use(onHono(options))
    app.all('*', async (c) => {
      const headers = c.req.header()
      const said = handler({ method: c.req.method, headers, body: await c.req.text() })
      return c.text(said.body, (said.status ?? 200) as 200, { ...said.headers })
    })
    return listenOn(createAdaptorServer(app) as ReturnType<typeof createServer>)
  },
}

const nestApp = (platform: Platform): QueryApp => ({
  name: `Nest on ${platform}`,
  isParsed: true,
  async start(options, handler) {
    const controller = controllerOf([Controller(), UseInterceptors(onNest(options))], {
      search: {
        decorators: [All('search')],
        params: [Req(), Body()],
        run({ method, headers }: Asked, body: unknown) {
          return handler({ method, headers, body: shown(body) }).body
        },
      },
    })
    return listenOnNest(await createNestApp(platform, { controllers: [controller] }))
  },
})

const READ = { type: () => true }

export const queryApps: readonly QueryApp[] = [
  front,
  expressApp('Express 5', express5, () => ({})),
  expressApp('Express 5 with express.json() behind', express5, ({ json }) => ({ behind: json() })),
  expressApp('Express 5 with express.json() in front', express5, ({ json }) => ({
    before: json({ verify: rememberRawBody }),
  })),
  expressApp('Express 4', express4, ({ text: read }) => ({ behind: read(READ) })),
  koaApp('Koa 3', Koa3),
  koaApp('Koa 2', Koa2),
  onFastify5,
  onHono4,
  nestApp('Express'),
  nestApp('Fastify'),
]
