// Background refreshes: sends a request through the whole app again, without a client. The new
// request has a mark with the cache that sent it. Only this cache acts on the mark, and only once.

import type { AsyncResource } from 'node:async_hooks'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { OriginObserver } from '@stampede/core/adapter'
import { createDetachedPair } from './detached-pair.ts'

/**
 * The function that handles all requests of an app: a root Express app, `app.callback()` of Koa, or
 * a listener.
 */
export type Dispatch = (req: IncomingMessage, res: ServerResponse) => unknown

interface Refresh {
  /** The cache that sent the request. */
  readonly owner: object
  readonly observer: OriginObserver
  /** The `chosenBy` of the original request: see `RequestView`. */
  readonly chosenBy: string | undefined
  taken: boolean
}

const refreshes = new WeakMap<IncomingMessage, Refresh>()

/**
 * Marks a request that a cache passes to the app, or that it sends as a refresh. A second cache
 * nearer to the handler (the inner cache) finds the first one by it, and calls the function.
 * Without the mark, the inner cache would wait for the fill that runs the inner cache itself. It is
 * a property, because a WeakMap element per request would cost each miss 25 µs of garbage
 * collection.
 */
export const MARK: unique symbol = Symbol('stampede.mark')

export interface Marked extends IncomingMessage {
  [MARK]?: OriginObserver['onInner'] | 'refresh'
}

/**
 * Whether this request is a refresh by stampedeCache and has no client. For loggers and counters.
 */
export function isRevalidation(req: IncomingMessage): boolean {
  return refreshes.has(req)
}

/**
 * The refresh that this cache has sent by this request. Undefined if another cache sent it, if this
 * cache has handled it already, or if the framework chose another handler. Then the request goes to
 * the handler.
 */
export function takeRefresh(
  req: IncomingMessage,
  owner: object,
  chosenBy: string | undefined,
): OriginObserver | undefined {
  const refresh = refreshes.get(req)
  if (refresh === undefined || refresh.owner !== owner || refresh.taken) return undefined
  refresh.taken = true
  if (refresh.chosenBy === chosenBy) return refresh.observer
  fail(refresh.observer, 500, new Error(OTHER_HANDLER))
  return undefined
}

const OTHER_HANDLER =
  'the refresh reached another handler of the URL than the request; ' +
  'choose between handlers by the request alone, or set no staleWhileRevalidateMs'

function fail({ ended }: OriginObserver, status: number, error: unknown): void {
  process.nextTick(ended, { type: 'failed', status, error })
}

/**
 * Sends the request. Its run ends when the cache (`owner`) has observed the response, or when an
 * outer layer responded before the request reached the cache.
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
}): void {
  const { req, res }: { req: Marked; res: ServerResponse } = createDetachedPair(
    order.from,
    order.target,
  )
  const { owner, chosenBy, observer } = order
  const refresh: Refresh = { owner, chosenBy, observer, taken: false }
  refreshes.set(req, refresh)
  req[MARK] = 'refresh'
  res.once('close', () => {
    if (!refresh.taken)
      fail(observer, res.statusCode < 400 ? 500 : res.statusCode, answeredBefore(res))
  })
  // The current context may be that of another request, which began the flight.
  order.context.runInAsyncScope(async () => {
    try {
      await order.dispatch(req, res)
    } catch (error) {
      fail(observer, 500, error)
    }
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
