// Likeness: a digest of the request data that a handler may read. Requests with equal digests
// cannot be told apart by a handler. Computed only after a run has failed.

import { createHash } from 'node:crypto'
import type { RequestView } from '../ports/exchange.ts'

/** Fields that make no difference to the handler, or that the key already tells apart. */
const LEFT_OUT = new Set([
  // In the key.
  ...[':authority', 'host'],
  // Hidden from a handler that fills.
  ...['if-modified-since', 'if-none-match', 'if-range', 'range'],
  // About the connection.
  ...['connection', 'expect', 'keep-alive', 'proxy-connection', 'te', 'trailer'],
  ...['transfer-encoding', 'upgrade'],
])

/** Trace ids, which differ with every request. They do not count if the value is an ordinary id. */
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
/** A UUID or a hexadecimal id. Any other value may be what makes a handler fail. */
const ORDINARY_ID = /^[0-9a-f-]{1,80}$/i

/** 132 bits (22 characters) over the target and the header fields of a request. */
export function likenessOf({ target, headers }: RequestView): string {
  let text = part(target)
  for (const name of Object.keys(headers).sort()) {
    const value = headers[name]
    if (value === undefined || LEFT_OUT.has(name)) continue
    if (TRACING.has(name) && ORDINARY_ID.test(String(value))) continue
    text += part(name)
    text += typeof value === 'string' ? part(value) : value.map(part).join('')
  }
  // Hashed in one call: a request may have thousands of fields.
  return createHash('sha256').update(text).digest('base64url').slice(0, 22)
}

/** With its length, so that no part can run into the next one. */
function part(text: string): string {
  return `${text.length}:${text}`
}
