// A part of a body (206), for the client whose request runs the handler.

import type { PartOfBody } from '@stampede/core/adapter'
import { applyFields, type BodyCut, cutStream } from '@stampede/node-http/adapter'
import type { Context } from 'koa'
import { type KoaBody, onErrorOf, replaceBody } from './body.ts'

/**
 * Replaces the body with a part of the body (206), for the client whose request runs the handler.
 * `cut` is set for a stream that is not captured. The capture cuts a stream itself.
 */
export function sendPart(
  ctx: Context,
  { bytes, source, type }: KoaBody,
  { status, start, end, fields }: PartOfBody,
  cut: BodyCut | undefined,
): void {
  ctx.status = status
  if (bytes !== undefined) {
    if (type !== undefined) ctx.res.setHeader('Content-Type', type)
    replaceBody(ctx, Buffer.from(bytes.subarray(start, end)))
  } else if (cut !== undefined && source !== undefined)
    replaceBody(ctx, cutStream(source, cut, onErrorOf(ctx)))
  applyFields(ctx.res, fields)
}
