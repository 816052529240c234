// A request of Express: its address, and its hidden class.

import { type createNodeCache, expressHost, trustsPeer } from '@stampede/node-http/adapter'
import type { Request } from 'express'

type RequestAddress = Parameters<ReturnType<typeof createNodeCache>>[0]['address']

export function addressOf(req: Request): RequestAddress {
  const { headers, originalUrl: target, url, baseUrl } = req
  // Express uses the fields of a proxy only if `trust proxy` allows it. Without such fields the
  // setting has no effect.
  const isTls = 'encrypted' in req.socket && req.socket.encrypted === true
  const own = isTls ? 'https' : 'http'
  const scheme = headers['x-forwarded-proto'] === undefined ? own : req.protocol
  const host = headers['x-forwarded-host'] === undefined ? (headers.host ?? '') : expressHost(req)
  const trustsProxy = () => trustsPeer(req)
  const rewritten = url === target && baseUrl === '' ? undefined : rewrittenOf(target, baseUrl, url)
  return { scheme, host, target, rewritten, trustsProxy }
}

/**
 * The URL, if a middleware rewrote it. A mount does not count as rewriting: it moves a part of
 * `url` to `baseUrl`, and begins the rest with a slash.
 */
function rewrittenOf(target: string, baseUrl: string, url: string): string | undefined {
  const isMounted = target === baseUrl + url || target === baseUrl + url.slice(1)
  return isMounted ? undefined : baseUrl + url
}

/**
 * The body, as far as parsers have parsed it. In Express 4, which has a `lazyrouter`, body parsers
 * set `{}` if they parse nothing.
 */
export function parsedOf({ app, body }: Request): { body: unknown; leavesNothing: boolean } {
  return { body, leavesNothing: !('lazyrouter' in app) }
}

// A workaround that gives all requests of Express one hidden class, and all responses another.

/**
 * Node 20 and 22. From V8 13 (Node 24) on, objects share hidden classes after a change of their
 * prototype too. There a dictionary would make Express itself slower.
 */
const NEEDS_DICTIONARIES = Number.parseInt(process.versions.v8, 10) < 13

/**
 * A property of every event emitter. Node adds other properties later, so this one is not the last.
 */
const EARLY = '_events'

/**
 * Makes V8 store the object as a dictionary. Express changes the prototype of each request and
 * response. Before V8 13, each property that is added later then creates a hidden class for this
 * object only, so no property access is cached. All dictionaries of one prototype share a hidden
 * class. An object becomes a dictionary if a property other than the last is deleted. So this
 * function deletes one and sets it again.
 */
export function shareShape(object: object): void {
  if (!NEEDS_DICTIONARIES || !Object.hasOwn(object, EARLY)) return
  const value: unknown = Reflect.get(object, EARLY)
  Reflect.deleteProperty(object, EARLY)
  Reflect.set(object, EARLY, value)
}
