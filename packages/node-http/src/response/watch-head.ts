// Observes the status and the headers that the app sends, for every way to write a head.

import type { ServerResponse } from 'node:http'
import type { CapturedHead } from '@stampede/core/adapter'
import { readWriteHead } from './write-head.ts'

/**
 * Calls `onHead` once, in writeHead. If no head will be written, call the returned function, which
 * calls `onHead` then.
 */
export function watchHead(res: ServerResponse, onHead: (head: CapturedHead) => void): () => void {
  const { writeHead, write, end, flushHeaders } = res
  let seen = false
  const see = (...args: readonly unknown[]): void => {
    if (seen) return
    seen = true
    onHead(readWriteHead(res, args))
  }
  const seeCurrent = (): void => see(res.statusCode)
  // If the client has left, Node writes no head. HTTP/2 writes the head without writeHead.
  const seeAfter =
    (method: (...args: never[]) => unknown) =>
    (...args: unknown[]): unknown => {
      const returned: unknown = Reflect.apply(method, res, args)
      seeCurrent()
      return returned
    }
  Object.assign(res, {
    writeHead: (...args: unknown[]): unknown => {
      if (!res.headersSent) see(...args)
      return Reflect.apply(writeHead, res, args)
    },
    write: seeAfter(write),
    end: seeAfter(end),
    flushHeaders: seeAfter(flushHeaders),
  })
  return seeCurrent
}
