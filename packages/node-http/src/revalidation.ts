// Background refreshes: sends a request through the whole app again, without a client. The new
// request has a mark with the cache that sent it. Only this cache acts on the mark, and only once.
//
// The request and the response are objects of the real classes of node:http, so that sessions,
// compression, `pipe` and `sendFile` work. Their socket discards all data. They do not end when the
// real client leaves.

import type { AsyncResource } from 'node:async_hooks'
import { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { Duplex } from 'node:stream'
import type { OriginObserver } from '@stampede/core/adapter'
import { withoutRaw } from './request/conditionals.ts'
import { inheritLogin, tlsMembersOf } from './request/connection.ts'

/**
 * The function that handles all requests of an app: a root Express app, `app.callback()` of Koa, or
 * a listener.
 */
export type Dispatch = (req: IncomingMessage, res: ServerResponse) => unknown

interface Mark {
  /** The cache that sent the request. */
  readonly owner: object
  readonly observer: OriginObserver
  /** The `chosenBy` of the original request: see `RequestView`. */
  readonly chosenBy: string | undefined
  taken: boolean
}

const marks = new WeakMap<IncomingMessage, Mark>()

/**
 * Whether this request is a refresh by stampedeCache and has no client. For loggers and counters.
 */
export function isRevalidation(req: IncomingMessage): boolean {
  return marks.has(req)
}

/**
 * The observer of the refresh that this cache has sent, or the function by which an outer cache has
 * marked the request. `foreign`: another cache sent the request, or this cache has handled it
 * already, or the framework chose another handler, so forward it to the handler. Undefined: the
 * request has a client, and no other cache has it.
 */
export function senderOf(
  req: IncomingMessage & Taken,
  owner: object,
  chosenBy?: string,
): OriginObserver | 'foreign' | OnInner | undefined {
  const outer = req[TAKEN]
  if (outer !== undefined) return outer
  const mark = marks.get(req)
  if (mark === undefined) return undefined
  if (mark.owner !== owner || mark.taken) return 'foreign'
  mark.taken = true
  if (mark.chosenBy === chosenBy) return mark.observer
  fail(mark.observer, 500, new Error(OTHER_HANDLER))
  return 'foreign'
}

const OTHER_HANDLER =
  'the refresh reached another handler of the URL than the request; ' +
  'choose between handlers by the request alone, or set no staleWhileRevalidateMs'

function fail({ ended }: OriginObserver, status: number, error: unknown): void {
  process.nextTick(ended, { type: 'failed', status, error })
}

/**
 * Sends the request. Its run ends when the cache (`owner`) has observed the response, or when an
 * outer layer responded before the request reached the cache.
 */
export function redispatch(order: {
  readonly from: IncomingMessage
  readonly target: string
  readonly chosenBy: string | undefined
  readonly owner: object
  readonly observer: OriginObserver
  readonly dispatch: Dispatch
  /** Async context of `from`, because outer layers may have put a tracer or a tenant into it. */
  readonly context: AsyncResource
}): void {
  const { req, res } = createDetachedPair(order.from, order.target)
  const { owner, chosenBy, observer } = order
  const mark: Mark = { owner, chosenBy, observer, taken: false }
  marks.set(req, mark)
  res.once('close', () => {
    if (!mark.taken)
      fail(observer, res.statusCode < 400 ? 500 : res.statusCode, answeredBefore(res))
  })
  // The current context may be that of another request, which began the flight.
  order.context.runInAsyncScope(async () => {
    try {
      await order.dispatch(req, res)
    } catch (error) {
      fail(observer, 500, error)
    }
  })
}

function answeredBefore({ statusCode }: ServerResponse): Error {
  const error = new Error(
    `a layer in front of the cache responded with ${statusCode}; ` +
      'let that layer pass requests for which isRevalidation(req) is true',
  )
  // The stack would show only this module, not the layer that responded.
  error.stack = ''
  return error
}

/**
 * A property of the request, because a WeakMap element per request would cost each miss 25 µs of
 * garbage collection.
 */
const TAKEN: unique symbol = Symbol('stampede.taken')

type OnInner = NonNullable<OriginObserver['onInner']>

interface Taken {
  [TAKEN]?: OnInner
}

/**
 * Marks a request that a cache passes to the app. A second cache nearer to the handler (the inner
 * cache) finds the first one by it, and calls `onInner`. Without the mark, the inner cache would
 * wait for the fill that runs the inner cache itself.
 */
export function enterOrigin(req: IncomingMessage & Taken, onInner: OnInner): void {
  req[TAKEN] = onInner
}

/**
 * Fields that are left out: conditions and ranges of the client, and fields of its connection and
 * body.
 */
const LEFT_OUT: ReadonlySet<string> = new Set([
  ...['if-match', 'if-none-match', 'if-modified-since', 'if-unmodified-since', 'if-range', 'range'],
  ...['connection', 'keep-alive', 'proxy-connection', 'upgrade', 'te', 'trailer'],
  ...['transfer-encoding', 'content-length', 'content-type', 'expect'],
])

/** A request and a response without a connection, for a run in the background. */
export interface DetachedPair {
  readonly req: IncomingMessage
  readonly res: ServerResponse
}

/** A GET of `target` with the headers, address, TLS state, login and protocol of `from`. */
export function createDetachedPair(from: IncomingMessage, target: string): DetachedPair {
  const nullSocket = Object.assign(new NullSocket(from.socket), tlsMembersOf(from))
  // Both classes use only members of a socket that NullSocket has.
  const socket = nullSocket as unknown as Socket
  const req = new IncomingMessage(socket)
  req.method = 'GET'
  req.url = target
  req.httpVersion = from.httpVersion
  req.httpVersionMajor = from.httpVersionMajor
  req.httpVersionMinor = from.httpVersionMinor
  req.rawHeaders = withoutRaw(from.rawHeaders, LEFT_OUT)
  req.headers = kept(from.headers)
  req.headersDistinct = kept(from.headersDistinct)
  req.complete = true
  req.push(null)
  inheritLogin(from, req)

  return { req, res: responseOn(socket, req) }
}

/** A response to `req` without a client, as `createDetachedPair` creates it. */
export function createDetachedResponse(req: IncomingMessage): ServerResponse {
  return responseOn(new NullSocket(req.socket) as unknown as Socket, req)
}

function responseOn(socket: Socket, req: IncomingMessage): ServerResponse {
  const res = new ServerResponse(req)
  // Node takes HTTP/2.0 for HTTP/1.0, whose responses can have no chunks, so no trailers either.
  if (req.httpVersionMajor > 1) res.useChunkedEncodingByDefault = true
  res.assignSocket(socket)
  // Closing a finished response frees its resources. Node's server does the same.
  res.once('finish', () => socket.destroy())
  return res
}

function kept<T extends object>(fields: T): T {
  const copy = { ...fields }
  for (const name of LEFT_OUT) Reflect.deleteProperty(copy, name)
  return copy
}

/** The members of a net.Socket that the classes of node:http and frameworks use. */
class NullSocket extends Duplex {
  readonly remoteAddress: string | undefined
  readonly remotePort: number | undefined
  readonly remoteFamily: string | undefined
  readonly localAddress: string | undefined
  readonly localPort: number | undefined
  /** Present on TLS only. createDetachedPair() adds it, together with the other TLS members. */
  readonly encrypted?: true
  readonly connecting = false
  timeout = 0
  readonly setTimeout = this.#itself
  readonly setNoDelay = this.#itself
  readonly setKeepAlive = this.#itself
  readonly ref = this.#itself
  readonly unref = this.#itself

  constructor(like: Socket) {
    // Writes are discarded, so there is no backpressure.
    super({ writableHighWaterMark: Number.MAX_SAFE_INTEGER })
    this.remoteAddress = like.remoteAddress
    this.remotePort = like.remotePort
    this.remoteFamily = like.remoteFamily
    this.localAddress = like.localAddress
    this.localPort = like.localPort
  }

  override _read(): void {}

  override _write(_chunk: unknown, _encoding: BufferEncoding, done: () => void): void {
    done()
  }

  override _writev(_chunks: unknown, done: () => void): void {
    done()
  }

  destroySoon(): void {
    this.end(() => this.destroy())
  }

  address(): object {
    return {}
  }

  #itself(): this {
    return this
  }
}
