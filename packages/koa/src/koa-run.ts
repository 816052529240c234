// One run of the app in Koa for a fill. Its response is captured, or its error reported.

import { type OriginEnd, type OriginObserver, OWN_FIELDS } from '@stampede/core/adapter'
import {
  addAtHead,
  endsInTime,
  enterOrigin,
  guardNotModified,
  headSent,
  hideConditionals,
  OuterFields,
  setsCookie,
} from '@stampede/node-http/adapter'
import type { Context, Next } from 'koa'
import { DECLINED, INCOMPLETE } from './koa-body.ts'
import { captureContext } from './koa-capture.ts'
import { failure, judgeFailure } from './koa-failure.ts'
import { replaceWith } from './koa-reply.ts'
import type { ReturnPromise } from './return-promise.ts'

/** One call of the middleware. */
export interface KoaCall {
  readonly ctx: Context
  readonly next: Next
  /** Whether a layer in front can read ctx.body: see isSeen(). */
  readonly bodyIsSeen: boolean
}

export async function runApp(
  { ctx, next, bodyIsSeen: seen }: KoaCall,
  observer: OriginObserver,
  answer: ReturnPromise,
): Promise<OriginEnd> {
  const outer = new OuterFields(ctx.res)
  // Removes the fields for this cache, even from a response that the app writes to `res` by itself.
  addAtHead(ctx.res, [], OWN_FIELDS)
  const showConditionals = hideConditionals(ctx.req, observer.conditions)
  const guard = observer.conditions && guardNotModified(ctx.res, observer, [ctx, ctx.response])
  let isLeftToInner = false
  enterOrigin(ctx.req, (inner) => {
    const add = observer.onInner?.(inner)
    if (add === undefined) return undefined
    isLeftToInner = true
    guard?.stop()
    showConditionals?.()
    addAtHead(ctx.res, add)
    return add
  })
  try {
    // Otherwise a handler that never returns, and whose client has left, would never end this run.
    if (!(await endsInTime(ctx.res, next()))) {
      answer.resolve()
      return INCOMPLETE
    }
  } catch (error) {
    const failed = failure(ctx, error)
    if (!isLeftToInner && judgeFailure(ctx, failed, outer, observer, seen)) answer.resolve()
    else answer.reject(error)
    return failed
  } finally {
    showConditionals?.()
    if (ctx.respond !== false) guard?.stop()
  }
  if (isLeftToInner) {
    answer.resolve()
    return DECLINED
  }
  try {
    const capture = captureContext(ctx, observer, outer, seen)
    if (capture.type === 'kept') return unlessPersonal(ctx, capture.end)
    const end = await capture.end
    replaceWith(ctx, capture.reply, outer, seen)
    return unlessPersonal(ctx, end)
  } catch (error) {
    // The capture failed, for example because a body throws when it is read. The client gets the
    // response of the app.
    return { type: 'failed', status: 500, error }
  } finally {
    // Koa must go on before the capture ends, because Koa reads the stream whose end the capture
    // awaits.
    answer.resolve()
  }
}

/**
 * Waits until the head is sent. The run is complete only if its head has no cookie. Session
 * middlewares in front set a cookie when Koa writes the head, after the cache has returned.
 */
async function unlessPersonal(
  { res }: Context,
  ending: Promise<OriginEnd> | OriginEnd,
): Promise<OriginEnd> {
  if (!(ending instanceof Promise) && !isComplete(ending)) return ending
  const sent = headSent(res)
  // If the head has a cookie, the run ends now, so that waiters need not wait for the body.
  const first = ending instanceof Promise ? await Promise.race([ending, sent]) : undefined
  if (typeof first === 'object' && !isComplete(first)) return first
  const how = await sent
  if (how === 'sent' && setsCookie(res)) return DECLINED
  const end = await ending
  if (!isComplete(end)) return end
  return how === 'gone' ? INCOMPLETE : end
}

function isComplete({ type }: OriginEnd): boolean {
  return type === 'complete' || type === 'replaced'
}
