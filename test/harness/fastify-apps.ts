// The small apps of the adapter contracts on Fastify.

import type { IncomingMessage, ServerResponse } from 'node:http'
import { createRequire } from 'node:module'
import { Readable } from 'node:stream'
import { gzipSync } from 'node:zlib'
import { idempotency, stampedeCache } from '@stampede/fastify'
import type { CacheAdapter, IdempotencyAdapter, RunningApp, Said, Says } from '@stampede/testkit'
import fastify, {
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  type onRequestHookHandler,
  type onSendHookHandler,
} from 'fastify'
import { HEAD_LINES, own, SPLIT_CHARACTERS, type Ways } from './ways.ts'

type Way = [FastifyRequest, FastifyReply]

const ways: Ways<Way> = {
  object: () => ({ a: 1 }),
  array: () => [1, 'two'],
  string: (_request, reply) => reply.code(203).send('<p>héllo</p>'),
  html: (_request, reply) => reply.type('text/html').send('<p>héllo</p>'),
  buffer: (_request, reply) => reply.type('image/png').send(Buffer.from([0, 255, 128])),
  'typed-array': (_request, reply) => reply.send(new Uint8Array([0, 255, 128])),
  'send-later': (_request, reply) => void setImmediate(() => reply.send({ later: true })),
  async: async () => ({ a: 1 }),
  nothing: (_request, reply) => reply.send(),
  stream: (_request, reply) =>
    reply.type('text/plain').send(Readable.from(['a', 'b', 'c'].map((text) => Buffer.from(text)))),
  'web-stream': (_request, reply) =>
    reply.type('text/plain').send(Readable.toWeb(Readable.from([Buffer.from('web')]))),
  response: (_request, reply) =>
    reply.send(new Response('hello', { status: 203, headers: { 'X-Own': 'yes' } })),
  redirect: (_request, reply) => reply.redirect('/elsewhere', 301),
  'two-links': (_request, reply) => reply.header('link', ['<a>', '<b>']).send('links'),
  'on-raw': (_request, reply) => {
    reply.hijack()
    reply.raw.writeHead(200, { 'X-Own': 'yes' })
    reply.raw.write('own ')
    reply.raw.end('words')
  },
}

const moreWays: Ways<Way> = {
  created: (_request, reply) => reply.code(201).header('location', '/orders/7').send(),
  'no-content': (_request, reply) => reply.code(204).send(),
  'json-0': (_request, reply) => reply.type('application/json').send('0'),
  'json-null': (_request, reply) => reply.type('application/json').send('null'),
  'empty-text': (_request, reply) => reply.send(''),
  bytes: (_request, reply) => reply.send(Buffer.from([0x00, 0xff])),
  'see-other': (_request, reply) => reply.redirect('/orders/7', 303),
  'split-character': (_request, reply) =>
    reply.type('text/plain').send(Readable.from(SPLIT_CHARACTERS)),
  events: (_request, reply) =>
    reply.type('text/event-stream').send(Readable.from(['data: 1\n\n', 'data: 2\n\n'])),
  'write-head-lines': (_request, reply) => {
    reply.hijack()
    reply.raw.writeHead(202, 'Soon', HEAD_LINES).end('later')
  },
  'large-stream': (_request, reply) =>
    reply.send(Readable.from([Buffer.alloc(180_000, 'a'), Buffer.alloc(180_000, 'b')])),
  tagged: (_request, reply) =>
    reply.headers({ ETag: '"v"', 'Cache-Control': 'no-cache' }).send({ a: 1 }),
}

const first = (reply: FastifyReply) => reply.code(201).type('application/json').send('"first"')

const odd: Ways<Way> = {
  trailers: (_request, reply) => {
    reply.hijack()
    reply.raw.writeHead(201, { Trailer: 'X-Sum' })
    reply.raw.write('"fi')
    reply.raw.addTrailers({ 'X-Sum': '7' })
    reply.raw.end('rst"')
  },
  twice: (_request, reply) => {
    first(reply)
    reply.code(500).send('second, and much longer than the first')
  },
  'twice-on-raw': (_request, reply) => {
    first(reply)
    reply.raw.end('second')
  },
  'then-throws': (_request, reply) => {
    first(reply)
    throw new Error('after the answer')
  },
  'then-rejects': async (_request, reply) => {
    first(reply)
    throw new Error('after the answer')
  },
}

/** Runs a function with the parameters of an Express middleware, like @fastify/middie. */
const onRaw =
  (
    layer: (req: IncomingMessage, res: ServerResponse, next: (error?: unknown) => void) => unknown,
  ): onRequestHookHandler =>
  ({ raw }, reply, done) =>
    void layer(raw, reply.raw, (error) => done(error as Error | undefined))

function say(reply: FastifyReply, said: Says | Said): FastifyReply {
  const { status = 200, headers = {}, body = '' } = said
  reply.code(status).headers(headers)
  return reply.send(typeof body === 'string' ? Buffer.from(body) : body)
}

/** Fastify adds a content type to buffers and streams, which the handlers of the contract omit. */
const withoutOwnType: onSendHookHandler = (_request, reply, payload, done) => {
  if (reply.getHeader('content-type') === 'application/octet-stream')
    reply.removeHeader('content-type')
  done(null, payload)
}

async function listen(app: FastifyInstance): Promise<RunningApp> {
  const url = await app.listen({ port: 0, host: '127.0.0.1' })
  return {
    url,
    async [Symbol.asyncDispose]() {
      app.server.closeAllConnections()
      await app.close()
    },
  }
}

export const fastifyCache: CacheAdapter = {
  name: 'Fastify 5',
  refreshesOutside: true,
  writesLast: false,
  start(options, handler, outside) {
    const app = fastify()
    if (outside)
      app.addHook(
        'onRequest',
        onRaw((_req, res, next) => outside(res, () => next())),
      )
    for (const each of [options].flat()) app.register(stampedeCache(each))
    app.addHook('onSend', withoutOwnType)
    app.all('*', async ({ originalUrl: url, headers }, reply) => {
      const [path = '', query = ''] = url.split('?')
      const said = await handler({ path, url, headers, query }, reply.raw)
      return said === undefined ? reply.hijack() : say(reply, said)
    })
    return listen(app)
  },
  async startWays(options) {
    const app = fastify()
    app.register(stampedeCache(options))
    for (const [way, answer] of Object.entries(ways)) app.get(`/${way}`, answer)
    return { ...(await listen(app)), ways: Object.keys(ways) }
  },
}

const require = createRequire(import.meta.url)
const allWays: Ways<Way> = { ...ways, ...moreWays }

/** Behaves like @fastify/compress, for bodies in memory. */
const gzip: onSendHookHandler = (request, reply, payload, done) => {
  reply.header('vary', [reply.getHeader('vary') ?? [], 'Accept-Encoding'].flat().join(', '))
  const isPlain = Buffer.isBuffer(payload) && !reply.hasHeader('content-encoding')
  if (!isPlain || !/gzip/.test(String(request.headers['accept-encoding']))) {
    return done(null, payload)
  }
  const coded = gzipSync(payload)
  reply.headers({ 'content-encoding': 'gzip', 'content-length': coded.byteLength })
  done(null, coded)
}

export const fastifyIdempotency: IdempotencyAdapter = {
  name: 'Fastify 5',
  ways: Object.keys(allWays),
  odd: Object.keys(odd).filter((name) => name !== 'trailers'),
  async start({ rules, stampede, outside = [], inside = [], mounts = ['/'], visit }) {
    const app = fastify()
    // The body stays unread, as in the apps of Express and Koa.
    app.removeAllContentTypeParsers()
    app.addContentTypeParser('*', (_request, _payload, done) => done(null))
    for (const each of outside) {
      // Middlewares of Express compress outside of the handler. An onSend hook is always inside.
      const layer = each === 'gzip' ? require('compression')({ threshold: 0 }) : each
      app.addHook('onRequest', onRaw(layer))
    }
    const scope = (request: FastifyRequest) => String(request.headers['x-user'] ?? '')
    const routes = async (instance: FastifyInstance, { isGuarded }: { isGuarded: boolean }) => {
      if (isGuarded) instance.register(idempotency({ scope, stampede, ...rules }))
      for (const each of inside) {
        if (each === 'gzip') instance.addHook('onSend', gzip)
        else instance.addHook('preHandler', onRaw(each))
      }
      instance.addHook('onSend', withoutOwnType)
      const handler = async (request: FastifyRequest, reply: FastifyReply) => {
        const { raw: req, idempotency: attempt } = request
        const said = await visit({ req, res: reply.raw, attempt })
        if (said !== undefined) return say(reply, said)
        const [path = ''] = request.originalUrl.split('?')
        const [, kind = '', way = ''] = path.split('/')
        const answer = own(kind === 'odd' ? odd : allWays, way)
        return (await answer?.(request, reply)) ?? reply
      }
      instance.route({
        method: ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'],
        url: '*',
        handler,
      })
    }
    app.setErrorHandler((error: Error & { answer?: number }, _request, reply) => {
      if (error.answer === undefined) throw error
      reply.code(error.answer).send({ error: String(error) })
    })
    if (mounts.length === 0) app.register(routes, { isGuarded: false })
    for (const path of mounts) {
      app.register(routes, { isGuarded: true, ...(path !== '/' && { prefix: path }) })
    }
    return listen(app)
  },
}
