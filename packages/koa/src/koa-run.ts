// One run of the app on a context of its own: what it wrote, captured and judged, or its failure.

import { type OriginEnd, type OriginObserver, OWN_FIELDS } from '@stampede/core/adapter'
import {
  addAtHead,
  enterOrigin,
  fieldsOf,
  guardNotModified,
  headSent,
  hideConditionals,
  setsCookie,
} from '@stampede/node-http/adapter'
import type { Context, Next } from 'koa'
import type { Answer } from './answer.ts'
import { DECLINED, INCOMPLETE } from './koa-body.ts'
import { captureContext } from './koa-capture.ts'
import { failure, judgeFailure } from './koa-failure.ts'
import { replaceWith } from './koa-reply.ts'

/** One call of the middleware. */
export interface KoaCall {
  readonly ctx: Context
  readonly next: Next
  /** Whether a layer in front sees ctx.body: see isSeen(). */
  readonly seen: boolean
}

export async function runApp(
  { ctx, next, seen }: KoaCall,
  observer: OriginObserver,
  answer: Answer,
): Promise<OriginEnd> {
  const outer = fieldsOf(ctx.res.getHeaders())
  // Also off what the app writes itself, and we never see.
  addAtHead(ctx.res, [], OWN_FIELDS)
  const showConditionals = hideConditionals(ctx.req, observer.conditions)
  const guard = observer.conditions && guardNotModified(ctx.res, observer, [ctx, ctx.response])
  let isLeft = false
  enterOrigin(ctx.req, (inner) => {
    const add = observer.onInner?.(inner)
    if (add === undefined) return undefined
    isLeft = true
    guard?.stop()
    showConditionals?.()
    addAtHead(ctx.res, add)
    return add
  })
  try {
    await next()
  } catch (error) {
    const failed = failure(ctx, error)
    if (!isLeft && judgeFailure(ctx, failed, outer, observer, seen)) answer.given()
    else answer.threw(error)
    return failed
  } finally {
    showConditionals?.()
    if (ctx.respond !== false) guard?.stop()
  }
  if (isLeft) {
    answer.given()
    return DECLINED
  }
  try {
    const capture = captureContext(ctx, observer, outer, seen)
    if (capture.type === 'ends') return unlessPersonal(ctx, capture.end)
    const end = await capture.end
    replaceWith(ctx, capture.reply, outer, seen)
    return unlessPersonal(ctx, end)
  } catch (error) {
    // Our own mistake, or a body that throws when it is read: what the app answered stands.
    return { type: 'failed', status: 500, error }
  } finally {
    // Before the end of the capture: a stream ends only after Koa has begun to read it.
    answer.given()
  }
}

/**
 * Waits for the head: a response is complete only if its head left without a cookie. A session in front
 * sets one after this middleware has returned, when Koa writes the head.
 */
async function unlessPersonal(
  { res }: Context,
  ending: Promise<OriginEnd> | OriginEnd,
): Promise<OriginEnd> {
  if (!(ending instanceof Promise) && !isWhole(ending)) return ending
  const sent = headSent(res)
  // Waiters cannot use a personal response: they are released before its stream ends.
  const first = ending instanceof Promise ? await Promise.race([ending, sent]) : undefined
  if (typeof first === 'object' && !isWhole(first)) return first
  const how = await sent
  if (how === 'sent' && setsCookie(res)) return DECLINED
  const end = await ending
  if (!isWhole(end)) return end
  return how === 'gone' ? INCOMPLETE : end
}

function isWhole({ type }: OriginEnd): boolean {
  return type === 'complete' || type === 'replaced'
}
