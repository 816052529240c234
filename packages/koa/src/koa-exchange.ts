// The Exchange port over a Koa context. Koa writes the response only after all middlewares returned, so
// ours must return as soon as ctx says what the answer is, while core may still be at work behind it.

import { AsyncResource } from 'node:async_hooks'
import {
  type Exchange,
  type HeaderList,
  type HeadWatch,
  type OnInner,
  type OriginEnd,
  type OriginObserver,
  OWN_FIELDS,
  type RequestView,
} from '@stampede/core/adapter'
import {
  addAtHead,
  canBreakOff,
  type Dispatch,
  enterOrigin,
  fieldsOf,
  guardNotModified,
  hasLeft,
  hideConditionals,
  redispatch,
  rememberPeer,
  watchHead,
  watchLeft,
  watchReads,
  withNatives,
} from '@stampede/node-http/adapter'
import type { Context, Next } from 'koa'
import { type Answer, createAnswer } from './answer.ts'
import { captureContext } from './koa-capture.ts'
import { failure, judgeFailure } from './koa-failure.ts'
import { unlessPersonal } from './koa-personal.ts'
import { replaceWith, replyAtOnce, replyLive, replyWith } from './koa-reply.ts'

/** One call of the middleware. */
export interface KoaCall {
  readonly ctx: Context
  readonly next: Next
  readonly request: RequestView
  /** Whether a layer in front sees ctx.body: see isSeen(). */
  readonly seen: boolean
  /** Sends a refresh into the whole app. */
  readonly dispatch: Dispatch
}

export interface KoaVisit {
  readonly exchange: Exchange<Context>
  /** ctx holds the answer. Rejects with what the app threw. */
  readonly answered: Promise<void>
  /** Core is done, or failed: nothing more will come for a request that was not even begun. */
  close(error?: unknown): void
}

type Bypass = (add: HeaderList, onHead?: HeadWatch, onInner?: OnInner) => Promise<void>

export function createKoaExchange(call: KoaCall, owner: object): KoaVisit {
  const { ctx, next, request, seen, dispatch } = call
  const answer = createAnswer()
  let isGone = () => hasLeft(ctx.res)
  rememberPeer(ctx.req)
  const context = new AsyncResource('StampedeRefresh')
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
  /** Runs the handler if the reply could not be sent. */
  const answered = (isSent: boolean): void => {
    if (isSent) answer.given()
    else bypass([]).catch(() => {})
  }
  const refresh = { from: ctx.req, owner, dispatch, context }
  const exchange: Exchange<Context> = {
    request,
    native: ctx,
    isGone: () => isGone(),
    bypass,
    runOrigin(observer) {
      answer.begun = true
      isGone = watchLeft(ctx.res)
      return runOrigin(call, withNatives(observer, [ctx, ctx.response]), answer)
    },
    send(reply) {
      answer.begun = true
      answered(replyWith(ctx, reply, seen))
    },
    sendReady(ready) {
      answer.begun = true
      answered(replyAtOnce(ctx, ready, seen))
    },
    watchReads: () => watchReads(ctx.req, ctx.request),
    sendLive: canBreakOff(ctx.req)
      ? (reply) => {
          answer.begun = true
          answered(replyLive(ctx, reply, seen))
        }
      : undefined,
    redispatch: (observer) => redispatch({ ...refresh, target: ctx.originalUrl, observer }),
  }
  const close = (error?: unknown): void => {
    if (error !== undefined) answer.threw(error)
    else if (!answer.begun) answer.given()
  }
  return { exchange, answered: answer.promise, close }
}

async function runOrigin(
  { ctx, next, seen }: KoaCall,
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
    if (!isLeft && judgeFailure(ctx, failed, outer, observer, seen)) answer.given()
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
