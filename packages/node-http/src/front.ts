// Fronts of a request listener: a cache, whose hits never reach the listener, and idempotency keys.

import { type IncomingMessage, METHODS, type ServerResponse, STATUS_CODES } from 'node:http'
import type { Http2ServerRequest, Http2ServerResponse } from 'node:http2'
import { inspect } from 'node:util'
import type { Attempt, CacheOptions, IdempotencyOptions } from '@stampede/core'
import { createHttpCache, createHttpIdempotency } from '@stampede/core/adapter'
import { optionError } from '@stampede/core/store'
import { createNodeCache } from './node-exchange.ts'
import { createNodeIdempotency } from './node-idempotency.ts'
import { hasLeft } from './request/client-gone.ts'
import { addressOf } from './request/read-request.ts'
import { breakOff } from './response/write-response.ts'
import type { Dispatch } from './revalidation.ts'

/** An Express app, `app.callback()` of Koa, or any function of a request and a response. */
export type Listener<Req = IncomingMessage, Res = ServerResponse> = (req: Req, res: Res) => unknown

/**
 * Returns a listener that serves GET and HEAD from a cache. On a miss, one request of the fleet
 * runs `listener`. The returned listener never throws or rejects: an error of `listener` becomes a
 * 500 and a `StampedeFrontWarning` of the process. Throws `ERR_STAMPEDE_OPTION` if an option is
 * invalid.
 *
 * @example
 * http.createServer(stampedeFront(app, { stampede, ttlMs: 10_000 }))
 */
export function stampedeFront(
  listener: Listener,
  options?: CacheOptions<IncomingMessage, ServerResponse>,
): (req: IncomingMessage, res: ServerResponse) => void
/**
 * Returns such a listener for the request and response objects of node:http2 (its compatibility
 * API).
 */
export function stampedeFront(
  listener: Listener<Http2ServerRequest, Http2ServerResponse>,
  options?: CacheOptions<Http2ServerRequest, Http2ServerResponse>,
): (req: Http2ServerRequest, res: Http2ServerResponse) => void
export function stampedeFront(
  listener: Listener<never, never>,
  options?: CacheOptions<never, never>,
): (req: never, res: never) => void {
  if (typeof listener !== 'function') throw optionError('stampedeFront', listener, PASS_A_LISTENER)
  const rules = options as CacheOptions<IncomingMessage, ServerResponse> | undefined
  const visit = createNodeCache(createHttpCache(rules, { methods: METHODS }))
  // The compatibility objects of HTTP/2 have all the members used here.
  return function stampedeFront(this: unknown, req: IncomingMessage, res: ServerResponse): void {
    const address = addressOf(req)
    const next = passTo(listener as Listener, this, req, res, address.target)
    const dispatch: Dispatch = (...again) => Reflect.apply(stampedeFront, this, again)
    visit({ req, res, next, native: req, address, dispatch })
  }
}

const PASS_A_LISTENER = 'pass an Express app, app.callback() of Koa, or any (req, res) listener'

/**
 * Returns a function that passes the request to the listener, as the server does. With an error, or
 * after an error of the listener, it warns and responds 500.
 */
function passTo(
  listener: Listener,
  server: unknown,
  req: IncomingMessage,
  res: ServerResponse,
  target: string,
): (error?: unknown) => void {
  const failed = (error: unknown): void => {
    warnOf(error, req, target)
    fail(res)
  }
  return (error) => {
    if (error !== undefined) return failed(error)
    try {
      const returned: unknown = Reflect.apply(listener, server, [req, res])
      if (returned instanceof Object && 'then' in returned)
        Promise.resolve(returned).then(() => leaveUnanswered(res), failed)
    } catch (thrown) {
      failed(thrown)
    }
  }
}

/**
 * Destroys a response that the listener has not ended although its client has left. Koa leaves such
 * a response open after an error. Otherwise the run would never end, and its waiters would wait for
 * the full `waitMs`.
 */
function leaveUnanswered(res: ServerResponse): void {
  if (hasLeft(res) && !res.writableEnded) res.destroy()
}

/** Warns with the request line, but without its query, which may contain secrets. */
function warnOf(error: unknown, { method }: IncomingMessage, target: string): void {
  const [path] = target.split('?', 1)
  const detail = inspect(error)
  const why = error instanceof Error ? String(error.message) : detail
  const names = { type: 'StampedeFrontWarning', code: 'STAMPEDE_FRONT' }
  process.emitWarning(`${method} ${path}: ${why}`, { ...names, detail })
}

/** Responds 500 without the fields that the listener has set. */
function fail(res: ServerResponse): void {
  // A complete response stays, even if it is still being sent.
  if (res.writableEnded) return
  if (res.headersSent) {
    breakOff(res)
    return
  }
  for (const name of res.getHeaderNames()) res.removeHeader(name)
  res.writeHead(500, { 'Content-Type': 'text/plain; charset=utf-8' }).end(STATUS_CODES[500])
}

// Idempotency keys in front of a listener

/** A request with the attempt, which `idempotentFront` sets if the request has a key. */
type WithAttempt<Req> = Req & { idempotency?: Attempt }

/**
 * Returns a listener that runs `listener` once for each idempotency key. A repeated request gets
 * the stored response. `listener` gets the attempt as `req.idempotency`. The returned listener
 * never throws or rejects: an error of `listener` becomes a 500 and a `StampedeFrontWarning` of the
 * process. If the client has left, an empty response that may have a body is not stored, because
 * some frameworks then send no body. Throws `ERR_STAMPEDE_OPTION` if an option is invalid.
 *
 * @example
 * http.createServer(idempotentFront(app, { stampede, scope: (req) => userOf(req) }))
 */
export function idempotentFront(
  listener: Listener<WithAttempt<IncomingMessage>>,
  options: IdempotencyOptions<IncomingMessage>,
): (req: IncomingMessage, res: ServerResponse) => void
/**
 * Returns such a listener for the request and response objects of node:http2 (its compatibility
 * API).
 */
export function idempotentFront(
  listener: Listener<WithAttempt<Http2ServerRequest>, Http2ServerResponse>,
  options: IdempotencyOptions<Http2ServerRequest>,
): (req: Http2ServerRequest, res: Http2ServerResponse) => void
export function idempotentFront(
  listener: Listener<never, never>,
  options: IdempotencyOptions<never>,
): (req: never, res: never) => void {
  if (typeof listener !== 'function')
    throw optionError('idempotentFront', listener, PASS_A_LISTENER)
  const visit = createNodeIdempotency<WithAttempt<IncomingMessage>>(createHttpIdempotency(options))
  return function idempotentFront(this: unknown, req: WithAttempt<IncomingMessage>, res): void {
    const address = addressOf(req)
    // The compatibility objects of HTTP/2 have all the members used here.
    const next = passTo(listener as Listener, this, req, res, address.target)
    const attach = (attempt: Attempt): void => {
      req.idempotency = attempt
    }
    visit({ req, res, next, native: req, address, attach, isFront: true })
  }
}
