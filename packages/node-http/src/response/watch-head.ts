// Being told how the app answers, without a part in it: status and headers, however the head is written.

import type { ServerResponse } from 'node:http'
import type { CapturedHead } from '@stampede/core/adapter'
import { readWriteHead } from './write-head.ts'

/** `onHead` is called once, in writeHead. Returns how to say that the answer stands, though no head will be written. */
export function watchHead(res: ServerResponse, onHead: (head: CapturedHead) => void): () => void {
  const { writeHead, write, end, flushHeaders } = res
  let seen = false
  const see = (...args: readonly unknown[]): void => {
    if (seen) return
    seen = true
    onHead(readWriteHead(res, args))
  }
  const stands = (): void => see(res.statusCode)
  // To a client that is gone Node writes no head, and HTTP/2 writes it without writeHead.
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
