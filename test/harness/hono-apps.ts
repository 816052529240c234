// The small apps of the adapter contracts on Hono, with its server for Node.
import type { Server } from 'node:http'
import { Readable } from 'node:stream'
import { createAdaptorServer, type HttpBindings } from '@hono/node-server'
import { idempotency, stampedeCache } from '@stampede/hono'
import type {
  CacheAdapter,
  IdempotencyAdapter,
  Layer,
  RunningApp,
  Said,
  Says,
} from '@stampede/testkit'
import { type Context, Hono, type MiddlewareHandler } from 'hono'
import { compress } from 'hono/compress'
import { listenOn } from './apps.ts'
import { HEAD_LINES, own, SPLIT_CHARACTERS, type Ways } from './ways.ts'

type App = { Bindings: HttpBindings }

const streamOf = (parts: readonly (string | Buffer)[]): ReadableStream =>
  webOf(Readable.from(parts.map((part) => Buffer.from(part))))

/** Like Readable.toWeb, but a reader that leaves causes no error of the source. */
function webOf(source: Readable): ReadableStream {
  const chunks = source.iterator({ destroyOnReturn: false })
  return new ReadableStream({
    async pull(controller) {
      const { done, value } = await chunks.next()
      if (done) controller.close()
      else controller.enqueue(Buffer.from(value))
    },
    cancel: () => void source.destroy(),
  })
}

/** Like RESPONSE_ALREADY_SENT of the server, which it writes if it is lightweight. */
function alreadySent(): Response {
  const response = new Response(null, { headers: { 'x-hono-already-sent': 'true' } })
  void response.body
  return response
}

const ways: Ways<[Context<App>]> = {
  json: (c) => c.json({ a: 1 }),
  text: (c) => c.text('plain', 203),
  html: (c) => c.html('<p>héllo</p>'),
  'body-null': (c) => c.body(null),
  buffer: (c) => c.body(new Uint8Array([0, 255, 128]), 200, { 'Content-Type': 'image/png' }),
  blob: () => new Response(new Blob(['blob'], { type: 'text/x-blob' })),
  response: () =>
    new Response('hello', { status: 203, headers: { 'X-Own': 'yes', 'Content-Type': 'text/x' } }),
  stream: (c) => c.body(streamOf(['a', 'b', 'c']), 200, { 'Content-Type': 'text/plain' }),
  redirect: (c) => c.redirect('/elsewhere', 301),
  'two-links': (c) => {
    c.header('Link', '<a>')
    c.header('Link', '<b>', { append: true })
    return c.text('links')
  },
  fetched: async () => fetch('data:text/plain,fetched'),
  'on-outgoing': ({ env: { outgoing } }) => {
    outgoing.writeHead(200, { 'X-Own': 'yes' })
    outgoing.write('own ')
    outgoing.end('words')
    return alreadySent()
  },
}

const moreWays: Ways<[Context<App>]> = {
  created: (c) => c.body(null, 201, { Location: '/orders/7' }),
  'no-content': (c) => c.body(null, 204),
  'json-null': (c) => c.json(null),
  'empty-text': (c) => c.text(''),
  bytes: (c) => c.body(new Uint8Array([0x00, 0xff])),
  'see-other': (c) => c.redirect('/orders/7', 303),
  'split-character': (c) =>
    c.body(streamOf(SPLIT_CHARACTERS), 200, { 'Content-Type': 'text/plain' }),
  events: (c) =>
    c.body(streamOf(['data: 1\n\n', 'data: 2\n\n']), 200, { 'Content-Type': 'text/event-stream' }),
  'write-head-lines': ({ env: { outgoing } }) => {
    outgoing.writeHead(202, 'Soon', HEAD_LINES).end('later')
    return alreadySent()
  },
  'large-stream': (c) => c.body(streamOf([Buffer.alloc(180_000, 'a'), Buffer.alloc(180_000, 'b')])),
  tagged: (c) => c.json({ a: 1 }, 200, { ETag: '"v"', 'Cache-Control': 'no-cache' }),
}

const odd: Ways<[Context<App>]> = {
  trailers: ({ env: { outgoing } }) => {
    outgoing.writeHead(201, { Trailer: 'X-Sum' })
    outgoing.write('"fi')
    outgoing.addTrailers({ 'X-Sum': '7' })
    outgoing.end('rst"')
    return alreadySent()
  },
  'twice-on-outgoing': ({ env: { outgoing } }) => {
    outgoing.writeHead(201).end('"first"')
    outgoing.end('second, and longer')
    return alreadySent()
  },
  'then-throws': ({ env: { outgoing } }) => {
    outgoing.writeHead(201).end('"first"')
    throw new Error('after the answer')
  },
}

/** Runs a function with the parameters of an Express middleware on the objects of Node. */
const onNode =
  (layer: Exclude<Layer, 'gzip'>): MiddlewareHandler<App> =>
  (c, next) =>
    new Promise((resolve, reject) => {
      const { incoming, outgoing } = c.env
      const sent = () => resolve(alreadySent())
      outgoing.once('close', sent)
      layer(incoming, outgoing, (error) => {
        outgoing.off('close', sent)
        if (error) reject(error)
        else next().then(() => resolve(), reject)
      })
    })

function say({ status = 200, headers = {}, body = '' }: Says | Said): Response {
  const fields = Object.entries(headers).flatMap(([name, value]) =>
    [value].flat().map((each): [string, string] => [name, each]),
  )
  const isNull = status === 204 || status === 304
  const bytes = body instanceof Readable ? webOf(body) : Buffer.from(body)
  return new Response(isNull ? null : bytes, { status, headers: fields })
}

const listen = (app: Hono<App>): Promise<RunningApp> => listenOn(createAdaptorServer(app) as Server)

/** A context of Hono has no property `headers`, which callbacks of the contract read. */
function ofHono(options: object): object {
  const adapted = ['identity', 'scope'].flatMap((name) => {
    const own: unknown = Reflect.get(options, name)
    const adapt = (c: Context) =>
      Reflect.apply(own as () => string, null, [{ headers: c.req.header() }])
    return typeof own === 'function' ? [[name, adapt]] : []
  })
  return { ...options, ...Object.fromEntries(adapted) }
}

export const honoCache: CacheAdapter = {
  name: 'Hono 4',
  refreshesOutside: true,
  writesLast: true,
  start(options, handler, outside) {
    const app = new Hono<App>()
    if (outside) {
      app.use(async (c, next) => {
        let isPassed = false
        await outside(c.env.outgoing, () => {
          isPassed = true
          return next()
        })
        return isPassed ? undefined : alreadySent()
      })
    }
    for (const each of [options].flat()) app.use(stampedeCache(ofHono(each)))
    app.all('*', async ({ env: { incoming, outgoing } }) => {
      const { url = '/', headers } = incoming
      const [path = '', query = ''] = url.split('?')
      const said = await handler({ path, url, headers, query }, outgoing)
      return said === undefined ? alreadySent() : say(said)
    })
    return listen(app)
  },
  async startWays(options) {
    const app = new Hono<App>()
    app.use(stampedeCache(options))
    for (const [way, answer] of Object.entries(ways)) app.get(`/${way}`, answer as never)
    return { ...(await listen(app)), ways: Object.keys(ways) }
  },
}

const allWays: Ways<[Context<App>]> = { ...ways, ...moreWays }

export const honoIdempotency: IdempotencyAdapter = {
  name: 'Hono 4',
  ways: Object.keys(allWays),
  odd: Object.keys(odd).filter((name) => name !== 'trailers'),
  start({ rules, stampede, outside = [], inside = [], mounts = ['/'], visit }) {
    const app = new Hono<App>()
    const layer = (each: Layer) => (each === 'gzip' ? compress({ threshold: 0 }) : onNode(each))
    for (const each of outside) app.use(layer(each))
    const scope = (c: Context) => c.req.header('x-user') ?? ''
    for (const path of mounts) {
      app.use(
        path === '/' ? '*' : `${path}/*`,
        idempotency({ scope, stampede, ...ofHono(rules ?? {}) }),
      )
    }
    for (const each of inside) app.use(layer(each))
    app.all('*', async (c) => {
      const { incoming: req, outgoing: res } = c.env
      const said = await visit({ req, res, attempt: c.get('idempotency') })
      if (said !== undefined) return say(said)
      const [, kind = '', way = ''] = c.req.path.split('/')
      return own(kind === 'odd' ? odd : allWays, way)?.(c) as Response
    })
    app.onError((error, c) => {
      const { answer } = error as { answer?: number }
      if (answer === undefined) return c.text('Internal Server Error', 500)
      return c.json({ error: String(error) }, answer as 400)
    })
    return listen(app)
  },
}
