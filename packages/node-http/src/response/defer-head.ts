// Delays the head that Fastify writes directly before a whole body, until the body is written.

import type { ServerResponse } from 'node:http'
import { OuterFields } from './outer-fields.ts'

/**
 * Makes the writeHead of Fastify set the status and the fields, so that Node writes the head with
 * the first bytes. Then a capture has the whole body when it judges the head, and an ETag that the
 * cache adds depends on the body alone. Fastify passes the fields that its reply has as a private
 * property. A head that the app writes itself counts as sent at once. Call this after the capture
 * began.
 */
export function deferHead(reply: { readonly raw: ServerResponse }): void {
  const { raw: res } = reply
  const { writeHead } = res
  const isOfReply = (fields: unknown): fields is object =>
    fields instanceof Object &&
    Object.getOwnPropertySymbols(reply).some((key) => Reflect.get(reply, key) === fields)
  const deferred = (...args: readonly unknown[]): unknown => {
    const [status, fields] = args
    const isCopied = isOfReply(fields)
    const outer = OuterFields.of(res)
    // Fields that the app passes are its own, also if a layer in front has set them on the reply.
    if (outer !== undefined && !isCopied) outer.copied = new Set()
    if (!isCopied || res.headersSent) return Reflect.apply(writeHead, res, args)
    res.statusCode = Number(status)
    for (const [name, value] of Object.entries(fields)) {
      if (value !== undefined) res.setHeader(name, value)
    }
    return res
  }
  Object.assign(res, { writeHead: deferred })
}
