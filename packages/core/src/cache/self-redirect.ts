// Redirects from one spelling of a URL to another under the same key. Apps redirect a host in
// capitals, reordered parameters or a bare `?` to the canonical URL. The key does not tell these
// spellings apart: a stored redirect would answer the canonical URL too, and clients would loop.

import { headerValue } from '../http/headers.ts'
import type { CapturedHead, RequestView } from '../ports/exchange.ts'
import type { CacheConfig } from './cache-options.ts'
import { urlKey } from './key.ts'

/** Placeholder for the request's own host, which may not be valid in a URL. */
const OWN_HOST = 'own.invalid'

/**
 * Whether `Location` (RFC 9110 §10.2.2) leads to the URL key of the request itself. The scheme does
 * not count: behind a proxy that ends TLS, both requests may arrive as `http`.
 */
export function redirectsToItself(
  { status, headers }: CapturedHead,
  request: RequestView,
  rule: CacheConfig['query'],
): boolean {
  if (status < 300 || status > 399) return false
  const location = headerValue(headers, 'location')
  const own = parse(`http://${OWN_HOST}${request.target}`)
  const next = location !== undefined && own !== undefined ? parse(location, own) : undefined
  if (own === undefined || next === undefined) return false
  if (next.protocol !== 'http:' && next.protocol !== 'https:') return false
  const ownHost = parse(`${request.scheme}://${request.host}`)?.host ?? request.host
  const nextHost = next.host === OWN_HOST ? ownHost : next.host
  const keyOf = (host: string, { pathname, search }: URL) =>
    urlKey({ ...request, host, target: pathname + search }, rule)
  return keyOf(ownHost, own) === keyOf(nextHost, next)
}

function parse(url: string, base?: URL): URL | undefined {
  return URL.canParse(url, base?.href) ? new URL(url, base) : undefined
}
