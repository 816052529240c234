// Background refreshes: sends a request through the whole app again. The new request has a mark
// with the cache that sent it. Only this cache acts on the mark, and only once.

import type { AsyncResource } from 'node:async_hooks'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { OriginEnd, OriginObserver } from '@stampede/core/adapter'
import { createDetachedPair } from './detached-exchange.ts'

/**
 * The function that handles all requests of an app: a root Express app, `app.callback()` of Koa, or
 * a listener.
 */
export type Dispatch = (req: IncomingMessage, res: ServerResponse) => unknown

/** A run in the background, and where its result goes. */
export interface Revalidation {
  readonly observer: OriginObserver
  settle(end: OriginEnd): void
}

interface Mark extends Revalidation {
  /** The cache that waits for the result. */
  readonly owner: object
  /** The `chosenBy` of the original request: see `RequestView`. */
  readonly chosenBy: string | undefined
  taken: boolean
}

const marks = new WeakMap<IncomingMessage, Mark>()

/**
 * Whether this request is a refresh by stampedeCache and has no client. For loggers and counters.
 */
export function isRevalidation(req: IncomingMessage): boolean {
  return marks.has(req)
}

/**
 * The refresh that this cache has sent. `foreign`: another cache sent the request, or this cache
 * has handled it already, or the framework chose another handler, so forward it to the handler.
 * Undefined: the request has a client.
 */
export function takeRevalidation(
  req: IncomingMessage,
  owner: object,
  chosenBy?: string,
): Revalidation | 'foreign' | undefined {
  const mark = marks.get(req)
  if (mark === undefined) return undefined
  if (mark.owner !== owner || mark.taken) return 'foreign'
  mark.taken = true
  if (mark.chosenBy === chosenBy) return mark
  mark.settle({ type: 'failed', status: 500, error: new Error(OTHER_HANDLER) })
  return 'foreign'
}

const OTHER_HANDLER =
  'the refresh reached another handler of the URL than the request; ' +
  'choose between handlers by the request alone, or set no staleWhileRevalidateMs'

/**
 * Resolves when the cache (`owner`) has observed the response, or when an outer layer responded
 * before the request reached the cache.
 */
export function redispatch(order: {
  readonly from: IncomingMessage
  readonly target: string
  readonly chosenBy: string | undefined
  readonly owner: object
  readonly observer: OriginObserver
  readonly dispatch: Dispatch
  /** Async context of `from`, because outer layers may have put a tracer or a tenant into it. */
  readonly context: AsyncResource
}): Promise<OriginEnd> {
  const { req, res } = createDetachedPair(order.from, order.target)
  return new Promise((settle) => {
    const fail = (status: number, error: unknown): void => settle({ type: 'failed', status, error })
    const { owner, chosenBy, observer } = order
    const mark: Mark = { owner, chosenBy, observer, settle, taken: false }
    marks.set(req, mark)
    res.once('close', () => {
      if (!mark.taken) fail(res.statusCode < 400 ? 500 : res.statusCode, answeredBefore(res))
    })
    // The current context may be that of another request, which began the flight.
    order.context.runInAsyncScope(async () => {
      try {
        await order.dispatch(req, res)
      } catch (error) {
        fail(500, error)
      }
    })
  })
}

function answeredBefore({ statusCode }: ServerResponse): Error {
  const error = new Error(
    `a layer in front of the cache responded with ${statusCode}; ` +
      'let that layer pass requests for which isRevalidation(req) is true',
  )
  // The stack would show only this module, not the layer that responded.
  error.stack = ''
  return error
}
