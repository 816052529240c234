// What a handler answers, whatever the framework: JSON, or a problem document (RFC 9457).

import { createHash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'

export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
}

/** A request that cannot be answered as it stands. The text is shown to the client. */
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

export function json(value: unknown, headers: Record<string, string> = {}): Answer {
  const body = Buffer.from(JSON.stringify(value))
  const type = 'application/json; charset=utf-8'
  return { status: 200, headers: { 'content-type': type, etag: etagOf(body), ...headers }, body }
}

/** A strong validator, so that a client's If-None-Match works the same on both frameworks. */
export function etagOf(body: Buffer): string {
  return `"${createHash('sha256').update(body).digest('base64url').slice(0, 22)}"`
}

export function nothing(): Answer {
  return { status: 204, headers: {}, body: Buffer.alloc(0) }
}

/**
 * The answer of `handler`, with a `Problem` it throws turned into one too: below the cache, so that the
 * cache sees a 404 as a response, not as a failed handler. Other errors go up to the framework.
 */
export async function answer(handler: () => Answer | Promise<Answer>): Promise<Answer> {
  try {
    return await handler()
  } catch (error) {
    if (error instanceof Problem) return problem(error)
    throw error
  }
}

/**
 * For the frameworks' error handlers: an answer for whatever was thrown. What it says inside goes to the
 * log, not to the client.
 */
export function answerError(error: unknown, message: IncomingMessage): Answer {
  if (error instanceof Problem) return problem(error)
  const status = (error as { status?: unknown } | null)?.status
  // 4xx are the framework's own words about the request, such as a broken percent-encoding in its path.
  if (typeof status === 'number' && status >= 400 && status < 500) {
    return problem(new Problem(status, 'Bad request', 'The request could not be understood.'))
  }
  // Nobody is left to be told when the connection was cut, e.g. because the shop is closing.
  if (message.socket?.destroyed !== true) console.error(`${message.method} ${message.url}:`, error)
  const title = 'Internal error'
  return problem(new Problem(500, title, 'The shop could not answer; its log says why.'))
}

export function noSuchPage(): Answer {
  return problem(new Problem(404, 'Not found', 'There is nothing at this address.'))
}

function problem({ status, title, message, headers }: Problem): Answer {
  return {
    status,
    headers: { 'content-type': 'application/problem+json', ...headers },
    body: Buffer.from(JSON.stringify({ type: 'about:blank', title, status, detail: message })),
  }
}
