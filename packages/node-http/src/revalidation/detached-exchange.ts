// A request and a response without a client, for a background refresh. They are objects of the real
// classes of node:http, so that sessions, compression, `pipe` and `sendFile` work. Their socket
// discards all data. They do not end when the real client leaves.

import { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { Duplex } from 'node:stream'
import { inheritLogin } from '../request/connection.ts'
import { withoutRaw } from '../request/hide-conditionals.ts'
import { tlsMembersOf } from '../request/tls-connection.ts'

/**
 * Fields that are left out: conditions and ranges of the client, and fields of its connection and
 * body.
 */
const LEFT_OUT: ReadonlySet<string> = new Set([
  'if-match',
  'if-none-match',
  'if-modified-since',
  'if-unmodified-since',
  'if-range',
  'range',
  'connection',
  'keep-alive',
  'proxy-connection',
  'upgrade',
  'te',
  'trailer',
  'transfer-encoding',
  'content-length',
  'content-type',
  'expect',
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

  setTimeout(): this {
    return this
  }

  setNoDelay(): this {
    return this
  }

  setKeepAlive(): this {
    return this
  }

  ref(): this {
    return this
  }

  unref(): this {
    return this
  }

  destroySoon(): void {
    this.end(() => this.destroy())
  }

  address(): object {
    return {}
  }
}
