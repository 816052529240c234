// Header lines that `req.headers` lacks. A handler may still see them: in `req.rawHeaders`, in the
// fields of a web Request, or as a body that they announce. So such a request has no reliable key.

import type { IncomingMessage, Server } from 'node:http'
import type { RequestView } from '@stampede/core/adapter'

/** Node keeps 1 000 lines unless `server.maxHeadersCount` is set. */
const DEFAULT_LENGTH = 2_000

/**
 * Fields of which Node keeps the first line only. It drops `__proto__` itself. The last 17 are such
 * fields over HTTP/2 only.
 */
const SINGLE = [
  ...['__proto__', 'max-forwards', 'retry-after', 'location', 'server', 'host', 'authorization'],
  ...['proxy-authorization', 'user-agent', 'referer', 'from', 'content-type', 'content-length'],
  ...['if-modified-since', 'if-unmodified-since', 'age', 'etag', 'expires', 'last-modified'],
  ...['access-control-allow-credentials', 'access-control-max-age', 'content-encoding', 'dnt'],
  ...['access-control-request-method', 'content-language', 'content-location', 'content-md5'],
  ...['content-range', 'date', 'if-match', 'if-none-match', 'if-range', 'range', 'tk'],
  ...['upgrade-insecure-requests', 'x-content-type-options'],
]

/** A bit for each of these fields, by `slotOf`. Two fields may share a bit or a slot. */
const BITS = new Int32Array(1_024)
for (const [i, name] of SINGLE.entries()) BITS[slotOf(name)] = i === 0 ? 1 : 2 << (i % 31)

/** Distinguishes names without a copy in lower case. */
function slotOf(name: string): number {
  return ((name.length & 31) << 5) | (name.charCodeAt(0) & 31)
}

/** The reason why `req.headers` does not have all lines of the request. */
export function lostLines(req: IncomingMessage): RequestView['lostLines'] {
  const { rawHeaders } = req
  if (isCut(req, rawHeaders.length)) return 'cut-head'
  let seen = BITS[slotOf('__proto__')] as number
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const bit = BITS[slotOf(rawHeaders[i] as string)] as number
    if ((seen & bit) !== 0 && SINGLE.some((name) => isDropped(req, name))) return 'repeated-field'
    seen |= bit
  }
  return undefined
}

/**
 * Whether Node may have dropped lines. Its parser stops at the first batch of lines that reaches
 * the limit. `rawHeaders` has that whole batch, `headers` ends at the limit.
 */
function isCut({ socket, httpVersionMajor }: IncomingMessage, length: number): boolean {
  // HTTP/2 refuses a head that is too long.
  if (httpVersionMajor > 1) return false
  // A request without a server was made in this process, such as one of a background refresh.
  const { server } = socket as { server?: Partial<Server> | null }
  if (!server) return false
  const { maxHeadersCount: most } = server
  const limit = typeof most === 'number' ? most << 1 : DEFAULT_LENGTH
  return limit > 0 && length >= limit
}

function isDropped(req: IncomingMessage, name: string): boolean {
  const lines = linesOf(req, name)
  return lines.length > (name === '__proto__' ? 0 : 1) && req.headers[name] !== lines.join(', ')
}

/**
 * All lines of one field. `req.headers` joins them. `req.headersDistinct` would group all other
 * fields too, and HTTP/2 requests do not have it.
 */
export function linesOf({ rawHeaders }: IncomingMessage, name: string): readonly string[] {
  const lines: string[] = []
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const field = rawHeaders[i] as string
    if (field.length === name.length && field.toLowerCase() === name) {
      lines.push(rawHeaders[i + 1] as string)
    }
  }
  return lines
}
