// Records which header fields, query parameters and cookies of a request an app reads. The option
// `audit` uses this in development. The recording does not change what the app reads.

import type { IncomingMessage } from 'node:http'
import type { ReadLog } from '@stampede/core/adapter'

/**
 * Starts the recording. `holder` is the object with the parsed query, if that is not the request
 * itself.
 */
export function watchReads(req: IncomingMessage, holder: object = req): ReadLog {
  const log = { headers: new Set<string>(), cookies: new Set<string>(), query: new Set<string>() }
  for (const name of ['headers', 'headersDistinct']) watchProperty(req, name, log.headers)
  for (const name of ['cookies', 'signedCookies']) watchProperty(req, name, log.cookies)
  watchProperty(holder, 'query', log.query)
  return log
}

/** Replaces a property by a getter that returns a recording view of its value. */
function watchProperty(target: object, name: string, log: Set<string>): void {
  const found = describe(target, name)
  let assigned: { readonly value: unknown } | undefined
  Object.defineProperty(target, name, {
    configurable: true,
    enumerable: found?.enumerable ?? false,
    get() {
      const value: unknown = assigned
        ? assigned.value
        : found?.get
          ? found.get.call(target)
          : found?.value
      return typeof value === 'object' && value !== null ? recording(value, log) : value
    },
    set(value: unknown) {
      assigned = { value }
    },
  })
}

function describe(target: object, name: string): PropertyDescriptor | undefined {
  for (let at: object | null = target; at !== null; at = Object.getPrototypeOf(at)) {
    const found = Object.getOwnPropertyDescriptor(at, name)
    if (found !== undefined) return found
  }
  return undefined
}

const plain = new WeakMap<object, object>()

/** The object that a recording view wraps. Reads of this object are not recorded. */
export function unwatched<T extends object>(value: T): T {
  return (plain.get(value) as T | undefined) ?? value
}

function recording<T extends object>(value: T, log: Set<string>): T {
  const note = (name: string | symbol): void => {
    // Members of Object.prototype, such as `toString`, are no fields.
    const isInherited = name in Object.prototype && !Object.hasOwn(value, name)
    if (typeof name === 'string' && !isInherited) log.add(name.toLowerCase())
  }
  const view = new Proxy(value, {
    get(target, name) {
      note(name)
      return Reflect.get(target, name)
    },
    has(target, name) {
      note(name)
      return Reflect.has(target, name)
    },
    getOwnPropertyDescriptor(target, name) {
      note(name)
      return Reflect.getOwnPropertyDescriptor(target, name)
    },
  })
  plain.set(view, value)
  return view
}
