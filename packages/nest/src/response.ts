// The response of a request, on Express and on Fastify.

import type { ServerResponse } from 'node:http'
import { breakOff, Departure } from '@stampede/node-http/adapter'
import { type Observable, tap } from 'rxjs'

/** A response of Express, or a reply of Fastify. */
export type NativeResponse = ServerResponse | FastifyReply

interface FastifyReply {
  readonly raw: ServerResponse
  getHeaders(): Record<string, number | string | string[]>
  hijack(): void
}

/**
 * Nest ends a response whose handler fails in the middle, so that it looks complete. Such a
 * response is broken off instead, as Express does. Nest 12 unsubscribes from an Observable whose
 * client has left, and never responds. Without an end, waiting requests would wait for `waitMs`.
 */
export function breakOffFailed(
  handled: Observable<unknown>,
  response: NativeResponse,
): Observable<unknown> {
  const res = rawOf(response)
  const end = (isLost: boolean): void => {
    if (!isLost || res.writableEnded) return
    ignoreResponses(response)
    breakOff(res)
  }
  return handled.pipe(
    tap({ error: () => end(res.headersSent), unsubscribe: () => end(Departure.hasLeft(res)) }),
  )
}

const METHODS = ['end', 'json', 'redirect', 'render', 'send', 'setHeader', 'view']

/** Nest and its exception filters respond to a value or an error. They must not respond twice. */
export function ignoreResponses(response: NativeResponse): void {
  if ('hijack' in response) response.hijack()
  for (const target of [response, rawOf(response)]) {
    const ignored = (): object => target
    for (const name of METHODS) if (name in target) Reflect.set(target, name, ignored)
  }
}

export const rawOf = (response: NativeResponse): ServerResponse =>
  'raw' in response ? response.raw : response
