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
import { createAnswer } from './answer.ts'
import { runAttempt } from './koa-attempt.ts'
import { replyWith } from './koa-reply.ts'

export interface KoaIdempotentVisit {
  readonly exchange: IdempotentExchange<Context>
  /** ctx holds the answer. Rejects with what the app threw. */
  readonly answered: Promise<void>
  /** Core is done, or failed: nothing more will come for a request that was not even begun. */
  close(error?: unknown): void
}

export function createKoaIdempotentExchange(ctx: Context, next: Next): KoaIdempotentVisit {
  const answer = createAnswer()
  const exchange: IdempotentExchange<Context> = {
    request: readRequest(ctx.req, {
      scheme: ctx.protocol,
      host: ctx.host,
      target: ctx.originalUrl,
    }),
    native: ctx,
    lines: (name) => linesOf(ctx.req, name),
    isSet: (name) => ctx.res.hasHeader(name),
    readBody(maxBytes) {
      // Body parsers put them there, with or without types that say so.
      const left = (name: string): unknown => Reflect.get(ctx.request, name)
      const parsed = { body: left('body'), rawBody: left('rawBody'), files: left('files') }
      return readRequestBody(ctx.req, maxBytes, parsed)
    },
    bypass(add: HeaderList) {
      answer.begun = true
      addAtHead(ctx.res, add)
      const passed: Promise<void> = next()
      return passed.then(answer.given, answer.threw)
    },
    run(observer) {
      answer.begun = true
      if (!ctx.headerSent && !ctx.res.writableEnded) return runAttempt(ctx, next, observer, answer)
      answer.given()
      return observer.onEnd({
        type: 'failed',
        error: responseError('the response was sent before the handler ran'),
      })
    },
    send(reply) {
      answer.begun = true
      // An answer that cannot be given is no reason to run the handler again.
      if (replyWith(ctx, reply)) answer.given()
      else answer.threw(unsendable())
      discardRequestBody(ctx.req)
    },
  }
  const close = (error?: unknown): void => {
    if (error !== undefined) answer.threw(error)
    else if (!answer.begun) answer.given()
  }
  return { exchange, answered: answer.promise, close }
}
