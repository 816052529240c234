// Observes the status and the headers that the app sends, however it writes the head.

import type { ServerResponse } from 'node:http'
import type { CapturedHead } from '@stampede/core/adapter'
import { readWriteHead } from './write-head.ts'

/** Calls `onHead` once, in writeHead. The returned function calls it if no head will be written. */
export function watchHead(res: ServerResponse, onHead: (head: CapturedHead) => void): () => void {
  const { writeHead, write, end, flushHeaders } = res
  let seen = false
  const see = (...args: readonly unknown[]): void => {
    if (seen) return
    seen = true
    onHead(readWriteHead(res, args))
  }
  const stands = (): void => see(res.statusCode)
  // Node writes no head to a client that left, and HTTP/2 writes it without writeHead.
  const then =
    (method: (...args: never[]) => unknown) =>
    (...args: unknown[]): unknown => {
      const returned: unknown = Reflect.apply(method, res, args)
      stands()
      return returned
    }
  Object.assign(res, {
    writeHead: (...args: unknown[]): unknown => {
      if (!res.headersSent) see(...args)
      return Reflect.apply(writeHead, res, args)
    },
    write: then(write),
    end: then(end),
    flushHeaders: then(flushHeaders),
  })
  return stands
}
