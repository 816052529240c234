// Sends a reply as handlers of Express and Koa usually do.
import { Readable } from 'node:stream'
import type { Response } from 'express'
import type { Context } from 'koa'
import type { Reply } from '../peer.ts'

export function sendOnExpress(res: Response, { status = 200, headers = {}, body }: Reply): void {
  res.status(status).set({ ...headers })
  if (body instanceof Readable) body.pipe(res)
  else if (typeof body === 'string' || Buffer.isBuffer(body)) res.send(body)
  else res.json(body)
}

export function sendOnKoa(ctx: Context, { status = 200, headers = {}, body }: Reply): void {
  ctx.status = status
  ctx.set({ ...headers })
  ctx.body = body
}
