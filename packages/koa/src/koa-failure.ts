// Errors of the app: the status with which Koa will respond, and a stale reply in its place.

import { STATUS_CODES } from 'node:http'
import type { OriginEnd, OriginObserver } from '@stampede/core/adapter'
import { addAtHead, type OuterFields } from '@stampede/node-http/adapter'
import type { Context } from 'koa'
import { isKoa3 } from './koa-body.ts'
import { replaceWith } from './koa-reply.ts'

export type Failure = OriginEnd & { readonly type: 'failed' }

/** The failed end of a run, with the status that ctx.onerror will give to this error. */
export function failure(ctx: Context, error: unknown): Failure {
  const fields: { status?: unknown; statusCode?: unknown; code?: unknown } = Object(error)
  const status =
    fields.code === 'ENOENT' && !isKoa3(ctx) ? 404 : Number(fields.status || fields.statusCode)
  return { type: 'failed', status: STATUS_CODES[status] === undefined ? 500 : status, error }
}

/**
 * Returns true if core sends a reply in place of the error. The 'error' listeners of the app are
 * called in both cases.
 */
export function judgeFailure(
  ctx: Context,
  { status, error }: Failure,
  outer: OuterFields,
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
  const hasListener = error instanceof Error && ctx.app.listenerCount('error') > 0
  if (hasListener) ctx.app.emit('error', error, ctx)
  return true
}
