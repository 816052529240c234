// When the head of a response has left, with everything that layers outside us put on it.

import type { ServerResponse } from 'node:http'
import { hasLeft } from '../request/client-gone.ts'

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
    // There will be no `close`. HTTP/2 responses have no `destroyed`.
    if (hasLeft(res)) end()
  })
}

/**
 * Whether the head that has left sets a cookie. One that was given to writeHead alone, by a layer outside us, never shows
 * in getHeaders(): it is only in the text of the head, which Node has no public name for.
 */
export function setsCookie(res: ServerResponse): boolean {
  if (res.hasHeader('set-cookie')) return true
  const text: unknown = Reflect.get(res, '_header')
  return typeof text === 'string' && /\r\nset-cookie2?:/i.test(text)
}
