// The address of a request and its route, on Express 4 and 5 and on Fastify 4 and 5.

import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { RequestAddress } from '@stampede/node-http/adapter'

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

/**
 * `chosenBy` distinguishes handlers of one URL. The framework uses the fields of a proxy for
 * `protocol` and `host` only if its options allow.
 */
export function addressOf(request: NativeRequest, chosenBy: string | undefined): RequestAddress {
  const { protocol: scheme, originalUrl: target, raw, url, baseUrl = '' } = request
  const current = baseUrl + (raw?.url ?? url)
  // For a mount, Express moves a part of `url` to `baseUrl`, and the rest begins with a slash.
  const isSame = current === target || current === `${baseUrl}/${target.slice(baseUrl.length)}`
  const rewritten = isSame ? undefined : current
  const trustsProxy = () => trusts(request)
  return { scheme, host: hostOf(request), target, rewritten, chosenBy, trustsProxy }
}

/**
 * The host with its port, because two ports are two origins. `request.host` of Express 4 has no
 * port, and reading the property prints a warning. Fastify 4 has only `hostname`, with the port.
 */
function hostOf(request: NativeRequest): string {
  const { app, headers } = request
  if (app === undefined) return request.host ?? request.hostname ?? ''
  const forwarded = headers['x-forwarded-host']
  if (!forwarded || !trusts(request)) return headers.host ?? ''
  return (String(forwarded).split(',')[0] ?? '').trim()
}

/** Whether the options of the framework allow the peer to name its clients, as proxies do. */
function trusts(request: NativeRequest): boolean {
  const { socket } = request.raw ?? (request as unknown as IncomingMessage)
  const fn = request.app?.get('trust proxy fn')
  if (typeof fn === 'function') return fn(socket.remoteAddress, 0)
  // Fastify tells by the addresses that it finds for a request of that peer.
  const raw = { socket, headers: { 'x-forwarded-for': '192.0.2.1' } }
  const probe: { ips?: readonly string[] } = Object.create(request, { raw: { value: raw } })
  return probe.ips?.length === 2
}

/** The pattern of the matched route, with the global prefix and the version. */
export function routeOf({ route, routeOptions, baseUrl = '' }: NativeRequest): string | undefined {
  const path = routeOptions?.url ?? route?.path
  return typeof path === 'string' && baseUrl === '' ? path : undefined
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
