// Running a request through the whole app once more, behind an answer that was already given. The new
// request carries a mark that says which cache sent it; only that cache acts on it, once.

import { AsyncLocalStorage } from 'node:async_hooks'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { OriginEnd, OriginObserver } from '@stampede/core'
import { createDetachedPair } from './detached-exchange.ts'

/** Sends a request into the app: a root Express app, `app.callback()` of Koa, a request listener. */
export type Dispatch = (req: IncomingMessage, res: ServerResponse) => unknown

export interface Revalidation {
  readonly observer: OriginObserver
  settle(end: OriginEnd): void
}

interface Mark extends Revalidation {
  /** The cache that waits for it. */
  readonly owner: object
  taken: boolean
}

const marks = new WeakMap<IncomingMessage, Mark>()

/** A refresh must not run in the context (transaction, logger, user) of a request that is over. */
const outsideRequests = AsyncLocalStorage.snapshot()

/** Whether this request is a refresh by stampedeCache and has no client. For loggers and counters. */
export function isRevalidation(req: IncomingMessage): boolean {
  return marks.has(req)
}

/** The refresh this cache ordered; `foreign`: another one did, let it pass; else an ordinary request. */
export function takeRevalidation(
  req: IncomingMessage,
  owner: object,
): Revalidation | 'foreign' | undefined {
  const mark = marks.get(req)
  if (mark === undefined) return undefined
  if (mark.owner !== owner || mark.taken) return 'foreign'
  mark.taken = true
  return mark
}

/** Ends when the marked request has been observed by its owner, or was answered before it got there. */
export function redispatch(order: {
  readonly from: IncomingMessage
  readonly target: string
  readonly owner: object
  readonly observer: OriginObserver
  readonly dispatch: Dispatch
}): Promise<OriginEnd> {
  const { req, res } = createDetachedPair(order.from, order.target)
  return new Promise((settle) => {
    const fail = (error: unknown): void => settle({ type: 'failed', status: res.statusCode, error })
    const mark: Mark = { owner: order.owner, observer: order.observer, settle, taken: false }
    marks.set(req, mark)
    res.once('close', () => {
      if (!mark.taken) fail(new Error(`the refresh was answered before it came to its cache`))
    })
    outsideRequests(async () => {
      try {
        await order.dispatch(req, res)
      } catch (error) {
        fail(error)
      }
    })
  })
}
