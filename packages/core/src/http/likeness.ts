// Likeness: a digest of the request data that a handler may read. A handler cannot distinguish
// requests with equal digests. It is computed only after a run has failed.

import { hash } from 'node:crypto'
import type { RequestView } from '../ports/exchange.ts'

/** Fields that are part of the key, or that do not change the response of a handler. */
const EXCLUDED = new Set([
  // Fields in the key.
  ...[':authority', 'host'],
  // Fields that the handler does not see during a fill.
  ...['if-modified-since', 'if-none-match', 'if-range', 'range'],
  // Fields about the connection.
  ...['connection', 'expect', 'keep-alive', 'proxy-connection', 'te', 'trailer'],
  ...['transfer-encoding', 'upgrade'],
])

/** Trace ids, which differ in each request. They are ignored if the value is an ordinary id. */
const TRACING = new Set([
  'b3',
  'traceparent',
  'x-b3-parentspanid',
  'x-b3-spanid',
  'x-b3-traceid',
  'x-correlation-id',
  'x-request-id',
  'x-trace-id',
])
/** A UUID or a hexadecimal id. Another value might be the cause of the handler's failure. */
const ORDINARY_ID = /^[0-9a-f-]{1,80}$/i

/** Digest of the target, the header fields and the body of a request: 132 bits in 22 characters. */
export function likenessOf({ target, headers, content }: RequestView): string {
  let text = part(target)
  // One key may have several spellings of a body, of which a handler may fail for one only.
  if (content?.body.type === 'bytes') text += hash('sha256', content.body.bytes, 'base64url')
  for (const name of Object.keys(headers).sort()) {
    const value = headers[name]
    if (value === undefined || EXCLUDED.has(name)) continue
    if (TRACING.has(name) && ORDINARY_ID.test(String(value))) continue
    text += part(name)
    text += typeof value === 'string' ? part(value) : value.map(part).join('')
  }
  // One call hashes all fields, because a call per field is slow for thousands of fields.
  return hash('sha256', text, 'base64url').slice(0, 22)
}

/** The text after its length, so that two different lists of parts never give the same text. */
function part(text: string): string {
  return `${text.length}:${text}`
}
