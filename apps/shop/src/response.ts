// Responses of the handlers for both frameworks: JSON, or a problem document (RFC 9457).

import { createHash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'

export interface ShopResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
}

/** An error that becomes a 4xx or 5xx response. The client sees its text. */
export class Problem extends Error {
  override readonly name = 'Problem'
  readonly status: number
  readonly title: string
  readonly headers: Readonly<Record<string, string>>

  constructor(
    status: number,
    title: string,
    detail: string,
    headers: Readonly<Record<string, string>> = {},
  ) {
    super(detail)
    this.status = status
    this.title = title
    this.headers = headers
  }
}

export function json(value: unknown, headers: Record<string, string> = {}): ShopResponse {
  const body = Buffer.from(JSON.stringify(value))
  const type = 'application/json; charset=utf-8'
  return { status: 200, headers: { 'content-type': type, etag: etagOf(body), ...headers }, body }
}

/** A strong validator, so that `If-None-Match` works the same on both frameworks. */
export function etagOf(body: Buffer): string {
  return `"${createHash('sha256').update(body).digest('base64url').slice(0, 22)}"`
}

export function noContent(): ShopResponse {
  return { status: 204, headers: {}, body: Buffer.alloc(0) }
}

/**
 * Returns the response of `handler`, and turns a `Problem` that it throws into a response. This
 * runs inside the cache, so that the cache sees a 404 and not a failed handler. Other errors go to
 * the framework.
 */
export async function respond(
  handler: () => ShopResponse | Promise<ShopResponse>,
): Promise<ShopResponse> {
  try {
    return await handler()
  } catch (error) {
    if (error instanceof Problem) return problem(error)
    throw error
  }
}

/**
 * Turns an error that reached a framework's error handler into a response. The details go to the
 * log and not to the client.
 */
export function respondToError(error: unknown, message: IncomingMessage): ShopResponse {
  if (error instanceof Problem) return problem(error)
  const status = (error as { status?: unknown } | null)?.status
  // The framework itself throws 4xx errors about the request, such as broken percent-encoding in
  // the path.
  if (typeof status === 'number' && status >= 400 && status < 500) {
    return problem(new Problem(status, 'Bad request', 'The request could not be understood.'))
  }
  // If the connection is closed, for example while the shop stops, the error is not logged.
  if (message.socket?.destroyed !== true) console.error(`${message.method} ${message.url}:`, error)
  const title = 'Internal error'
  return problem(new Problem(500, title, 'The shop failed to respond. Its log has the reason.'))
}

export function noSuchPage(): ShopResponse {
  return problem(new Problem(404, 'Not found', 'There is no page at this address.'))
}

function problem({ status, title, message, headers }: Problem): ShopResponse {
  return {
    status,
    headers: { 'content-type': 'application/problem+json', ...headers },
    body: Buffer.from(JSON.stringify({ type: 'about:blank', title, status, detail: message })),
  }
}
