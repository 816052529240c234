// Hooks on the head of a response, for every way to send it.

import type { ServerResponse } from 'node:http'
import type { CapturedHead, HeaderList } from '@stampede/core/adapter'
import { hasLeft } from '../request/client-gone.ts'
import { editWriteHead, readWriteHead } from './fields.ts'

/**
 * Adds the fields of `add` to the head that `res` will send, and removes those in `remove`, for
 * every way to write a head.
 */
export function addAtHead(
  res: ServerResponse,
  add: HeaderList,
  remove: readonly string[] = [],
): void {
  if (add.length === 0 && remove.length === 0) return
  const original = res.writeHead
  let edited = false
  const writeHead = (...args: unknown[]): unknown => {
    if (edited || res.headersSent) return Reflect.apply(original, res, args)
    edited = true
    return Reflect.apply(original, res, editWriteHead(res, args, add, remove))
  }
  Object.assign(res, { writeHead })
}

/**
 * Calls `onHead` once, in writeHead. If no head will be written, call the returned function, which
 * calls `onHead` then.
 */
export function watchHead(res: ServerResponse, onHead: (head: CapturedHead) => void): () => void {
  let seen = false
  const see = (...args: readonly unknown[]): void => {
    if (seen) return
    seen = true
    onHead(readWriteHead(res, args))
  }
  const seeCurrent = (): void => see(res.statusCode)
  watchCalls(res, 'writeHead', (...args) => res.headersSent || see(...args))
  // If the client has left, Node writes no head. A layer may write it without this writeHead.
  for (const name of ['write', 'end', 'flushHeaders']) watchCalls(res, name, undefined, seeCurrent)
  return seeCurrent
}

/**
 * Calls `before` with the arguments before each call of a method, and `after` after it. Does
 * nothing if there is no such method.
 */
export function watchCalls(
  target: object,
  method: string,
  before: ((...args: readonly unknown[]) => void) | undefined,
  after?: () => void,
): void {
  const original: unknown = Reflect.get(target, method)
  if (typeof original !== 'function') return
  const own = (...args: readonly unknown[]): unknown => {
    before?.(...args)
    const returned = Reflect.apply(original, target, args)
    after?.()
    return returned
  }
  Object.assign(target, { [method]: own })
}

/**
 * Calls `tell` once, when the head has been sent, or with false if the response was closed before.
 * Call it before the head is written.
 */
export function onHeadSent(res: ServerResponse, tell: (isSent: boolean) => void): void {
  if (res.headersSent) return tell(true)
  let isTold = false
  const end = (): void => {
    if (isTold) return
    isTold = true
    res.off('finish', end).off('close', end)
    tell(res.headersSent)
  }
  // A layer may write the head without this writeHead. Then the end of the response tells.
  res.once('finish', end).once('close', end)
  const { writeHead } = res
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

type Values = Record<number | string, unknown>

/**
 * Removes `stored` from the Cache-Status in `added` if the head of `res` has a cookie after all:
 * layers in front, such as a session, may set one after core has decided to store the response. It
 * does so in the last function that gets the head, for which Node has no public name.
 */
export function correctStored(res: ServerResponse, added: HeaderList): void {
  const member = added.find(([name]) => name === 'cache-status')?.[1]
  const honest = member?.replace(/; stored\b/, '')
  if (member === undefined || honest === undefined || member === honest) return
  const stream: unknown = Reflect.get(res, 'stream')
  const [sender, send] = stream instanceof Object ? [stream, 'respond'] : [res, '_storeHeader']
  const edit = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(edit)
    return typeof value === 'string' ? value.replace(member, `${honest}; detail=set-cookie`) : value
  }
  watchCalls(sender, send, (...args) => {
    // Node's own objects have no prototype.
    const fields = (args.find((arg) => typeof arg === 'object') ?? {}) as Values
    const names = Array.isArray(fields) ? fields.flat() : Object.keys(fields)
    if (names.some((name) => /^set-cookie2?$/i.test(name)))
      for (const name in fields) fields[name] = edit(fields[name])
  })
}
