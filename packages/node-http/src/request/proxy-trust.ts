// The peer of a request as the proxy options of Express and Fastify take it.

import type { IncomingHttpHeaders } from 'node:http'

/** A request of Express, which has an `app`, or of Fastify. */
export interface ProxiedRequest {
  readonly app?: { get(name: string): unknown }
  readonly headers: IncomingHttpHeaders
  readonly socket?: { readonly remoteAddress?: string | undefined }
}

/** Whether the options of the framework allow the peer to name its clients, as proxies do. */
export function trustsPeer(request: ProxiedRequest): boolean {
  const { app, socket } = request
  const fn = app?.get('trust proxy fn')
  if (typeof fn === 'function') return fn(socket?.remoteAddress, 0)
  // Fastify tells by the addresses that it finds for a request of that peer.
  const raw = { socket, headers: { 'x-forwarded-for': '192.0.2.1' } }
  const probe: { ips?: readonly string[] } = Object.create(request, { raw: { value: raw } })
  return probe.ips?.length === 2
}

/**
 * The host with its port, as `trust proxy` of Express determines it. Two ports are two origins, but
 * `req.hostname` has no port. `req.host` of Express 4 has none either, and prints a warning.
 */
export function expressHost(request: ProxiedRequest): string {
  const { headers } = request
  const forwarded = headers['x-forwarded-host']
  if (!forwarded || !trustsPeer(request)) return headers.host ?? ''
  return (String(forwarded).split(',')[0] ?? '').trim()
}
