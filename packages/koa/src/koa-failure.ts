// What the app threw: the status that Koa will answer with, and whether core has something better.

import { STATUS_CODES } from 'node:http'
import type { HeaderList, OriginEnd, OriginObserver } from '@stampede/core/adapter'
import { addAtHead } from '@stampede/node-http/adapter'
import type { Context } from 'koa'
import { isKoa3 } from './koa-body.ts'
import { replaceWith } from './koa-reply.ts'

export type Failure = OriginEnd & { readonly type: 'failed' }

/** The status that ctx.onerror will give this error. */
export function failure(ctx: Context, error: unknown): Failure {
  const said: { status?: unknown; statusCode?: unknown; code?: unknown } = Object(error)
  const status =
    said.code === 'ENOENT' && !isKoa3(ctx) ? 404 : Number(said.status || said.statusCode)
  return { type: 'failed', status: STATUS_CODES[status] === undefined ? 500 : status, error }
}

/** True if core answers in place of the error, which the app's own 'error' listeners still hear of. */
export function judgeFailure(
  ctx: Context,
  { status, error }: Failure,
  outer: HeaderList,
  observer: OriginObserver,
  seen: boolean,
): boolean {
  if (ctx.headerSent || ctx.respond === false) return false
  const decision = observer.onHead({ status, headers: [] }, undefined, [ctx, ctx.response])
  if (decision.action === 'send') {
    addAtHead(ctx.res, decision.add)
    return false
  }
  if (!replaceWith(ctx, decision.reply, outer, seen)) return false
  const isHeard = error instanceof Error && ctx.app.listenerCount('error') > 0
  if (isHeard) ctx.app.emit('error', error, ctx)
  return true
}
