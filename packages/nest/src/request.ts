// The address of a request and its route, on Express 4 and 5 and on Fastify 4 and 5.

import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { type createNodeCache, expressHost, trustsPeer } from '@stampede/node-http/adapter'

/** The properties that callbacks read, of a request of Express or of Fastify. */
export interface HttpRequest {
  /** Such as `GET`. */
  readonly method: string
  /** The URL as received. */
  readonly originalUrl: string
  /** Request fields, with names in lower case. */
  readonly headers: IncomingHttpHeaders
  /** Parameters of the route. */
  readonly params: unknown
  /** The parsed query. */
  readonly query: unknown
  /** The parsed body, if a body parser ran before. */
  readonly body?: unknown
  /** `http` or `https`. Behind a proxy, the framework must trust it. */
  readonly protocol: string
  /** The `Host` of the request. Behind a proxy, the framework must trust it. */
  readonly host: string
}

type Dispatch = (req: IncomingMessage, res: ServerResponse) => void

interface ExpressApp extends Dispatch {
  readonly parent?: ExpressApp
  get(setting: string): unknown
}

/** Properties that only one of the two has. */
export interface NativeRequest extends HttpRequest {
  readonly url: string
  /** Fastify: the request of Node. */
  readonly raw?: IncomingMessage
  readonly server?: { readonly routing: Dispatch }
  readonly routeOptions?: { readonly url?: string }
  /** Express: the path of an app that has mounted the app of Nest. */
  readonly baseUrl?: string
  readonly app?: ExpressApp
  readonly socket?: Socket
  readonly hostname?: string
  readonly route?: { readonly path?: unknown }
}

type RequestAddress = Parameters<ReturnType<typeof createNodeCache>>[0]['address']

/**
 * `chosenBy` distinguishes handlers of one URL. The framework uses the fields of a proxy for
 * `protocol` and `host` only if its options allow.
 */
export function addressOf(request: NativeRequest, chosenBy: string | undefined): RequestAddress {
  const { protocol: scheme, originalUrl: target, raw, url, baseUrl = '', app } = request
  const current = baseUrl + (raw?.url ?? url)
  // For a mount, Express moves a part of `url` to `baseUrl`, and the rest begins with a slash.
  const isSame = current === target || current === `${baseUrl}/${target.slice(baseUrl.length)}`
  const rewritten = isSame ? undefined : current
  const trustsProxy = () => trustsPeer(request)
  // Fastify 4 has only `hostname`, with the port.
  const host = app ? expressHost(request) : (request.host ?? request.hostname ?? '')
  return { scheme, host, target, rewritten, chosenBy, trustsProxy }
}

/** The pattern of the matched route, with the global prefix and the version. */
export function routeOf({ route, routeOptions, baseUrl = '' }: NativeRequest): string | undefined {
  const path = routeOptions?.url ?? route?.path
  return typeof path === 'string' && baseUrl === '' ? path : undefined
}

/** Express 5 and Fastify leave the body undefined if no parser has read it. */
export function parsedOf({ body }: HttpRequest): { body: unknown; leavesNothing: boolean } {
  return { body, leavesNothing: true }
}

/** Whether the cache may add an ETag. It may not after `app.disable('etag')` of Express. */
export function allowsEtag({ app }: NativeRequest): boolean {
  return app?.get('etag') !== false
}

/** The outermost app, so that a background refresh passes all middlewares and guards. */
export function appOf({ app, server }: NativeRequest): Dispatch {
  if (server !== undefined) return server.routing
  let root = app as ExpressApp
  while (root.parent !== undefined) root = root.parent
  return root
}
