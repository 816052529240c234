// Prepares a reply of Fastify, which keeps its fields until it writes the head, for a capture.

import type { ServerResponse } from 'node:http'
import { OuterFields } from './fields.ts'
import { watchCalls } from './original-methods.ts'

/** The part of a reply of Fastify that has its fields. */
export interface ReplyFields {
  readonly raw: ServerResponse
  getHeaders(): Readonly<Record<string, number | string | string[] | undefined>>
}

/**
 * Sets the fields of a reply of Fastify on the raw response, where a response of the cache keeps
 * them. Fields that the raw response already has stay as they are.
 *
 * Call the returned function after the capture began, when the handler is about to run. It removes
 * the added fields again, because a handler may still change them in the reply.
 */
export function exposeReply(reply: ReplyFields): () => void {
  const { raw } = reply
  const added = Object.entries(reply.getHeaders()).filter(([name]) => !raw.hasHeader(name))
  for (const [name, value] of added) if (value !== undefined) raw.setHeader(name, value)
  return () => {
    for (const [name] of added) raw.removeHeader(name)
    watchReply(reply)
  }
}

/**
 * Prepares a reply of Fastify for a capture. Fastify copies all fields of the reply to the raw
 * response, so the raw response does not tell who set them: the reply does.
 */
function watchReply(reply: ReplyFields): void {
  const outer = OuterFields.of(reply.raw)
  if (outer !== undefined) {
    const names = Object.keys(reply.getHeaders())
    outer.copied = new Set(names.filter((name) => !reply.raw.hasHeader(name)))
    watchCalls(reply, 'header', (name) => outer.setBy(String(name)))
    watchCalls(reply, 'type', () => outer.setBy('content-type'))
  }
  deferHead(reply)
}

/**
 * Makes the writeHead that Fastify calls before a whole body set the status and the fields, so that
 * Node writes the head with the first bytes. Then a capture has the whole body when it judges the
 * head, and an ETag that the cache adds depends on the body alone. Fastify passes the fields that
 * its reply has as a private property. A head that the app writes itself counts as sent at once.
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
    if (outer !== undefined && !isCopied) outer.copied = undefined
    if (!isCopied || res.headersSent) return Reflect.apply(writeHead, res, args)
    res.statusCode = Number(status)
    for (const [name, value] of Object.entries(fields)) {
      if (value !== undefined) res.setHeader(name, value)
    }
    return res
  }
  Object.assign(res, { writeHead: deferred })
}
