// Reads the body of a request in such a way that the next reader still gets it.
//
// If no parser has run yet, the stream is read to its end, and the bytes are put back in the same
// tick. Node emits no `end` while bytes are buffered, so the next reader gets the same bytes and
// then the end. If a parser has run, the parsed body is used.

import type { IncomingMessage } from 'node:http'
import { isDeepStrictEqual } from 'node:util'
import type { IdempotentExchange } from '@stampede/core/adapter'

/** The body, as far as it can be read. */
export type RequestBody = Awaited<ReturnType<IdempotentExchange['readBody']>>

const CLIENT_GONE: RequestBody = { type: 'incomplete' }
const TOO_LARGE: RequestBody = { type: 'too-large' }
const NONE: RequestBody = { type: 'none' }

/** A request whose body a cache or an attempt reads. */
export interface BodyVisit<Native> {
  readonly req: IncomingMessage
  readonly native: Native
  /** The body, as far as parsers have parsed it. */
  parsed?(native: Native): ParsedRequest
  /** Reads the body in place of `parsed`, if the framework reads the request itself. */
  readBody?(maxBytes: number, native: Native): Promise<RequestBody>
}

/** Bodies that were read before. */
const knownBodies = new WeakMap<IncomingMessage, RequestBody>()

/**
 * Keeps the raw body for the fingerprint of a request with an idempotency key, or for the key of a
 * QUERY. Pass it as `verify` of body-parser.
 *
 * @example
 * app.use(express.json({ verify: rememberRawBody }))
 */
export function rememberRawBody(req: IncomingMessage, _res: unknown, body: Uint8Array): void {
  knownBodies.set(req, { type: 'bytes', bytes: body })
}

/** Keeps a body for the next cache of the request. Its stream would look as if a parser had run. */
export function keepBody(req: IncomingMessage, body: RequestBody): void {
  knownBodies.set(req, body)
}

/**
 * Reads the body. Waits only until the client has sent the body. If a parser has run, the result is
 * no promise. Rejects or throws only if a getter of the app throws.
 */
export function readRequestBody<Native>(
  visit: BodyVisit<Native>,
  maxBytes: number,
): RequestBody | Promise<RequestBody> {
  const { req, native } = visit
  const known = knownBodies.get(req)
  if (known !== undefined) return known.type === 'bytes' ? toBody(known.bytes, maxBytes) : known
  if (visit.readBody !== undefined) return visit.readBody(maxBytes, native)
  const parsed = visit.parsed?.(native) ?? UNPARSED
  const raw = parsed.rawBody ?? Reflect.get(req, 'rawBody')
  if (typeof raw === 'string' || raw instanceof Uint8Array)
    return toBody(Buffer.from(raw), maxBytes)
  if (hasNoBody(req)) return NONE
  if (!isUntouched(req)) return readAfterParser(req, maxBytes, parsed)
  // One turn later, because a listener that is added while Node parses the last packet would miss
  // the end of the body.
  return NEXT_TURN.then(() =>
    isUntouched(req) ? readAndPutBack(req, maxBytes) : readAfterParser(req, maxBytes, parsed),
  )
}

const UNPARSED: ParsedRequest = { body: undefined }
const NEXT_TURN = Promise.resolve()

function readAfterParser(
  req: IncomingMessage,
  maxBytes: number,
  parsed: ParsedRequest,
): RequestBody {
  // The body was read and was empty.
  if (!req.readableDidRead && req.readableEnded) return NONE
  const seen = readParsed(req, parsed)
  return seen.type === 'bytes' ? toBody(seen.bytes, maxBytes) : seen
}

/** UTF-8, as parsers read it. */
const PLAIN_JSON = /^[^;]*[/+]json[ \t]*(?:;[ \t]*charset="?utf-8"?[ \t]*)?$/i

/**
 * The bytes to send a body again, so that a parser gets the same value. Undefined if they are not
 * known. `wasRead`: a parser has read the body before the cache.
 */
export function bytesToSend(
  { headers }: IncomingMessage,
  body: RequestBody,
  wasRead: boolean,
): Uint8Array | undefined {
  // The parser has decoded it.
  if (wasRead && headers['content-encoding'] !== undefined) return undefined
  if (body.type === 'none') return Buffer.alloc(0)
  if (body.type === 'bytes') return body.bytes
  const isJson = body.type === 'parsed' && PLAIN_JSON.test(headers['content-type'] ?? '')
  return isJson ? bytesOfJson(body.value) : undefined
}

/** Undefined if JSON.parse would return another value: JSON writes Infinity as null. */
function bytesOfJson(value: unknown): Uint8Array | undefined {
  try {
    const json = JSON.stringify(value)
    return isDeepStrictEqual(JSON.parse(json), value) ? Buffer.from(json) : undefined
  } catch {
    return undefined
  }
}

/** Discards the rest of a body that no code reads, so that the connection can be reused. */
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

function readAndPutBack(
  req: IncomingMessage,
  maxBytes: number,
): RequestBody | Promise<RequestBody> {
  if (req.destroyed) return CLIENT_GONE
  // Node itself discards a body of which nothing was read.
  if (Number(req.headers['content-length']) > maxBytes) return TOO_LARGE
  // Most bodies have arrived by now. One read gets all of their bytes, without listeners.
  if (hasEnded(req)) return toBody(putBack(req, readBuffered(req)), maxBytes)
  return new Promise((resolve) => readByParts(req, maxBytes, resolve))
}

function readByParts(
  req: IncomingMessage,
  maxBytes: number,
  settle: (body: RequestBody) => void,
): void {
  const chunks: Buffer[] = []
  let bytes = 0
  /** Returns whether the whole body was read, or more than may be read. */
  const read = (): boolean => {
    const chunk = readBuffered(req)
    chunks.push(chunk)
    bytes += chunk.byteLength
    return hasEnded(req) || bytes > maxBytes
  }
  const whole = (): RequestBody => toBody(putBack(req, Buffer.concat(chunks)), maxBytes)
  if (read()) return settle(whole())
  const end = (body: RequestBody): void => {
    for (const [event, listener] of Object.entries(events)) req.off(event, listener)
    settle(body)
  }
  const readable = (): void => {
    if (read()) end(whole())
  }
  const gone = (): void => end(CLIENT_GONE)
  const events = { readable, end: () => end(whole()), aborted: gone, close: gone, error: gone }
  for (const [event, listener] of Object.entries(events)) req.on(event, listener)
}

/** The bytes that have arrived and were not read yet. */
function readBuffered(req: IncomingMessage): Buffer {
  // Without buffered bytes, read() would emit `end` at the end of the body.
  const chunk: unknown = req.readableLength > 0 ? req.read() : null
  // Chunks are strings if an encoding was set before.
  return Buffer.from((chunk ?? '') as string, req.readableEncoding ?? undefined)
}

/** Puts the bytes back into the request, and returns them. */
function putBack(req: IncomingMessage, whole: Buffer): Buffer {
  const { readableEncoding: encoding } = req
  if (whole.byteLength > 0 && !req.readableEnded)
    req.unshift(encoding === null ? whole : whole.toString(encoding), encoding ?? undefined)
  return whole
}

/**
 * Whether the whole body has arrived, even if it was not read yet. Node has no public name for
 * this.
 */
function hasEnded(req: IncomingMessage): boolean {
  return Object(Reflect.get(req, '_readableState')).ended === true
}

const UNSEEN: RequestBody = { type: 'unseen' }

interface UploadedFile {
  readonly fieldname: unknown
  readonly originalname: unknown
  readonly mimetype: unknown
  readonly buffer: Uint8Array
}

/** The parsed body of a request, wherever its framework has it. */
export interface ParsedRequest {
  readonly body: unknown
  readonly rawBody?: unknown
  /** Uploaded files, if they are not a property of the IncomingMessage. */
  readonly files?: unknown
  /**
   * True if the parsers of the framework leave the body undefined when they parse nothing. Then the
   * body `{}` means that the client sent `{}`.
   */
  readonly leavesNothing?: boolean
}

/** Returns the body of a request whose stream was already read. */
function readParsed(req: IncomingMessage, parsed: ParsedRequest): RequestBody {
  const { body } = parsed
  const files = uploadsOf(req, parsed.files)
  if (files === undefined) return UNSEEN
  if (files.length > 0) return { type: 'parsed', value: { body, files } }
  if (body instanceof Uint8Array) return { type: 'bytes', bytes: body }
  if (body === undefined || isLeftover(req, parsed)) return UNSEEN
  return { type: 'parsed', value: body }
}

/**
 * Whether the body is an empty object that may come from a parser which parsed nothing. body-parser
 * 1 (Express 4) sets `{}` then, and marks requests that it parsed. body-parser 2 marks nothing. So
 * an empty object counts as the body only if Content-Length is too small for more.
 */
function isLeftover(req: IncomingMessage, { body, leavesNothing }: ParsedRequest): boolean {
  if (Reflect.get(req, '_body') === true) return false
  if (leavesNothing === true && PARSED_TYPE.test(req.headers['content-type'] ?? '')) return false
  if (typeof body !== 'object' || body === null || Array.isArray(body)) return false
  return Object.keys(body).length === 0 && !(Number(req.headers['content-length']) <= '{}'.length)
}

/** Content types that body-parser parses into an object. */
const PARSED_TYPE = /^[^;]*(?:[/+]json|\/x-www-form-urlencoded)[ \t]*(?:;|$)/i

/** Uploads as multer sets them. Undefined if some are not in memory. */
function uploadsOf(req: IncomingMessage, others: unknown): readonly UploadedFile[] | undefined {
  const single: unknown = Reflect.get(req, 'file')
  const lists = [Reflect.get(req, 'files'), others].map((list) => Object.values(Object(list)))
  // A set, because both properties may have the same file.
  const files = new Set([single, ...lists.flat(2)])
  const uploads: UploadedFile[] = []
  for (const file of files) {
    if (file === undefined || file === null) continue
    const { fieldname, originalname, mimetype, buffer } = Object(file)
    if (!(buffer instanceof Uint8Array)) return undefined
    uploads.push({ fieldname, originalname, mimetype, buffer })
  }
  return uploads
}
