// Notes the fields that the next handlers set themselves. A response of Hono also has the fields
// that layers in front have set on the context, so it does not tell who set them.

import type { ServerResponse } from 'node:http'
import { OuterFields, watchCalls } from '@stampede/node-http/adapter'
import type { Context } from 'hono'

/** Methods of the context that make a response, and whether they set its type. */
const METHODS = { text: true, json: true, html: true, body: false, newResponse: false } as const

/**
 * `fields` are those of layers in front. Call the returned function with the response of the
 * handlers.
 */
export function watchContext(
  c: Context,
  fields: Headers,
  res: ServerResponse,
): (response: Response) => void {
  const outer = OuterFields.of(res)
  if (outer === undefined || [...fields].length === 0) return () => {}
  const note = (given: unknown): void => {
    if (given instanceof Object)
      for (const [name] of new Headers(given as Headers)) outer.setBy(name)
  }
  outer.copied = new Set(fields.keys())
  // A response that the handler creates without the context has none of the fields of layers.
  let isOfContext = false
  const set = (name: unknown): void => outer.setBy(String(name))
  watchCalls(c, 'header', set)
  watchFields(c, set)
  for (const [method, setsType] of Object.entries(METHODS)) {
    watchCalls(c, method, (_, init, headers) => {
      isOfContext = true
      note(Object(init).headers)
      note(headers)
      if (setsType) outer.setBy('content-type')
    })
  }
  return ({ headers }) => {
    if (!isOfContext) note(headers)
  }
}

/** Calls `set` with the name of each field that is set on `c.res.headers`. */
function watchFields(c: Context, set: (name: unknown) => void): void {
  const context: object = Object.getPrototypeOf(c)
  let watched: Headers | undefined
  Object.defineProperty(c, 'res', {
    configurable: true,
    get() {
      const res: Response = Reflect.get(context, 'res', c)
      if (res.headers !== watched) {
        watched = res.headers
        for (const method of ['set', 'append']) watchCalls(watched, method, set)
      }
      return res
    },
    set: (res: Response | undefined) => Reflect.set(context, 'res', res, c),
  })
}
