// stampedeFront: the cache in front of a whole listener. A hit never reaches what is behind it.

import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http'
import type { Http2ServerRequest, Http2ServerResponse } from 'node:http2'
import { inspect } from 'node:util'
import type { CacheOptions } from '@stampede/core'
import { createHttpCache, optionError } from '@stampede/core/adapter'
import { createNodeCache } from './node-exchange.ts'
import { hasLeft } from './request/client-gone.ts'
import type { RequestAddress } from './request/read-request.ts'
import { breakOff } from './response/live-stream.ts'

/** An Express app, `app.callback()` of Koa, a listener of one's own. What it returns may be a promise. */
export type Listener<Req = IncomingMessage, Res = ServerResponse> = (req: Req, res: Res) => unknown

/**
 * A listener that answers GET and HEAD from a cache, and lets one request at a time through to `listener` for the rest. It never
 * throws or rejects: an error of `listener` is a 500 and a `StampedeFrontWarning` of the process.
 *
 * @example
 * http.createServer(stampedeFront(app, { stampede, ttlMs: 10_000 }))
 */
export function stampedeFront(
  listener: Listener,
  options?: CacheOptions<IncomingMessage, ServerResponse>,
): (req: IncomingMessage, res: ServerResponse) => void
/** On the compatibility objects of node:http2. */
export function stampedeFront(
  listener: Listener<Http2ServerRequest, Http2ServerResponse>,
  options?: CacheOptions<Http2ServerRequest, Http2ServerResponse>,
): (req: Http2ServerRequest, res: Http2ServerResponse) => void
export function stampedeFront(
  listener: Listener<never, never>,
  options?: CacheOptions<never, never>,
): (req: never, res: never) => void {
  if (typeof listener !== 'function') throw optionError('stampedeFront', listener, PASS_A_LISTENER)
  // The objects of HTTP/2 have what is used of those of HTTP/1.
  return frontOf(listener as Listener, options as CacheOptions<IncomingMessage, ServerResponse>)
}

function frontOf(
  listener: Listener,
  options: CacheOptions<IncomingMessage, ServerResponse> | undefined,
): (req: IncomingMessage, res: ServerResponse) => void {
  const visit = createNodeCache(createHttpCache(options))
  return function stampedeFront(req, res): void {
    const address = addressOf(req)
    const failed = (error: unknown): void => {
      warnOf(error, req, address.target)
      fail(res)
    }
    const next = (error?: unknown): void => {
      if (error === undefined) enter(listener, req, res, failed)
      else failed(error)
    }
    visit({ req, res, next, native: req, address, dispatch: stampedeFront })
  }
}

const PASS_A_LISTENER = 'pass an Express app, app.callback() of Koa, or any (req, res) listener'

function enter(
  listener: Listener,
  req: IncomingMessage,
  res: ServerResponse,
  failed: (error: unknown) => void,
): void {
  try {
    const returned = listener(req, res)
    if (!(returned instanceof Object && 'then' in returned)) return
    Promise.resolve(returned).then(() => leaveUnanswered(res), failed)
  } catch (error) {
    failed(error)
  }
}

/**
 * Destroys a response that its listener left open after the client had gone, as Koa does after an
 * error. Otherwise the run never ends, and the requests that wait for it wait for `waitMs`.
 */
function leaveUnanswered(res: ServerResponse): void {
  if (hasLeft(res) && !res.writableEnded) res.destroy()
}

/** Where there is no framework, nobody else would say which request it was. A query may have secrets in it. */
function warnOf(error: unknown, { method }: IncomingMessage, target: string): void {
  const [path] = target.split('?', 1)
  const detail = inspect(error)
  const why = error instanceof Error ? String(error.message) : detail
  const names = { type: 'StampedeFrontWarning', code: 'STAMPEDE_FRONT' }
  process.emitWarning(`${method} ${path}: ${why}`, { ...names, detail })
}

/** Nothing of what the listener had set may stand on an answer that it did not give. */
function fail(res: ServerResponse): void {
  // What is complete stands; it may still be on its way.
  if (res.writableEnded) return
  if (res.headersSent) {
    breakOff(res)
    return
  }
  for (const name of res.getHeaderNames()) res.removeHeader(name)
  res.writeHead(500, { 'Content-Type': 'text/plain; charset=utf-8' }).end(STATUS_CODES[500])
}

/** What the connection and the head of a request say that no framework has seen, and no proxy. */
function addressOf(req: IncomingMessage): RequestAddress {
  const { socket, headers, url: target = '/' } = req
  const scheme = 'encrypted' in socket && socket.encrypted === true ? 'https' : 'http'
  // RFC 9113 §8.3.1: Host counts where there is no authority.
  const host = String(headers[':authority'] ?? headers.host ?? '')
  return { scheme, host, target }
}
