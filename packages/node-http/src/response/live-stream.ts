// The follower's side of `collapse: 'stream'`. A follower is a request that waits for the leader,
// the request that runs the handler. The response of the leader is written to the follower's client
// while it arrives, at the pace of that client. If the leader's response is cut off, the follower's
// response must look broken, never complete.

import type { IncomingMessage, ServerResponse } from 'node:http'
import { constants } from 'node:http2'
import { Readable } from 'node:stream'
import {
  type HeaderList,
  type LiveChunks,
  type LiveReply,
  OWN_FIELDS,
} from '@stampede/core/adapter'
import { hasLeft } from '../request/client-gone.ts'
import { clearReason, isHttp2 } from '../request/http2.ts'
import { applyFields } from './header-fields.ts'
import { chunkFor, framedHeaders, isSendable } from './write-response.ts'

/**
 * Whether the client can see that a response was cut off. In HTTP/1.0 it cannot: any end of the
 * connection looks like the end of the body.
 */
export function canBreakOff(req: IncomingMessage): boolean {
  return req.httpVersionMajor > 1 || req.httpVersionMinor >= 1
}

/**
 * Sends the reply. If it cannot be sent, returns false without a change to the response, so that
 * the handler can run.
 */
export function writeLive(res: ServerResponse, reply: LiveReply): boolean {
  const headers = liveHeaders(res, reply)
  if (headers === undefined) return hasLeft(res) || res.headersSent
  clearReason(res)
  applyFields(res, headers)
  res.writeHead(reply.status)
  liveStream(res, reply.body).pipe(res)
  return true
}

/**
 * The fields of the head. If the reply cannot be sent, releases the chunks and returns undefined.
 */
export function liveHeaders(res: ServerResponse, reply: LiveReply): HeaderList | undefined {
  const { status, headers, length, body } = reply
  const isOver = hasLeft(res) || res.headersSent || res.writableEnded
  if (isOver || !isSendable({ status, headers, body: undefined })) {
    body.return()
    return undefined
  }
  for (const name of OWN_FIELDS) res.removeHeader(name)
  const fields = framedHeaders({ status, headers, body: undefined }, 'HEAD').filter(
    ([name]) => name !== 'content-length',
  )
  return length === undefined ? fields : [...fields, ['content-length', String(length)]]
}

/**
 * A stream of the chunks. It stops reading when the client leaves, and breaks off the response when
 * the leader's body is cut off. Other clients and the entry share the chunks. So the stream copies
 * them if a layer could change them: if a layer wraps `write`, or if `copies` is true.
 */
export function liveStream(res: ServerResponse, chunks: LiveChunks, copies = false): Readable {
  const stream: Readable = new Readable({
    read() {
      chunks.next().then(
        ({ value }) => stream.push(chunkFor(copies ? undefined : res.write, value) ?? null),
        () =>
          inOwnTurn(res, () => {
            breakOff(res)
            // The stream gets no error, because the leader's request has reported it.
            stream.destroy()
          }),
      )
    },
    destroy(error, done) {
      chunks.return()
      done(error)
    },
  })
  res.once('close', () => stream.destroy())
  return stream
}

/**
 * A reset of the leader's HTTP/2 stream may be the reason why this response breaks off. If a second
 * stream is reset in the callback for the first reset, node:http2 (Node 20.20) never returns, and
 * the process hangs.
 */
function inOwnTurn(res: ServerResponse, act: () => void): void {
  if (isHttp2(res)) setImmediate(act)
  else act()
}

export function breakOff(res: ServerResponse): void {
  const stream: unknown = Reflect.get(res, 'stream')
  if (isHttp2(res) && stream instanceof Object && 'close' in stream)
    Reflect.apply(stream.close as () => void, stream, [constants.NGHTTP2_INTERNAL_ERROR])
  else res.destroy()
}
