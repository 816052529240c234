// A request in Fastify: scheme, host, target, rewritten URL, constraints and parsed body.

import { type createNodeCache, trustsPeer } from '@stampede/node-http/adapter'
import type { FastifyRequest } from 'fastify'
import { constraintsOf } from './constraints.ts'

type RequestAddress = Parameters<ReturnType<typeof createNodeCache>>[0]['address']

/** Fastify uses the fields of a proxy for `protocol` and `host` only if `trustProxy` allows it. */
export function addressOf(request: FastifyRequest): RequestAddress {
  const { protocol, host, originalUrl, raw } = request
  const url = raw.url ?? originalUrl
  const rewritten = url === originalUrl ? undefined : url
  const chosenBy = constraintsOf(request)
  const trustsProxy = () => trustsPeer(request)
  return { scheme: protocol, host, target: originalUrl, rewritten, chosenBy, trustsProxy }
}

/** Fastify leaves the body undefined if no parser has read it. */
export function parsedOf({ body }: FastifyRequest): { body: unknown; leavesNothing: boolean } {
  return { body, leavesNothing: true }
}
