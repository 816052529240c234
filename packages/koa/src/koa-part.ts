// Replies with a part (206) of the body in ctx, for the client whose request runs the handler.

import type { PartOfBody } from '@stampede/core/adapter'
import { applyFields, type BodyCut, cutStream } from '@stampede/node-http/adapter'
import type { Context } from 'koa'
import { onErrorOf, type SendableBody } from './koa-body.ts'

/**
 * Replaces the body with a part of the body. `cut` is set for a stream that is not captured. The
 * capture cuts a stream itself.
 */
export function sendPart(
  ctx: Context,
  body: SendableBody,
  { status, start, end, fields }: PartOfBody,
  cut: BodyCut | undefined,
): void {
  const type = body.kind === 'bytes' && body.type ? body.type : ctx.res.getHeader('Content-Type')
  ctx.status = status
  if (body.kind === 'bytes') ctx.body = Buffer.from(body.bytes.subarray(start, end))
  else if (body.kind === 'blob') ctx.body = body.blob.slice(start, end)
  else if (cut !== undefined) ctx.body = cutStream(body.source, cut, onErrorOf(ctx))
  // Koa guesses a Content-Type for the new body, so the type of the full body is restored.
  if (type === undefined) ctx.res.removeHeader('Content-Type')
  else ctx.res.setHeader('Content-Type', type)
  applyFields(ctx.res, fields)
}
