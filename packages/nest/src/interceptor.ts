// The interceptor that both decorators use: it responds itself, or runs the handler.

import type { IncomingMessage } from 'node:http'
import { inspect } from 'node:util'
import {
  type CallHandler,
  type ExecutionContext,
  Inject,
  type NestInterceptor,
  type Type,
} from '@nestjs/common'
import type { Stampede } from '@stampede/core'
import { optionError } from '@stampede/core/store'
import { type createNodeCache, exposeReply } from '@stampede/node-http/adapter'
import { Observable } from 'rxjs'
import { STAMPEDE } from './module.ts'
import { addressOf, appOf, type NativeRequest, parsedOf } from './request.ts'
import { breakOffFailed, ignoreResponses, type NativeResponse, rawOf } from './response.ts'

type Visit = Parameters<ReturnType<typeof createNodeCache<NativeRequest>>>[0]

/**
 * Creates a class for `@UseInterceptors`, or for a provider of `APP_INTERCEPTOR`. Nest creates one
 * instance of it, with the injected Stampede.
 * `example` is a call of the function that has the options.
 */
export function interceptorOf(
  example: string,
  options: unknown,
  create: (stampede: Stampede) => (visit: Visit) => void,
): Type<NestInterceptor> {
  checkCalled(example, options)
  class StampedeInterceptor implements NestInterceptor {
    readonly #visit: (visit: Visit) => void

    constructor(stampede: Stampede) {
      this.#visit = create(stampede)
    }

    intercept(context: ExecutionContext, handler: CallHandler): Observable<unknown> {
      // Nest ends event streams itself, with an event for an error. They cannot be cached.
      const isPlain = context.getType() === 'http' && metadataOf(context, '__sse__') === undefined
      return isPlain ? run(this.#visit, context, handler) : handler.handle()
    }
  }
  Inject(STAMPEDE)(StampedeInterceptor, undefined, 0)
  return StampedeInterceptor
}

/**
 * If the handler does not run, the Observable emits `undefined` after the response, as for a
 * handler that uses `@Res()`. So outer interceptors finish. If it never completed, a timeout would
 * fail later. If it completed without a value, Nest would throw an EmptyError.
 */
function run(
  visit: (visit: Visit) => void,
  context: ExecutionContext,
  handler: CallHandler,
): Observable<unknown> {
  const native = context.switchToHttp().getRequest<NativeRequest>()
  const response = context.switchToHttp().getResponse<NativeResponse>()
  const req = native.raw ?? (native as unknown as IncomingMessage)
  const res = rawOf(response)
  return new Observable((subscriber) => {
    let isForwarded = false
    const forward = 'raw' in response ? exposeReply(response) : undefined
    res.once('close', () => {
      if (isForwarded || !res.headersSent) return
      ignoreResponses(response)
      subscriber.next(undefined)
      subscriber.complete()
    })
    const next = (error?: unknown): void => {
      isForwarded = true
      forward?.()
      if (error === undefined) breakOffFailed(handler.handle(), response).subscribe(subscriber)
      else subscriber.error(error)
    }
    const dispatch: Visit['dispatch'] = (again, into) => appOf(native)(again, into)
    const address = addressOf(native, versionOf(context))
    visit({ req, res, native, address, parsed: parsedOf, dispatch, next })
  })
}

/**
 * Nest and Fastify choose between handlers of one URL by other parts of the request, such as a
 * header with a version. Their responses must not have the same key.
 */
function versionOf(context: ExecutionContext): string | undefined {
  const names = ['__version__', '__fastify_route_constraints__']
  const chosen = names.map((name) => metadataOf(context, name))
  return chosen.some((each) => each !== undefined) ? inspect(chosen, WHOLE) : undefined
}

const WHOLE = { depth: null, breakLength: Infinity, compact: true } as const

function metadataOf(context: ExecutionContext, name: string): unknown {
  const onHandler = Reflect.getMetadata(name, context.getHandler())
  return onHandler ?? Reflect.getMetadata(name, context.getClass())
}

/** Throws for a class, or a prototype, which a decorator gets that is used without a call. */
function checkCalled(example: string, options: unknown): void {
  const isClass = typeof options === 'function'
  if (!isClass && !(options instanceof Object && Object.hasOwn(options, 'constructor'))) return
  throw optionError(example, options, 'a decorator is used without being called; add parentheses')
}
