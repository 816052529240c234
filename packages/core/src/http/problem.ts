// Error responses of Stampede itself, as problem documents (RFC 9457).

import type { HeaderList, Reply } from '../ports/exchange.ts'

const ENCODER = new TextEncoder()

/**
 * RFC 9457 §3: a complete response. Without a `type` in `members`, its type is `about:blank` and
 * `title` is the phrase of the status. Clients test `code`. `detail` must not contain data of the
 * request.
 */
export function problem(
  status: number,
  code: string,
  title: string,
  detail: string,
  extraHeaders: HeaderList = [],
  members: Readonly<Record<string, string | number | boolean>> = {},
): Reply {
  const headers: HeaderList = [
    ['content-type', 'application/problem+json'],
    ['cache-control', 'no-store'],
    ...extraHeaders,
  ]
  const body = ENCODER.encode(JSON.stringify({ ...members, title, status, detail, code }))
  return { status, headers, body, kind: 'json' }
}
