// Apps under attack: one handler behind one cache, on each framework. Plain JavaScript, because
// they run in the test process and in members of a fleet.
// @ts-check
import { createRequire } from 'node:module'
import { Readable } from 'node:stream'
import { stampedeCache as expressCache } from '@stampede/express'
import { stampedeCache as koaCache } from '@stampede/koa'
import { stampedeFront } from '@stampede/node-http'

const require = createRequire(import.meta.url)

/** @typedef {import('node:http').IncomingMessage} Req */
/** @typedef {import('node:http').ServerResponse} Res */
/** @typedef {Record<string, string | string[]>} Fields */
/** @typedef {{ status?: number, headers?: Fields, body?: unknown }} Says */
/**
 * A handler under attack, with its cache options. The handler returns its response, or undefined if
 * it has written to `res` itself. Errors go to the framework. Bodies other than text, bytes or
 * streams are JSON.
 * @typedef {object} Target
 * @property {object} [options] of stampedeCache
 * @property {boolean} [trustProxy] the framework believes X-Forwarded-*
 * @property {(req: Req, res: Res, next: () => unknown) => unknown} [outside] a layer in front
 * @property {(req: Req, res: Res) => Says | undefined | Promise<Says | undefined>} handler
 */

/** `node`: a bare listener behind stampedeFront. */
export const FRAMEWORKS = /** @type {const} */ (['express', 'express4', 'koa', 'koa2', 'node'])

/**
 * @param {string} framework one of FRAMEWORKS
 * @param {Target} target
 * @param {object} stampede
 * @returns {import('node:http').RequestListener}
 */
export function listenerOf(framework, target, stampede) {
  /** @type {any} */
  const options = { ttlMs: 60_000, ...target.options, stampede }
  if (process.env.STAMPEDE_ATTACK_METHOD === 'QUERY') options.methods = ['GET', 'QUERY']
  if (framework === 'node') return nodeApp(target, options)
  return framework.startsWith('koa')
    ? koaApp(framework, target, options)
    : expressApp(framework, target, options)
}

/** @param {string} framework @param {Target} target @param {any} options */
function expressApp(framework, { handler, outside, trustProxy = false }, options) {
  const app = require(framework)()
  app.set('env', 'test').set('trust proxy', trustProxy)
  if (outside) app.use(outside)
  app.use(expressCache(options))
  return app.use((/** @type {any} */ req, /** @type {any} */ res, /** @type {any} */ next) => {
    answer(handler, req, res).catch(next)
  })
}

/** @param {string} framework @param {Target} target @param {any} options */
function koaApp(framework, { handler, outside, trustProxy = false }, options) {
  const Koa = require(framework)
  const app = new Koa({ proxy: trustProxy })
  app.silent = true
  if (outside)
    app.use((/** @type {any} */ ctx, /** @type {any} */ next) => outside(ctx.req, ctx.res, next))
  app.use(koaCache(options))
  app.use(async (/** @type {any} */ ctx) => {
    const said = await handler(ctx.req, ctx.res)
    if (said === undefined) {
      ctx.respond = false
      return
    }
    ctx.body = said.body ?? ''
    ctx.status = said.status ?? 200
    for (const [name, value] of Object.entries(said.headers ?? {})) ctx.set(name, value)
  })
  return app.callback()
}

/** @param {Target} target @param {any} options */
function nodeApp({ handler, outside }, options) {
  const front = stampedeFront(async (req, res) => answer(handler, req, res), options)
  /** @type {import('node:http').RequestListener} */
  return (req, res) => void (outside ? outside(req, res, () => front(req, res)) : front(req, res))
}

/** @param {Target['handler']} handler @param {Req} req @param {Res} res */
async function answer(handler, req, res) {
  const said = await handler(req, res)
  if (said === undefined) return
  const { status = 200, headers = {}, body = '' } = said
  res.statusCode = status
  for (const [name, value] of Object.entries(headers)) res.setHeader(name, value)
  if (body instanceof Readable) body.once('error', (error) => res.destroy(error)).pipe(res)
  else if (typeof body === 'string' || body instanceof Uint8Array) res.end(body)
  else res.setHeader('Content-Type', 'application/json').end(JSON.stringify(body))
}
