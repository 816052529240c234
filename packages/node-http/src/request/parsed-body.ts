// Reads the request body from the properties that a body parser has set on the request.

import type { IncomingMessage } from 'node:http'
import type { RequestBody } from '@stampede/core/adapter'

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
export function readParsed(req: IncomingMessage, parsed: ParsedRequest): RequestBody {
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
