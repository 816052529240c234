// The layers of an app with (req, res, next), in front of a cache or behind it, as in real apps.

import type { IncomingMessage, ServerResponse } from 'node:http'
import { createGzip, type Gzip } from 'node:zlib'
import { type AppContext, routeOf, secretOf } from './app-context.ts'
import { anyPerson, personOn } from './people.ts'
import type { LayerSpec, SessionWay } from './scenario.ts'

export type Next = (error?: unknown) => void
export type NodeLayer = (req: IncomingMessage, res: ServerResponse, next: Next) => void

export function nodeLayer(
  context: AppContext,
  spec: Exclude<LayerSpec, { kind: 'cache' }>,
): NodeLayer {
  switch (spec.kind) {
    case 'session':
      return (req, res, next) => {
        const isKnown = anyPerson(context.scenario.people, req) !== undefined
        const sets = spec.at.includes(routeOf(req)) && (isKnown || !spec.known)
        if (sets) startSession(res, spec.how, secretOf(context, req))
        next()
      }
    case 'caller':
      return (req, res, next) => {
        const greet = () => res.setHeader('X-Caller', secretOf(context, req))
        if (spec.when === 'early') greet()
        else atHead(res, afterwards(greet))
        next()
      }
    case 'cors':
      return (req, res, next) => {
        const { origin } = req.headers
        if (origin !== undefined) res.setHeader('Access-Control-Allow-Origin', origin)
        if (spec.varies) res.appendHeader('Vary', 'Origin')
        next()
      }
    case 'gzip':
      return (req, res, next) => {
        if (/gzip/.test(String(req.headers['accept-encoding'])) && req.method !== 'HEAD')
          zip(res, spec.varies)
        next()
      }
    case 'auth':
      return (req, res, next) => {
        const { people } = context.scenario
        const person = personOn(people, req, 'authorization')
        if (person === undefined || !spec.denies.includes(people.indexOf(person))) return next()
        res.statusCode = spec.status
        res.setHeader('Cache-Control', 'max-age=60')
        res.end(`denied: ${person.secret}`)
      }
    case 'cookies':
      return (req, _res, next) => {
        Object.assign(req, { cookies: String(req.headers.cookie ?? '').split('; ') })
        next()
      }
    case 'rewrite':
      return (req, _res, next) => {
        req.url = moved(req)
        next()
      }
    case 'conditional':
      return conditional
  }
}

/** Puts the value of `X-Place` into the URL. */
export function moved({ url = '', headers }: Pick<IncomingMessage, 'url' | 'headers'>): string {
  const place = headers['x-place']
  return place === undefined ? url : url.replace(/^\/r\d+\//, (route) => `${route}~${place}/`)
}

/** Calls `change` with the arguments of the first writeHead, as on-headers does. */
function atHead(res: ServerResponse, change: (args: unknown[]) => unknown[]): void {
  const { writeHead } = res
  let done = false
  const own = (...args: unknown[]): unknown => {
    const given = done || res.headersSent ? args : change(args)
    done = true
    return Reflect.apply(writeHead, res, given)
  }
  Object.assign(res, { writeHead: own })
}

export function startSession(res: ServerResponse, how: SessionWay, secret: string): void {
  const cookie = `sess=${secret}; Path=/`
  const set = () => void res.appendHeader('Set-Cookie', cookie)
  if (how === 'early') set()
  else if (how === 'args') atHead(res, (args) => withCookie(args, cookie))
  else atHead(res, afterwards(set))
}

/** Leaves the arguments as they are. */
function afterwards(act: () => unknown): (args: unknown[]) => unknown[] {
  return (args) => {
    act()
    return args
  }
}

function withCookie(args: unknown[], cookie: string): unknown[] {
  const reason = typeof args[1] === 'string' ? [args[1]] : []
  const given = args.slice(1).find((arg) => typeof arg === 'object' && arg !== null) ?? {}
  const headers = Array.isArray(given)
    ? [...given, 'Set-Cookie', cookie]
    : { ...given, 'Set-Cookie': cookie }
  return [args[0], ...reason, headers]
}

/** Compresses the response, unless its head was written by hand or its body has a coding. */
function zip(res: ServerResponse, varies: boolean): void {
  const { write, end, writeHead } = res
  let gzip: Gzip | 'none' | undefined
  const decide = (): Gzip | 'none' => {
    const { statusCode } = res
    if (res.headersSent || res.hasHeader('content-encoding')) return 'none'
    if (statusCode === 204 || statusCode === 304) return 'none'
    res.setHeader('Content-Encoding', 'gzip')
    if (varies) res.appendHeader('Vary', 'Accept-Encoding')
    res.removeHeader('Content-Length')
    const made = createGzip()
    made.on('data', (chunk) => Reflect.apply(write, res, [chunk]))
    made.on('end', () => Reflect.apply(end, res, []))
    return made
  }
  const through = (original: unknown, name: 'write' | 'end') => {
    return (...args: unknown[]): unknown => {
      gzip ??= decide()
      if (gzip === 'none') return Reflect.apply(original as typeof write, res, args)
      const [chunk, encoding] = args
      const bytes = typeof chunk === 'string' ? Buffer.from(chunk, encoding as 'utf8') : chunk
      if (bytes instanceof Uint8Array) gzip.write(bytes)
      if (name === 'end') gzip.end()
      return name === 'end' ? res : true
    }
  }
  const head = (...args: unknown[]): unknown => {
    if (args.length > 1) gzip ??= 'none'
    return Reflect.apply(writeHead, res, args)
  }
  Object.assign(res, {
    write: through(write, 'write'),
    end: through(end, 'end'),
    writeHead: head,
  })
}

/** Sends 304 itself when the app's response has a validator that the client sent. */
const conditional: NodeLayer = (req, res, next) => {
  const { end } = res
  const own = (...args: unknown[]): unknown => {
    const etag = res.getHeader('etag')
    const isSame = etag !== undefined && req.headers['if-none-match'] === etag
    if (isSame && res.statusCode === 200 && !res.headersSent) {
      res.statusCode = 304
      res.removeHeader('Content-Length')
      return Reflect.apply(end, res, [])
    }
    return Reflect.apply(end, res, args)
  }
  Object.assign(res, { end: own })
  next()
}
