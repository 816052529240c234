// Detects when the head of a response has been sent, and whether the response may be shared.

import type { ServerResponse } from 'node:http'
import type { OriginEnd } from '@stampede/core/adapter'
import { hasLeft } from '../request/client-gone.ts'

/**
 * Calls `tell` once, when the head has been sent, or with false if the response was closed before.
 * Call it before the head is written.
 */
export function onHeadSent(res: ServerResponse, tell: (isSent: boolean) => void): void {
  if (res.headersSent) return tell(true)
  const { writeHead } = res
  let isTold = false
  const end = (): void => {
    if (isTold) return
    isTold = true
    res.off('finish', end).off('close', end)
    tell(res.headersSent)
  }
  // HTTP/2 writes its head without writeHead, so this waits for the end of the response there.
  res.once('finish', end).once('close', end)
  const own = (...args: unknown[]): unknown => {
    try {
      return Reflect.apply(writeHead, res, args)
    } finally {
      if (res.headersSent) end()
    }
  }
  Object.assign(res, { writeHead: own })
  // The `close` event was emitted before, so the listener above will not run.
  if (hasLeft(res)) end()
}

/**
 * Why a captured response must not be shared, if outer layers send it as `res`. Call it before the
 * head is written. Resolves once the head has been sent.
 */
export function refusalOf(res: ServerResponse): Promise<'incomplete' | 'declined' | undefined> {
  return new Promise((resolve) => {
    onHeadSent(res, (isSent) => {
      if (!isSent) resolve('incomplete')
      else resolve(setsCookie(res) ? 'declined' : undefined)
    })
  })
}

/** The end of a run, or why it must not be shared. `refusal`: see refusalOf(). */
export function unlessRefused(
  end: OriginEnd,
  refusal: ReturnType<typeof refusalOf> | undefined,
): OriginEnd | Promise<OriginEnd> {
  const refused = refusal?.then((reason): OriginEnd => {
    return reason === undefined ? end : { type: 'not-captured', reason }
  })
  return refused ?? end
}

/**
 * Tells after this turn whether the response stays whole. A handler may call destroy() right after
 * end().
 */
export function whenWhole(res: ServerResponse, tell: (isWhole: boolean) => void): void {
  let isWhole = false
  // Before other listeners, because they may close a finished response. `finish` is also emitted if
  // the handler destroyed the response.
  res.prependOnceListener('finish', () => {
    isWhole = !hasLeft(res)
  })
  queueMicrotask(() => tell(isWhole || !hasLeft(res)))
}

/**
 * Whether the sent head sets a cookie. If an outer layer passed the cookie only to writeHead,
 * getHeaders() does not have it. It is in the text of the head, for which Node has no public name.
 */
export function setsCookie(res: ServerResponse): boolean {
  if (res.hasHeader('set-cookie')) return true
  const text: unknown = Reflect.get(res, '_header')
  return typeof text === 'string' && /\r\nset-cookie2?:/i.test(text)
}
