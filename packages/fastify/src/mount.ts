// Mounts a hook in Fastify: for an instance by `register`, or for a route by its hook options.

import { optionError } from '@stampede/core/store'
import { exposeReply } from '@stampede/node-http/adapter'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'

type Done = (error?: Error) => void

/** A hook of a request, with a callback. */
export type Hook = (request: FastifyRequest, reply: FastifyReply, done: Done) => void

/** Fits where Fastify expects a plugin, and where it expects a hook of a route or an instance. */
export interface Mountable extends Hook {
  (instance: FastifyInstance, options: object, done: Done): void
}

/** Gets the prefix of each instance for which a hook is mounted. */
type OnMount = (prefix: string) => void

/**
 * Returns a function that is both a hook and a plugin. As a plugin, it adds the hook `stage` to the
 * instance that registers it. Fastify runs that hook for all routes of the instance, including
 * routes that were declared before.
 */
export function mountable(
  name: string,
  stage: 'onRequest' | 'preHandler',
  hook: Hook,
  onMount?: OnMount,
): Mountable {
  const mount = (target: FastifyRequest | FastifyInstance, other: object, done: Done): void => {
    if (!('addHook' in target)) {
      hook(target, other as FastifyReply, done)
      return
    }
    onMount?.(target.prefix)
    if (stage === 'onRequest') target.addHook('onRequest', hook)
    else target.addHook('preHandler', hook)
    done()
  }
  return Object.assign(mount, {
    [Symbol.for('skip-override')]: true,
    [Symbol.for('plugin-meta')]: { name: `@stampede/fastify ${name}`, fastify: '5.x' },
  })
}

/** Exposes the fields of earlier hooks until the returned function goes on. */
export function withFields(reply: FastifyReply, done: Done): (error?: unknown) => void {
  const forward = exposeReply(reply)
  return (error) => {
    forward()
    done(error as Error | undefined)
  }
}

/** Throws for an instance, which comes as options if an app registers a function itself. */
export function checkCalled(name: string, options: unknown, example: string): void {
  if (typeof options !== 'object' || options === null || !('addHook' in options)) return
  const fix = `it is registered without being called; use app.register(${example})`
  throw optionError(name, options, fix)
}
