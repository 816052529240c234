// Corrects Cache-Status while the head is sent. Layers in front, such as a session, may set a
// cookie after core has decided to store the response. Such a response is not stored.

import type { ServerResponse } from 'node:http'
import type { HeaderList } from '@stampede/core/adapter'
import { watchCalls } from './watch-calls.ts'

type Values = Record<number | string, unknown>

/**
 * Removes `stored` from the Cache-Status in `added` if the head of `res` has a cookie after all. It
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
