// The Exchange port over a Koa context. Koa writes the response only after all middlewares returned, so
// ours must return as soon as ctx says what the answer is, while core may still be at work behind it.

import {
  type Exchange,
  type HeaderList,
  type HeadWatch,
  type OnInner,
  type OriginEnd,
  type OriginObserver,
  OWN_FIELDS,
  type RequestView,
} from '@stampede/core'
import {
  addAtHead,
  canBreakOff,
  type Dispatch,
  enterOrigin,
  fieldsOf,
  guardNotModified,
  hasLeft,
  headSent,
  hideConditionals,
  redispatch,
  rememberPeer,
  setsCookie,
  watchHead,
  watchReads,
  withNatives,
} from '@stampede/node-http'
import type { Context, Next } from 'koa'
import { type Answer, createAnswer } from './answer.ts'
import { captureContext } from './koa-capture.ts'
import { failure, judgeFailure } from './koa-failure.ts'
import { replaceWith, replyAtOnce, replyLive, replyWith } from './koa-reply.ts'

export interface KoaVisit {
  readonly exchange: Exchange<Context>
  /** ctx holds the answer. Rejects with what the app threw. */
  readonly answered: Promise<void>
  /** Core is done, or failed: nothing more will come for a request that was not even begun. */
  close(error?: unknown): void
}

type Bypass = (add: HeaderList, onHead?: HeadWatch, onInner?: OnInner) => Promise<void>

export function createKoaExchange(
  ctx: Context,
  next: Next,
  request: RequestView,
  owner: object,
  dispatch: Dispatch,
): KoaVisit {
  const answer = createAnswer()
  rememberPeer(ctx.req)
  const bypass: Bypass = (add, onHead, onInner) => {
    answer.begun = true
    if (onInner !== undefined) enterOrigin(ctx.req, onInner)
    addAtHead(ctx.res, add, OWN_FIELDS)
    const stands = onHead && watchHead(ctx.res, (head) => onHead(head, [ctx, ctx.response]))
    const passed: Promise<void> = next()
    // To a client that is gone Koa does not even try to answer.
    passed.then(() => ctx.writable || stands?.()).catch(() => {})
    passed.then(answer.given, answer.threw)
    return passed
  }
  const exchange: Exchange<Context> = {
    request,
    native: ctx,
    isGone: () => hasLeft(ctx.res),
    bypass,
    runOrigin(observer) {
      answer.begun = true
      return runOrigin(ctx, next, withNatives(observer, [ctx, ctx.response]), answer)
    },
    send(reply) {
      answer.begun = true
      if (replyWith(ctx, reply)) answer.given()
      else bypass([]).catch(() => {})
    },
    sendReady(ready) {
      answer.begun = true
      if (replyAtOnce(ctx, ready)) answer.given()
      else bypass([]).catch(() => {})
    },
    watchReads: () => watchReads(ctx.req, ctx.request),
    sendLive: canBreakOff(ctx.req)
      ? (reply) => {
          answer.begun = true
          if (replyLive(ctx, reply)) answer.given()
          else bypass([]).catch(() => {})
        }
      : undefined,
    redispatch: (observer) =>
      redispatch({ from: ctx.req, target: ctx.originalUrl, owner, observer, dispatch }),
  }
  const close = (error?: unknown): void => {
    if (error !== undefined) answer.threw(error)
    else if (!answer.begun) answer.given()
  }
  return { exchange, answered: answer.promise, close }
}

async function runOrigin(
  ctx: Context,
  next: Next,
  observer: OriginObserver,
  answer: Answer,
): Promise<OriginEnd> {
  const outer = fieldsOf(ctx.res.getHeaders())
  // Also off what the app writes itself, and we never see.
  addAtHead(ctx.res, [], OWN_FIELDS)
  const showConditionals = hideConditionals(ctx.req, observer.conditions)
  const guard = observer.conditions && guardNotModified(ctx.res, observer)
  let isLeft = false
  enterOrigin(ctx.req, (inner) => {
    const add = observer.onInner?.(inner)
    if (add === undefined) return undefined
    isLeft = true
    guard?.stop()
    showConditionals()
    addAtHead(ctx.res, add)
    return add
  })
  try {
    await next()
  } catch (error) {
    const failed = failure(ctx, error)
    if (!isLeft && judgeFailure(ctx, failed, outer, observer)) answer.given()
    else answer.threw(error)
    return failed
  } finally {
    showConditionals()
    if (ctx.respond !== false) guard?.stop()
  }
  if (isLeft) {
    answer.given()
    return { type: 'not-captured', reason: 'declined' }
  }
  try {
    const capture = captureContext(ctx, observer, outer)
    if (capture.type === 'ends') return unlessPersonal(ctx, capture.end)
    const end = await capture.end
    replaceWith(ctx, capture.reply, outer)
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
 * Layers outside us act after this one: a session sets its cookie there, and then the answer is one client's. So nothing
 * is complete before the head has left without one.
 */
async function unlessPersonal(
  ctx: Context,
  ending: Promise<OriginEnd> | OriginEnd,
): Promise<OriginEnd> {
  const sent = headSent(ctx.res)
  const declined: OriginEnd = { type: 'not-captured', reason: 'declined' }
  const isPersonal = sent.then((how) => how === 'sent' && setsCookie(ctx.res))
  // Those who wait need not wait for the end of a stream that is not for them.
  const end = await Promise.race([ending, isPersonal.then((is) => (is ? declined : ending))])
  if (end.type === 'not-captured' || end.type === 'failed') return end
  if ((await sent) === 'gone') return { type: 'not-captured', reason: 'incomplete' }
  return (await isPersonal) ? declined : end
}
