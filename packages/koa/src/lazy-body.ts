// A lazy ctx.body for hits, if layers in front of the cache can read ctx.body. A layer that reads
// ctx.body gets a value of the kind that the handler set. If only Koa reads ctx.body, after the
// last layer, Koa gets the stored bytes. So most hits parse nothing.

import type { BodyKind } from '@stampede/core/adapter'
import { isWrapped } from '@stampede/node-http/adapter'
import type Koa from 'koa'
import type { Context, Response } from 'koa'
import { bodyOfKind } from './koa-body.ts'

const STORED: unique symbol = Symbol('stampede.stored')

type LazyResponse = Response & { [STORED]: StoredBody }

class StoredBody {
  readonly bytes: Buffer
  readonly kind: BodyKind | undefined
  /** Whether a layer has read the value. It may then have changed the value in place. */
  isRead = false
  #value: unknown

  /** `value` is the value that the handler set, if this request has run the handler. */
  constructor(bytes: Buffer, kind: BodyKind | undefined, value: unknown) {
    this.bytes = bytes
    this.kind = kind
    this.#value = value
  }

  read(): unknown {
    this.isRead = true
    this.#value ??= bodyOfKind(this.bytes, this.kind)
    return this.#value
  }
}

/**
 * The property `body` of a lazy response. All responses share this descriptor, so that they have
 * one hidden class.
 */
const LAZY: PropertyDescriptor & ThisType<LazyResponse> = {
  configurable: true,
  get() {
    const stored = this[STORED]
    const isReadByKoa = responding === this.ctx
    if (isReadByKoa) responding = undefined
    // A layer that wraps `end` of the response must get the chunk that Koa would make from the
    // value.
    if (!isReadByKoa || stored.isRead || isWrapped(this.res)) return stored.read()
    if (stored.kind === 'json') setLength(this, stored.bytes)
    return stored.bytes
  },
  set(value: unknown) {
    Reflect.deleteProperty(this, 'body')
    this.body = value
  },
}

/** Sets the Content-Length, as Koa does when it sends JSON. */
function setLength(response: Response, { byteLength }: Buffer): void {
  if (response.headerSent) return
  if (response.req.method !== 'HEAD' || !response.res.hasHeader('Content-Length'))
    response.length = byteLength
}

/** Sets ctx.body to stored bytes of any kind except `stream`. Koa may guess a Content-Type. */
export function setLazyBody(ctx: Context, bytes: Buffer, kind: BodyKind | undefined): void {
  const { app, response } = ctx
  if (hasOwnBody(app)) {
    response.body = bodyOfKind(bytes, kind)
    return
  }
  // Koa's own setter sets status and length, and destroys a stream that was set before.
  response.body = bytes
  defineLazy(ctx, new StoredBody(bytes, kind, undefined))
}

/**
 * Makes Koa send the JSON that the capture made from the handler's object, so that Koa need not
 * make it again. Not for use with a layer in front, because such a layer may change the object even
 * without reading ctx.body.
 */
export function sendJson(ctx: Context, json: Buffer, value: unknown): void {
  if (!hasOwnBody(ctx.app)) defineLazy(ctx, new StoredBody(json, 'json', value))
}

function defineLazy({ app, response }: Context, stored: StoredBody): void {
  detectLastRead(app)
  Object.assign(response, { [STORED]: stored })
  Object.defineProperty(response, 'body', LAZY)
}

/** Whether the app defines its own property `body`. */
function hasOwnBody({ context, response }: Koa): boolean {
  return Object.hasOwn(response, 'body') || Object.hasOwn(context, 'body')
}

/** The context for which Koa's respond() runs, until it has read the body. */
let responding: unknown

type Run = (ctx: Context) => Promise<unknown>

/** The method of an app that Koa calls for each request. */
interface RequestHandler {
  handleRequest(ctx: Context, run: Run): unknown
}

const patched = new WeakSet<object>()

/**
 * Patches `handleRequest` of the app, to know when Koa calls respond(). Koa calls it as soon as the
 * outermost layer has returned. In an app with its own `handleRequest`, a read by Koa counts as a
 * read by a layer.
 */
function detectLastRead(app: object): void {
  if (patched.has(app)) return
  patched.add(app)
  const handleRequest: unknown = Reflect.get(app, 'handleRequest')
  if (typeof handleRequest !== 'function' || !isHandledByKoa(app)) return
  const own: RequestHandler = {
    handleRequest(ctx, run) {
      const runs = (context: Context): LayersPromise => new LayersPromise(context, run(context))
      return Reflect.apply(handleRequest, this, [ctx, runs])
    },
  }
  Object.assign(app, own)
}

/** Whether `handleRequest` of the app is that of Koa's class Application, not of a subclass. */
function isHandledByKoa(app: object): boolean {
  let owner: object | null = app
  while (owner !== null && !Object.hasOwn(owner, 'handleRequest')) {
    owner = Object.getPrototypeOf(owner)
  }
  return owner !== null && Object.hasOwn(owner, 'createContext') && Object.hasOwn(owner, 'listen')
}

/** The promise of all layers. The function that Koa passes to `then` is its respond(). */
class LayersPromise implements PromiseLike<unknown> {
  readonly #ctx: Context
  readonly #layers: Promise<unknown>

  constructor(ctx: Context, layers: Promise<unknown>) {
    this.#ctx = ctx
    this.#layers = layers
  }

  // biome-ignore lint/suspicious/noThenProperty: Koa calls it, and a real promise would be slower
  then<A, B>(
    respond?: ((value: unknown) => A | PromiseLike<A>) | null,
    failed?: ((error: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    const onSettled = (value: unknown): A | PromiseLike<A> => {
      responding = this.#ctx
      try {
        return respond?.(value) as A
      } finally {
        responding = undefined
      }
    }
    return this.#layers.then(respond && onSettled, failed) as Promise<A | B>
  }

  catch(failed: (error: unknown) => unknown): Promise<unknown> {
    return this.#layers.catch(failed)
  }

  finally(settled: () => void): Promise<unknown> {
    return this.#layers.finally(settled)
  }
}
