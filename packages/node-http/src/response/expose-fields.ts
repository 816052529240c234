// Fields that a framework keeps in an object of its own, such as the reply of Fastify.

import type { ServerResponse } from 'node:http'
import { deferHead } from './defer-head.ts'
import { OuterFields } from './outer-fields.ts'
import { watchCalls } from './watch-calls.ts'

type Fields = Readonly<Record<string, number | string | string[] | undefined>>

/**
 * Sets the fields on the raw response, where a reply of the cache keeps them. Fields that the raw
 * response already has stay as they are. The returned function removes the added fields again,
 * because a handler may still change them in the framework's object.
 */
export function exposeFields(res: ServerResponse, fields: Fields): () => void {
  const added = Object.entries(fields).filter(([name]) => !res.hasHeader(name))
  for (const [name, value] of added) if (value !== undefined) res.setHeader(name, value)
  return () => {
    for (const [name] of added) res.removeHeader(name)
  }
}

/** The part of a reply of Fastify that has its fields. */
export interface ReplyFields {
  readonly raw: ServerResponse
  getHeaders(): Fields
}

/** Prepares a reply of Fastify for a capture. Call this when the handler is about to run. */
export function watchReply(reply: ReplyFields): void {
  noteReplyFields(reply)
  deferHead(reply)
}

/**
 * Notes the fields that the handler sets on the reply. Fastify copies all fields of the reply to
 * the raw response, so the raw response does not tell who set them.
 */
function noteReplyFields(reply: ReplyFields): void {
  const outer = OuterFields.of(reply.raw)
  if (outer === undefined) return
  const names = Object.keys(reply.getHeaders())
  outer.copied = new Set(names.filter((name) => !reply.raw.hasHeader(name)))
  watchCalls(reply, 'header', (name) => outer.setBy(String(name)))
  watchCalls(reply, 'type', () => outer.setBy('content-type'))
}
