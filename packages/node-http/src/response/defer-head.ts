// Delays a head that a framework writes directly before a whole body, until the body is written.

import type { ServerResponse } from 'node:http'

/**
 * Makes `writeHead(status, fields)` set the status and the fields, so that Node writes the head
 * with the first bytes. Then a capture has the whole body when it judges the head, and an ETag that
 * the cache adds depends on the body alone. Call this after the capture began. Other forms of
 * writeHead, and the head that Node writes, are not changed.
 */
export function deferHead(res: ServerResponse): void {
  const { writeHead } = res
  const deferred = (...args: readonly unknown[]): unknown => {
    const [status, fields, ...rest] = args
    const isPlain = typeof fields === 'object' && fields !== null && !Array.isArray(fields)
    if (!isPlain || rest.length > 0 || res.headersSent) return Reflect.apply(writeHead, res, args)
    res.statusCode = Number(status)
    for (const [name, value] of Object.entries(fields)) {
      if (value !== undefined) res.setHeader(name, value)
    }
    return res
  }
  Object.assign(res, { writeHead: deferred })
}
