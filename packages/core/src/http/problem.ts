// Errors that Stampede itself answers with, as problem documents (RFC 9457).

import type { HeaderList, Reply } from '../ports/exchange.ts'

const ENCODER = new TextEncoder()

/**
 * RFC 9457 §3: a complete answer. Without a `type` among `members` it means `about:blank`, and `title` is the
 * phrase of the status; `code` is what programs test. Nothing of the request belongs into `detail`.
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
  return { status, headers, body }
}
