// Sends a complete reply of core on a ServerResponse. Its fields may come from a store that other
// programs can write to, so they are checked before the response is touched.

import { type ServerResponse, validateHeaderName, validateHeaderValue } from 'node:http'
import { type HeaderList, OWN_FIELDS, type Reply } from '@stampede/core/adapter'
import { isHttp2 } from '../request/read-request.ts'
import { hasBody } from './body.ts'
import {
  clearReason,
  editFields,
  forbidTransform,
  type OuterFields,
  restoreFields,
  withStatus,
} from './fields.ts'
import { chunkFor, isWrapped, nodesWriteHead } from './original-methods.ts'

/** The methods to send with. A capture passes the original ones. */
export type SendMethods = Pick<ServerResponse, 'writeHead' | 'end'>

const FRAMING = new Set(['content-length', 'transfer-encoding', 'connection', 'keep-alive'])

/**
 * Sends the reply. If it has an invalid field or status, returns false without a change to the
 * response, so that the handler can run. True if another response was sent before.
 */
export function writeReply(res: ServerResponse, reply: Reply, methods: SendMethods = res): boolean {
  if (res.headersSent || res.writableEnded) return true
  if (reply.fields === undefined && !isSendable(reply)) return false
  // A layer that wraps `end` may set fields there, as for a response of the handler that begins
  // with end(). So it must run before the head is written.
  const headInEnd = isWrapped(res, methods.end)
  // On HTTP/2, writeHead is another method.
  const takesList = methods.writeHead === nodesWriteHead && !headInEnd
  // Few accesses to the response: frameworks change its prototype, so that each access is slow.
  if (!takesList || res.statusMessage) clearReason(res)
  const { fields = takesList ? framedHeaders(reply, res.req.method).flat() : [] } = reply
  const isPassed = takesList && !reply.part && isSetOnce(res, fields, true)
  if (!isPassed) setReply(res, reply)
  if (headInEnd) res.statusCode = reply.status
  else Reflect.apply(methods.writeHead, res, isPassed ? [reply.status, fields] : [reply.status])
  const mayHaveBody = reply.fields !== undefined || hasBody(reply.status, res.req.method)
  const args = reply.body && mayHaveBody ? [chunkFor(res, methods.end, reply.body)] : []
  if (headInEnd && methods !== res) endWithHead(res, methods, args)
  else Reflect.apply(methods.end, res, args)
  return true
}

/** Calls `end` so that it writes the head past inner layers, which saw that of the handler. */
function endWithHead(res: ServerResponse, methods: SendMethods, args: readonly unknown[]): void {
  const { writeHead } = res
  res.writeHead = methods.writeHead
  try {
    Reflect.apply(methods.end, res, args)
  } finally {
    res.writeHead = writeHead
  }
}

/** Fields that are merged with those of outer layers, or that clients must not get. */
const MERGED: ReadonlySet<string> = new Set(['cache-status', 'vary', ...OWN_FIELDS])
const isMerged = (name: string): boolean => MERGED.has(name)

/**
 * Whether `fields` need not be merged with fields of outer layers, and no name occurs twice. Node
 * takes repeated names only if there are no other fields, and only `inHead`, passed to writeHead.
 */
function isSetOnce(res: ServerResponse, fields: readonly string[], inHead: boolean): boolean {
  const outer = res.getHeaderNames()
  if (inHead && outer.length === 0) return true
  if (outer.some(isMerged)) return false
  for (let i = 2; i < fields.length; i += 2) {
    for (let j = 0; j < i; j += 2) if (fields[i] === fields[j]) return false
  }
  return true
}

/** Whether Node would accept status and fields. */
export function isSendable(reply: Reply): boolean {
  if (!Number.isInteger(reply.status) || reply.status < 200 || reply.status > 599) return false
  try {
    for (const [name, value] of reply.headers) {
      validateHeaderName(name)
      validateHeaderValue(name, value)
    }
    return true
  } catch {
    return false
  }
}

/** The reply's fields, with the framing fields that fit its body. */
function framedHeaders(reply: Reply, method: string | undefined): HeaderList {
  const fields = reply.headers.filter(([name]) => !FRAMING.has(name))
  if (reply.status === 204 || reply.status === 304) return fields
  const declared = reply.headers.find(([name]) => name === 'content-length')
  if (reply.body === undefined && method === 'HEAD')
    return declared ? [...fields, declared] : fields
  return [...fields, ['content-length', String(reply.body?.byteLength ?? 0)]]
}

/** Sets the fields of the reply on the response, merged with those of outer layers. */
export function setReply(res: ServerResponse, reply: Reply): void {
  const { fields } = reply
  if (fields !== undefined && isSetOnce(res, fields, false)) {
    for (let i = 0; i < fields.length; i += 2)
      res.setHeader(fields[i] as string, fields[i + 1] as string)
    return
  }
  editFields(res, framedHeaders(reply, res.req.method), OWN_FIELDS)
  if (reply.part) forbidTransform(res)
}

/**
 * Replaces the fields of the handler by those of a 304 or 416, and returns the arguments for
 * writeHead.
 */
export function headInstead(
  res: ServerResponse,
  reply: Reply,
  outer: OuterFields,
): readonly unknown[] {
  restoreFields(res, outer.list)
  setReply(res, reply)
  return withStatus(res, reply.status)
}

/**
 * Ends a response before its body is complete, so that its client does not take the body for
 * complete. On HTTP/2, `destroy()` without an error would end the stream normally.
 */
export function breakOff(res: ServerResponse): void {
  res.destroy(isHttp2(res) ? new Error('the response was broken off') : undefined)
}
