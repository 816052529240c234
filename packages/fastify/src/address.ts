// The address of a request in Fastify: scheme, host, target and rewritten URL.

import type { RequestAddress } from '@stampede/node-http/adapter'
import type { FastifyRequest } from 'fastify'

/** Fastify uses the fields of a proxy for `protocol` and `host` only if `trustProxy` allows it. */
export function addressOf({ protocol, host, originalUrl, raw }: FastifyRequest): RequestAddress {
  const url = raw.url ?? originalUrl
  const rewritten = url === originalUrl ? undefined : url
  return { scheme: protocol, host, target: originalUrl, rewritten }
}
