// When the head of a response has left, with everything that layers outside us put on it.

import type { ServerResponse } from 'node:http'

/** `gone`: closed without a head, so what it would have carried is not known. */
export type HeadSent = 'sent' | 'gone'

/** Resolves once; call it before the head is written. */
export function headSent(res: ServerResponse): Promise<HeadSent> {
  if (res.headersSent) return Promise.resolve('sent')
  return new Promise((resolve) => {
    const { writeHead } = res
    const end = () => {
      res.off('finish', end).off('close', end)
      resolve(res.headersSent ? 'sent' : 'gone')
    }
    // HTTP/2 writes its head without writeHead; there the end of the response tells.
    res.once('finish', end).once('close', end)
    const own = (...args: unknown[]): unknown => {
      try {
        return Reflect.apply(writeHead, res, args)
      } finally {
        if (res.headersSent) end()
      }
    }
    Object.assign(res, { writeHead: own })
    if (res.destroyed) end()
  })
}
