// The keys under which a request or a name is stored, and what a frame has, for tools of operators.

import { admit } from './cache/admit.ts'
import { type CacheRules, readCacheOptions } from './cache/cache-options.ts'
import { cacheKey, customKey } from './cache/key.ts'
import { queryContent } from './cache/query-content.ts'
import type { StoredEntry } from './entry/entry.ts'
import { codecOf, decodeFrame } from './entry/frame.ts'
import { selects } from './http/vary.ts'
import type { RequestView } from './ports/exchange.ts'
import { dataKey } from './ports/key.ts'

/** A GET or QUERY, and the options of its stampedeCache. */
export interface AskedRequest extends Omit<CacheRules, 'key' | 'identity' | 'bypass'> {
  readonly url: string
  /** The `Host` of the request, if it is not that of the URL. */
  readonly host?: string | undefined
  /** Takes path and query as written. By default, they are as a browser would send them. */
  readonly asWritten?: boolean
  /** The result of the option `key`, or of `identity`, for the request. */
  readonly key?: string | undefined
  readonly identity?: string | undefined
  /** Request fields, with lower-case names. */
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** The body of a QUERY. Undefined: the request is a GET. */
  readonly body?: Uint8Array | undefined
}

/** The key of a request in the cache, from `requestKey`. */
export interface RequestKeys {
  /** The internal key. With `entry`: the key for a request that does not match its `Vary`. */
  readonly key: string
  /** Why the cache is bypassed: the `detail` of Cache-Status. Undefined: the cache is used. */
  readonly bypass?: string
}

/**
 * The internal key of a request. `entry`: the response under the plain key. If the request does not
 * match its `Vary`, the key has the values of these fields. Throws `ERR_STAMPEDE_OPTION`, or
 * `ERR_INVALID_URL`.
 */
export function requestKey(
  asked: AskedRequest,
  entry?: Parameters<typeof selects>[0],
): RequestKeys {
  const { url: text, host: named, asWritten, key, identity, headers = {}, body, ...options } = asked
  const config = readCacheOptions({
    // The option `bypass` reads a request of the app, which there is none of here.
    ...{ methods: ['GET', 'QUERY'], ...options, bypass: undefined },
    ...(key !== undefined && { key: () => key }),
    ...(identity !== undefined && { identity: () => identity }),
  })
  const url = new URL(text)
  const host = named ?? url.host
  const request: RequestView = {
    method: body === undefined ? 'GET' : 'QUERY',
    scheme: url.protocol.slice(0, -1),
    host,
    target: (asWritten && writtenTarget(text)) || url.pathname + url.search,
    headers: { host, ...headers },
  }
  const isOther = entry !== undefined && !selects(entry, request.headers)
  const learned = isOther ? entry.vary.map(([name]) => name) : []
  const content = body && queryContent(request.headers, body, config, undefined)
  if (typeof content === 'object') request.content = content
  const refused = typeof content === 'string' ? content : undefined
  const bypass = admit(request, undefined, config) ?? refused
  return {
    key: cacheKey(request, undefined, config, learned),
    ...(bypass !== undefined && { bypass }),
  }
}

/**
 * Clients other than browsers send dot segments, quotes, braces and so on as they are. Undefined if
 * no client can send the text.
 */
function writtenTarget(url: string): string | undefined {
  const target = url.replace(/^[^:]+:\/\/[^/?#\\]*|#.*/gs, '').replace(/^(?!\/)/, '/')
  return /[^!-~]/.test(target) ? undefined : target
}

/** The internal keys of a name: as a key of `getOrSet`, and as a result of the option `key`. */
export function namedKeys(name: string): readonly [data: string, response: string] {
  return [dataKey(name), customKey(name)]
}

/** The entry and the codec of a frame. Undefined if the frame cannot be decoded. */
export function inspectFrame(
  key: string | undefined,
  frame: Uint8Array,
): { readonly entry: StoredEntry; readonly codec: ReturnType<typeof codecOf> } | undefined {
  const entry = decodeFrame(key, frame)
  return entry && { entry, codec: codecOf(frame) }
}
