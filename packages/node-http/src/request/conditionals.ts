// Hides the client's conditions and ranges from a handler that fills, which must send the whole
// response, not a 304 or 206. The conditions of the cache for its stored response may replace those
// of the client. Core reads the original header object, so it still sees the fields of the client.

import type { IncomingMessage } from 'node:http'
import type { HeaderList } from '@stampede/core/adapter'

export const HIDDEN: readonly string[] = ['if-none-match', 'if-modified-since', 'if-range', 'range']

/**
 * Replaces the client's conditions and ranges by `shown`, and returns a function that restores
 * them. Call it only if there is something to hide or to show.
 */
export function hideConditionals(req: IncomingMessage, shown: HeaderList = []): () => void {
  const present = HIDDEN.filter((name) => req.headers[name] !== undefined)
  const { rawHeaders, headers } = req
  // HTTP/2 requests have no headersDistinct.
  const distinct: IncomingMessage['headersDistinct'] | undefined = req.headersDistinct
  const lists = shown.map(([name, value]) => [name, [value]] as const)
  const shadows: Record<string, unknown> = {
    headers: { ...without(headers, present), ...Object.fromEntries(shown) },
    rawHeaders: [...withoutRaw(rawHeaders, new Set(present)), ...shown.flat()],
    ...(distinct && {
      headersDistinct: { ...without(distinct, present), ...Object.fromEntries(lists) },
    }),
  }
  // The properties are defined on the request itself, because on HTTP/2 they are getters without
  // setters.
  for (const [name, value] of Object.entries(shadows)) define(req, name, value)
  let over = false
  return () => {
    if (over) return
    over = true
    // The copy stays in use, because middlewares may have added fields to it.
    for (const [name] of shown) Reflect.deleteProperty(req.headers, name)
    for (const name of present) req.headers[name] ??= headers[name]
    define(req, 'rawHeaders', rawHeaders)
    if (distinct) define(req, 'headersDistinct', distinct)
  }
}

function define(req: IncomingMessage, name: string, value: unknown): void {
  const shared = { configurable: true, enumerable: true, writable: true }
  Object.defineProperty(req, name, { ...shared, value })
}

/** `[name, value, name, value, ...]` without the named fields. */
export function withoutRaw(raw: readonly string[], names: ReadonlySet<string>): string[] {
  const left: string[] = []
  for (let i = 0; i + 1 < raw.length; i += 2) {
    const [name = '', value = ''] = [raw[i], raw[i + 1]]
    if (!names.has(name.toLowerCase())) left.push(name, value)
  }
  return left
}

/** A copy of the fields without the named ones. */
export function without<T extends object>(fields: T, names: Iterable<string>): T {
  const left = { ...fields }
  for (const name of names) Reflect.deleteProperty(left, name)
  return left
}
