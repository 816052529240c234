// What a body parser that ran before us has left to see.

import type { IncomingMessage } from 'node:http'
import type { RequestBody } from '@stampede/core'

const UNSEEN: RequestBody = { type: 'unseen' }

interface UploadedFile {
  readonly fieldname: unknown
  readonly originalname: unknown
  readonly mimetype: unknown
  readonly buffer: Uint8Array
}

/** Of a request whose stream somebody has read. */
export function readParsed(req: IncomingMessage, body: unknown): RequestBody {
  const files = uploadsOf(req)
  if (files === undefined) return UNSEEN
  if (files.length > 0) return { type: 'parsed', value: { body, files } }
  if (body instanceof Uint8Array) return { type: 'bytes', bytes: body }
  if (body === undefined || isLeftover(req, body)) return UNSEEN
  return { type: 'parsed', value: body }
}

/**
 * body-parser 1 (Express 4) leaves `{}` where it parsed nothing, and marks what it parsed; body-parser 2 marks nothing.
 * So an empty object counts as the body only where the body has no room for more.
 */
function isLeftover(req: IncomingMessage, body: unknown): boolean {
  if (Reflect.get(req, '_body') === true) return false
  if (typeof body !== 'object' || body === null || Array.isArray(body)) return false
  return Object.keys(body).length === 0 && !(Number(req.headers['content-length']) <= '{}'.length)
}

/** As multer leaves them; undefined if there are some that are not in memory. */
function uploadsOf(req: IncomingMessage): readonly UploadedFile[] | undefined {
  const single: unknown = Reflect.get(req, 'file')
  const many: unknown = Reflect.get(req, 'files')
  const files = [single, ...Object.values(Object(many) as object)].flat()
  const uploads: UploadedFile[] = []
  for (const file of files) {
    if (file === undefined || file === null) continue
    const { fieldname, originalname, mimetype, buffer } = Object(file)
    if (!(buffer instanceof Uint8Array)) return undefined
    uploads.push({ fieldname, originalname, mimetype, buffer })
  }
  return uploads
}
