// Background refreshes: sends a request through the whole app again, without a client. The new
// request has a mark with the cache that sent it. Only this cache acts on the mark, and only once.

import type { AsyncResource } from 'node:async_hooks'
import { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { Duplex } from 'node:stream'
import type { DetailedPeerCertificate, TLSSocket } from 'node:tls'
import type { OriginObserver } from '@stampede/core/adapter'
import { without, withoutRaw } from './request/conditionals.ts'
import { inheritLogin } from './request/read-request.ts'

/**
 * The function that handles all requests of an app: a root Express app, `app.callback()` of Koa, or
 * a listener.
 */
export type Dispatch = (req: IncomingMessage, res: ServerResponse) => unknown

interface Refresh {
  /** The cache that sent the request. */
  readonly owner: object
  readonly observer: OriginObserver
  /** The `chosenBy` of the original request: see `RequestView`. */
  readonly chosenBy: string | undefined
  /** The body, if it was made from the value of a parser. */
  readonly parsed: Uint8Array | undefined
  taken: boolean
}

const refreshes = new WeakMap<IncomingMessage, Refresh>()

/**
 * Marks a request that a cache passes to the app, or that it sends as a refresh. A second cache
 * nearer to the handler (the inner cache) finds the first one by it, and calls the function.
 * Without the mark, the inner cache would wait for the fill that runs the inner cache itself. It is
 * a property, because a WeakMap element per request would cost each miss 25 µs of garbage
 * collection.
 */
export const MARK: unique symbol = Symbol('stampede.mark')

export interface Marked extends IncomingMessage {
  [MARK]?: OriginObserver['onInner'] | 'refresh'
}

/**
 * Whether this request is a refresh by stampedeCache and has no client. For loggers and counters.
 */
export function isRevalidation(req: IncomingMessage): boolean {
  return refreshes.has(req)
}

/**
 * The refresh that this cache has sent by this request. Undefined if another cache sent it, if this
 * cache has handled it already, or if the framework chose another handler. Then the request goes to
 * the handler. So does a refresh whose parsed body a layer has changed again. `parsedNow` returns
 * its bytes.
 */
export function takeRefresh(
  req: IncomingMessage,
  owner: object,
  chosenBy: string | undefined,
  parsedNow: () => Uint8Array | undefined,
): OriginObserver | undefined {
  const refresh = refreshes.get(req)
  if (refresh === undefined || refresh.owner !== owner || refresh.taken) return undefined
  refresh.taken = true
  const { parsed, observer } = refresh
  const isSameHandler = refresh.chosenBy === chosenBy
  const isSame = isSameHandler && (!parsed || isEqual(parsed, parsedNow()))
  if (isSame) return observer
  fail(observer, 500, new Error(isSameHandler ? OTHER_BODY : OTHER_HANDLER))
  return undefined
}

const OTHER_HANDLER =
  'the refresh reached another handler of the URL than the request; ' +
  'choose between handlers by the request alone, or set no staleWhileRevalidateMs'

const OTHER_BODY =
  'a layer in front of the cache changes the parsed body of each request; ' +
  'mount the cache before it, or pass rememberRawBody to the parser as verify'

function isEqual(sent: Uint8Array, arrived: Uint8Array | undefined): boolean {
  return arrived !== undefined && Buffer.compare(sent, arrived) === 0
}

function fail({ ended }: OriginObserver, status: number, error: unknown): void {
  process.nextTick(ended, { type: 'failed', status, error })
}

/** Bytes of the bodies of running refreshes. No number of connections limits them. */
let heldBytes = 0
const MOST_HELD_BYTES = 64 * 1024 * 1024

/**
 * Sends the request. Its run ends when the cache (`owner`) has observed the response, or when an
 * outer layer responded before the request reached the cache.
 */
export function redispatch(order: {
  readonly from: IncomingMessage
  readonly target: string
  /** The body of a QUERY. `unknown`: only its parsed value is known. */
  readonly body: Uint8Array | 'unknown' | undefined
  /** Whether the body was made from the value of a parser. */
  readonly isParsed: boolean
  readonly chosenBy: string | undefined
  readonly owner: object
  readonly observer: OriginObserver
  readonly dispatch: Dispatch
  /** Async context of `from`, because outer layers may have put a tracer or a tenant into it. */
  readonly context: AsyncResource
}): void {
  const { body, isParsed, owner, chosenBy, observer } = order
  if (body === 'unknown') return fail(observer, 500, withoutStack(UNKNOWN_BODY))
  const bytes = body?.byteLength ?? 0
  if (heldBytes + bytes > MOST_HELD_BYTES) return fail(observer, 503, withoutStack(TOO_MANY_BODIES))
  heldBytes += bytes
  const { req, res } = createDetachedPair(order.from, order.target, body)
  const parsed = isParsed ? body : undefined
  const refresh: Refresh = { owner, chosenBy, parsed, observer, taken: false }
  refreshes.set(req, refresh)
  req[MARK] = 'refresh'
  res.once('close', () => {
    heldBytes -= bytes
    if (!refresh.taken)
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

const UNKNOWN_BODY =
  'a parser has read the body, and its bytes are not known; mount the cache before the parser, or ' +
  'pass rememberRawBody to the parser as verify'

const TOO_MANY_BODIES = 'the bodies of the refreshes that run have more than 64 MiB'

function answeredBefore({ statusCode }: ServerResponse): Error {
  return withoutStack(
    `a layer in front of the cache responded with ${statusCode}; ` +
      'let that layer pass requests for which isRevalidation(req) is true',
  )
}

/** Its stack would show only this module, not the layer that is the cause. */
function withoutStack(message: string): Error {
  return Object.assign(new Error(message), { stack: '' })
}

// A request and a response without a connection. Both are objects of the real classes of node:http,
// so that sessions, compression, `pipe` and `sendFile` work. Their socket discards all data. They
// do not end when the real client leaves. The request has the TLS state of the real one.

/**
 * Fields that are left out: conditions and ranges of the client, and fields of its connection and
 * body.
 */
const LEFT_OUT: ReadonlySet<string> = new Set([
  ...['if-match', 'if-none-match', 'if-modified-since', 'if-unmodified-since', 'if-range', 'range'],
  ...['connection', 'keep-alive', 'proxy-connection', 'upgrade', 'te', 'trailer'],
  ...['transfer-encoding', 'content-length', 'content-type', 'expect'],
])

/**
 * A GET of `target` with the headers, address, TLS state, login and protocol of `from`. With a body
 * it is a QUERY.
 */
export function createDetachedPair(
  from: IncomingMessage,
  target: string,
  body?: Uint8Array,
): { readonly req: Marked; readonly res: ServerResponse } {
  const nullSocket = Object.assign(new NullSocket(from.socket), tlsMembersOf(from))
  // Both classes use only members of a socket that NullSocket has.
  const socket = nullSocket as unknown as Socket
  const req = new IncomingMessage(socket)
  req.method = body === undefined ? 'GET' : 'QUERY'
  req.url = target
  req.httpVersion = from.httpVersion
  req.httpVersionMajor = from.httpVersionMajor
  req.httpVersionMinor = from.httpVersionMinor
  const { 'content-type': type = '' } = from.headers
  const length = String(body?.byteLength)
  const added = body === undefined ? {} : { 'content-type': type, 'content-length': length }
  const lists = Object.entries(added).map(([name, value]) => [name, [value]])
  req.rawHeaders = [...withoutRaw(from.rawHeaders, LEFT_OUT), ...Object.entries(added).flat()]
  req.headers = { ...without(from.headers, LEFT_OUT), ...added }
  const distinct = without(from.headersDistinct, LEFT_OUT)
  req.headersDistinct = { ...distinct, ...Object.fromEntries(lists) }
  req.complete = true
  if (body !== undefined && body.byteLength > 0) req.push(body)
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

/** The members of a net.Socket that the classes of node:http and frameworks use. */
class NullSocket extends Duplex {
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
    const { remoteAddress, remotePort, remoteFamily, localAddress, localPort } = like
    Object.assign(this, { remoteAddress, remotePort, remoteFamily, localAddress, localPort })
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

/** Methods of a TLSSocket without arguments, whose result stays the same until a new handshake. */
const METHODS = [
  'getPeerX509Certificate',
  'getCertificate',
  'getX509Certificate',
  'getCipher',
  'getProtocol',
  'getSession',
  'isSessionReused',
  'getFinished',
  'getPeerFinished',
  'getEphemeralKeyInfo',
  'getSharedSigalgs',
  'getTLSTicket',
] as const

/** Members of a TLSSocket, with methods that return recorded results. */
export type TlsMembers = Readonly<Partial<TLSSocket>>

const known = new WeakMap<object, TlsMembers>()

/**
 * The TLS members of a request's connection, read once per handshake. Undefined without TLS. A
 * background refresh may begin after the client has closed its connection, and a closed TLSSocket
 * returns null for all members.
 */
export function tlsMembersOf(req: IncomingMessage): TlsMembers | undefined {
  const stream = memberOf(req, 'stream')
  const found = known.get(stream ?? req.socket)
  if (found !== undefined) return found
  // Serverless hosts pass a plain object that has only some members of a TLSSocket.
  const socket = req.socket as Partial<TLSSocket>
  if (socket.encrypted !== true) return undefined
  // On HTTP/2, all streams of a session share one result. It is also stored by stream, because a
  // stream drops its session when it closes.
  const session = stream && memberOf(stream, 'session')
  const members = (session && known.get(session)) ?? read(socket)
  known.set(stream ?? socket, members)
  if (session !== undefined) known.set(session, members)
  // A TLS 1.2 client may renegotiate with another certificate. HTTP/2 forbids that.
  if (stream === undefined) socket.once?.('secure', () => known.delete(socket))
  return members
}

function memberOf(owner: object, name: string): object | undefined {
  const member: unknown = Reflect.get(owner, name)
  return member instanceof Object ? member : undefined
}

/** Reads the members. Members that the socket lacks stay absent, because handlers test for them. */
function read(socket: Partial<TLSSocket>): TlsMembers {
  const { authorized, authorizationError, servername, alpnProtocol } = socket
  const members: Record<string, unknown> = {
    encrypted: true,
    authorized,
    authorizationError,
    servername,
    alpnProtocol,
  }
  const certificate = socket.getPeerCertificate?.(true)
  if (certificate) members.getPeerCertificate = peerCertificate(certificate)
  for (const method of METHODS) {
    if (typeof socket[method] !== 'function') continue
    const result: unknown = socket[method]()
    const recorded = (): unknown => result
    members[method] = recorded
  }
  return members
}

/**
 * Works like getPeerCertificate(): the result has the issuer only if `detailed`. Without a
 * certificate it is an empty object.
 */
function peerCertificate(detailed: DetailedPeerCertificate) {
  const plain: Partial<DetailedPeerCertificate> = { ...detailed }
  delete plain.issuerCertificate
  return (isDetailed?: boolean) => (isDetailed ? detailed : { ...plain })
}
