// The layers of a Koa app, in front of a cache or behind it, as in real apps.

import { Readable } from 'node:stream'
import { createGzip, gzipSync } from 'node:zlib'
import type { Context, Middleware } from 'koa'
import { type AppContext, routeOf, secretOf } from './app-context.ts'
import { moved, nodeLayer, startSession } from './node-layers.ts'
import { anyPerson, personOn } from './people.ts'
import type { LayerSpec } from './scenario.ts'

export function koaLayer(
  context: AppContext,
  spec: Exclude<LayerSpec, { kind: 'cache' }>,
): Middleware {
  switch (spec.kind) {
    case 'session':
      return async (ctx, next) => {
        const isKnown = anyPerson(context.scenario.people, ctx) !== undefined
        const mine = spec.at.includes(routeOf(ctx)) && (isKnown || !spec.known)
        const secret = secretOf(context, ctx)
        if (mine && spec.how !== 'after') startSession(ctx.res, spec.how, secret)
        await next()
        if (mine && spec.how === 'after' && !ctx.headerSent) {
          ctx.append('Set-Cookie', `sess=${secret}; Path=/`)
        }
      }
    case 'caller':
      return async (ctx, next) => {
        const greet = () => ctx.headerSent || ctx.set('X-Caller', secretOf(context, ctx))
        if (spec.when === 'early') greet()
        await next()
        if (spec.when === 'late') greet()
      }
    case 'cors':
      return async (ctx, next) => {
        const { origin } = ctx.headers
        if (origin !== undefined) ctx.set('Access-Control-Allow-Origin', origin)
        if (spec.varies) ctx.vary('Origin')
        await next()
      }
    case 'gzip':
      return async (ctx, next) => {
        await next()
        if (/gzip/.test(String(ctx.headers['accept-encoding']))) zip(ctx, spec.varies)
      }
    case 'auth':
      return async (ctx, next) => {
        const { people } = context.scenario
        const person = personOn(people, ctx, 'authorization')
        if (person === undefined || !spec.denies.includes(people.indexOf(person))) return next()
        ctx.status = spec.status
        ctx.set('Cache-Control', 'max-age=60')
        ctx.body = `denied: ${person.secret}`
      }
    case 'rewrite':
      return (ctx, next) => {
        ctx.url = moved(ctx.req)
        return next()
      }
    case 'conditional':
      return async (ctx, next) => {
        await next()
        if (!ctx.headerSent && ctx.status === 200 && ctx.fresh) ctx.status = 304
      }
    case 'cookies': {
      const layer = nodeLayer(context, spec)
      return (ctx, next) => {
        layer(ctx.req, ctx.res, () => {})
        return next()
      }
    }
  }
}

function zip(ctx: Context, varies: boolean): void {
  const { body } = ctx
  if (ctx.headerSent || ctx.respond === false || ctx.res.hasHeader('content-encoding')) return
  if (typeof body !== 'string' && !Buffer.isBuffer(body) && !(body instanceof Readable)) return
  const type = ctx.response.get('Content-Type')
  if (varies) ctx.vary('Accept-Encoding')
  ctx.body = body instanceof Readable ? body.pipe(createGzip()) : gzipSync(body)
  ctx.set('Content-Encoding', 'gzip')
  ctx.set('Content-Type', type || 'text/plain')
}
