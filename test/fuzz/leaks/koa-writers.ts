// Writers that send a response through a Koa context, one for each way that Koa has.

import { Readable } from 'node:stream'
import type { Context } from 'koa'
import type { Answer } from './answer-spec.ts'
import { groupedFields } from './ways.ts'

export function writeOnKoa(ctx: Context, answer: Answer): void {
  const { way, status, text, reason, fields } = answer
  if (answer.throws) throw Object.assign(new Error(text), { status })
  if (way === 'throw' && status >= 400) {
    ctx.throw(status, text, { expose: true, headers: Object.fromEntries(groupedFields(fields)) })
  }
  if (way === 'raw') {
    writeRaw(ctx, answer)
    return
  }
  ctx.status = status
  if (reason !== undefined) ctx.message = reason
  ctx.body = bodyOf(way, text)
  for (const [name, value] of groupedFields(fields)) ctx.set(name, value)
}

/** Written past Koa. Such a response is never shared. */
function writeRaw(ctx: Context, { status, reason, fields, text }: Answer): void {
  ctx.respond = false
  const { res } = ctx
  res.statusCode = status
  if (reason !== undefined) res.statusMessage = reason
  for (const [name, value] of groupedFields(fields)) res.setHeader(name, value)
  res.end(text)
}

function bodyOf(way: string, text: string): unknown {
  switch (way) {
    case 'buffer':
      return Buffer.from(text)
    case 'object':
      return { text }
    case 'stream':
      return Readable.from([Buffer.from(text)])
    case 'web-stream':
      return Readable.toWeb(Readable.from([Buffer.from(text)]))
    case 'blob':
      return new Blob([text], { type: 'text/plain' })
    default:
      return text
  }
}
