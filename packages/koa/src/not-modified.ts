// Responses that the app itself writes to `res`, past Koa.

import type { OriginObserver } from '@stampede/core/adapter'
import { Capture } from '@stampede/node-http/adapter'
import type { Context } from 'koa'

/**
 * If the app itself writes to `res`, the response goes to its client unchanged. Only a 304 goes to
 * core first, because the cache may have set the conditions to which it replies.
 */
export function guardNotModified(ctx: Context, observer: OriginObserver): Capture {
  return new Capture(ctx.res, {
    maxBodyBytes: observer.maxBodyBytes,
    onHead: (head, whole) =>
      head.status === 304
        ? observer.onHead(head, whole, [ctx, ctx.response])
        : { action: 'send', capture: false, add: [], remove: [] },
  })
}
