// What can be seen of a request's body, without taking it from whoever reads it next.
//
// Before any parser the stream is read to its end, and put back in the tick in which the end was noticed: while something
// is buffered Node emits no `end`, so the next reader gets the same bytes and then the end. Behind a parser
// there is what the parser left.

import type { IncomingMessage } from 'node:http'
import type { RequestBody } from '@stampede/core/adapter'
import { type ParsedRequest, readParsed } from './parsed-body.ts'

const CLIENT_GONE: RequestBody = { type: 'incomplete' }
const TOO_LARGE: RequestBody = { type: 'too-large' }
const NONE: RequestBody = { type: 'none' }

const rawBodies = new WeakMap<IncomingMessage, Uint8Array>()

/**
 * Remembers a body as it was sent, for the fingerprint of a request with an idempotency key. For body-parser's `verify`.
 *
 * @example
 * app.use(express.json({ verify: rememberRawBody }))
 */
export function rememberRawBody(req: IncomingMessage, _res: unknown, body: Uint8Array): void {
  rawBodies.set(req, body)
}

/** Never rejects, and never waits longer than the client sends. At once behind a parser. */
export function readRequestBody(
  req: IncomingMessage,
  maxBytes: number,
  parsed: ParsedRequest,
): RequestBody | Promise<RequestBody> {
  const raw = rawBodies.get(req) ?? parsed.rawBody ?? Reflect.get(req, 'rawBody')
  if (typeof raw === 'string' || raw instanceof Uint8Array)
    return toBody(Buffer.from(raw), maxBytes)
  if (hasNoBody(req)) return NONE
  return isUntouched(req) ? readLater(req, maxBytes, parsed) : readBehind(req, maxBytes, parsed)
}

/** Node may be parsing the packet that ends the body at this very moment; a listener added now would miss that it does. */
async function readLater(
  req: IncomingMessage,
  maxBytes: number,
  parsed: ParsedRequest,
): Promise<RequestBody> {
  await undefined
  return isUntouched(req) ? readAndPutBack(req, maxBytes) : readBehind(req, maxBytes, parsed)
}

function readBehind(req: IncomingMessage, maxBytes: number, parsed: ParsedRequest): RequestBody {
  // Read to an end before which nothing came.
  if (!req.readableDidRead && req.readableEnded) return NONE
  const seen = readParsed(req, parsed)
  return seen.type === 'bytes' ? toBody(seen.bytes, maxBytes) : seen
}

/** Lets go of what is left of a body that nobody will read: the connection cannot be used again before. */
export function discardRequestBody(req: IncomingMessage): void {
  if (!req.readableEnded) req.resume()
}

function toBody(bytes: Uint8Array, maxBytes: number): RequestBody {
  if (bytes.byteLength > maxBytes) return TOO_LARGE
  return bytes.byteLength === 0 ? NONE : { type: 'bytes', bytes }
}

function hasNoBody(req: IncomingMessage): boolean {
  const length = req.headers['content-length']
  if (length !== undefined) return Number(length) === 0
  if (req.httpVersionMajor < 2) return req.headers['transfer-encoding'] === undefined
  return Object(Reflect.get(req, 'stream')).endAfterHeaders === true
}

function isUntouched(req: IncomingMessage): boolean {
  return !req.readableDidRead && !req.readableEnded && req.readableFlowing !== true
}

function readAndPutBack(req: IncomingMessage, maxBytes: number): Promise<RequestBody> {
  if (req.destroyed) return Promise.resolve(CLIENT_GONE)
  // Not begun, Node itself gets rid of it.
  if (Number(req.headers['content-length']) > maxBytes) return Promise.resolve(TOO_LARGE)
  return new Promise((resolve) => {
    const taken = createTaken(req)
    const events = {
      readable: onReadable,
      end: onEnd,
      aborted: onGone,
      close: onGone,
      error: onGone,
    }
    const settle = (body: RequestBody): void => {
      for (const [event, listener] of Object.entries(events)) req.off(event, listener)
      resolve(body)
    }
    function onReadable(): void {
      // With nothing buffered, a read() at the end would have `end` emitted.
      if (req.readableLength > 0) taken.add(req.read())
      const whole = hasEnded(req)
      if (!whole && taken.bytes <= maxBytes) return
      settle(toBody(taken.putBack(), maxBytes))
    }
    function onEnd(): void {
      settle(toBody(taken.putBack(), maxBytes))
    }
    function onGone(): void {
      settle(CLIENT_GONE)
    }
    // Nobody has read, and nothing is to come: a listener alone would have `end` emitted.
    if (hasEnded(req) && req.readableLength === 0) return resolve(NONE)
    for (const [event, listener] of Object.entries(events)) req.on(event, listener)
  })
}

interface Taken {
  readonly bytes: number
  add(chunk: unknown): void
  /** Returns what it was. */
  putBack(): Uint8Array
}

function createTaken(req: IncomingMessage): Taken {
  const chunks: Buffer[] = []
  let bytes = 0
  return {
    get bytes() {
      return bytes
    },
    add(chunk) {
      if (chunk === null) return
      // Strings, if somebody has set an encoding already.
      const taken = Buffer.from(chunk as string, req.readableEncoding ?? undefined)
      chunks.push(taken)
      bytes += taken.byteLength
    },
    putBack() {
      const whole = Buffer.concat(chunks)
      const { readableEncoding: encoding } = req
      if (bytes > 0 && !req.readableEnded)
        req.unshift(encoding === null ? whole : whole.toString(encoding), encoding ?? undefined)
      return whole
    },
  }
}

/** Node has no public name for it: everything has come, and may still have to be read. */
function hasEnded(req: IncomingMessage): boolean {
  return Object(Reflect.get(req, '_readableState')).ended === true
}
