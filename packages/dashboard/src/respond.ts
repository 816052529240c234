// Responses of the dashboard, with the header fields that keep its pages to themselves.

import type { IncomingMessage, ServerResponse } from 'node:http'

const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join('; ')

/** `no-transform`: a compressor would hold back the events. */
export const NO_STORE = 'no-store, no-transform'

const FIELDS: Readonly<Record<string, string>> = {
  'Cache-Control': NO_STORE,
  'Content-Security-Policy': POLICY,
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Referrer-Policy': 'no-referrer',
  'X-Content-Type-Options': 'nosniff',
  'X-Frame-Options': 'DENY',
  'X-Robots-Tag': 'noindex',
}

export function respond(
  { method }: IncomingMessage,
  res: ServerResponse,
  status: number,
  type: string,
  body: string | Uint8Array,
  fields: Readonly<Record<string, string>> = {},
): void {
  if (isAnswered(res)) return
  const bytes = typeof body === 'string' ? Buffer.from(body) : body
  const length = String(bytes.byteLength)
  res.writeHead(status, { ...FIELDS, 'Content-Type': type, 'Content-Length': length, ...fields })
  res.end(method === 'HEAD' ? undefined : bytes)
}

/** Whether other code has responded meanwhile, such as a timeout of the app. */
function isAnswered({ headersSent, destroyed }: ServerResponse): boolean {
  return headersSent || destroyed
}

export function respondJson(
  req: IncomingMessage,
  res: ServerResponse,
  status: number,
  value: unknown,
): void {
  respond(req, res, status, 'application/json; charset=utf-8', JSON.stringify(value))
}

/** The response of a server that has nothing at that address. */
export function respondNothing(res: ServerResponse): void {
  res.writeHead(404)
  res.end()
}

/**
 * Begins a stream of server-sent events. False if the response cannot be sent any more.
 * `X-Accel-Buffering`: nginx sends each event at once.
 */
export function beginEvents(res: ServerResponse): boolean {
  if (isAnswered(res)) return false
  res.writeHead(200, {
    ...FIELDS,
    'Content-Type': 'text/event-stream; charset=utf-8',
    'X-Accel-Buffering': 'no',
  })
  res.write('retry: 2000\n\n')
  return true
}
