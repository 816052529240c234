// The IdempotentExchange port over a Koa context.

import { type HeaderList, type IdempotentExchange, responseError } from '@stampede/core/adapter'
import {
  addAtHead,
  discardRequestBody,
  linesOf,
  readRequest,
  readRequestBody,
  unsendable,
} from '@stampede/node-http/adapter'
import type { Context, Next } from 'koa'
import { runAttempt } from './koa-attempt.ts'
import { replyWith } from './koa-reply.ts'
import { createReturnPromise } from './return-promise.ts'

export interface KoaIdempotentVisit {
  readonly exchange: IdempotentExchange<Context>
  /** Resolves when ctx has the response. Rejects with the error of the app. */
  readonly answered: Promise<void>
  /**
   * Call this when core has finished or failed. If core has not begun to serve the request, the
   * middleware then returns.
   */
  close(error?: unknown): void
}

export function createKoaIdempotentExchange(ctx: Context, next: Next): KoaIdempotentVisit {
  const answer = createReturnPromise()
  const exchange: IdempotentExchange<Context> = {
    request: readRequest(ctx.req, {
      scheme: ctx.protocol,
      host: ctx.host,
      target: ctx.originalUrl,
      trustsProxy: () => ctx.app.proxy,
    }),
    native: ctx,
    lines: (name) => linesOf(ctx.req, name),
    isSet: (name) => ctx.res.hasHeader(name),
    readBody(maxBytes) {
      // Body parsers set these properties. Their types may be unknown here.
      const read = (name: string): unknown => Reflect.get(ctx.request, name)
      const parsed = { body: read('body'), rawBody: read('rawBody'), files: read('files') }
      return readRequestBody(ctx.req, maxBytes, parsed)
    },
    forward(add: HeaderList) {
      answer.begun = true
      addAtHead(ctx.res, add)
      const passed: Promise<void> = next()
      return passed.then(answer.resolve, answer.reject)
    },
    run(observer) {
      answer.begun = true
      if (!ctx.headerSent && !ctx.res.writableEnded) return runAttempt(ctx, next, observer, answer)
      answer.resolve()
      return observer.onEnd({
        type: 'failed',
        error: responseError('the response was sent before the handler ran'),
      })
    },
    send(reply) {
      answer.begun = true
      // If the reply cannot be sent, the request fails. The handler must not run again.
      if (replyWith(ctx, reply)) answer.resolve()
      else answer.reject(unsendable())
      discardRequestBody(ctx.req)
    },
  }
  const close = (error?: unknown): void => {
    if (error !== undefined) answer.reject(error)
    else if (!answer.begun) answer.resolve()
  }
  return { exchange, answered: answer.promise, close }
}
