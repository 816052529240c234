// ctx.body of a hit that layers in front can see. A layer's read makes the value of the kind that
// the handler set. Koa's own read, after the last layer, takes the stored bytes: nothing is parsed.

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
  /** Whether a layer has read it, and so may have changed it in place. */
  isRead = false
  #value: unknown

  /** `value`: what the handler set, if this request has run it. */
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

/** The same functions for each response, so that all hits share one hidden class. */
const LAZY: PropertyDescriptor & ThisType<LazyResponse> = {
  configurable: true,
  get() {
    const stored = this[STORED]
    const isKoas = responding === this.ctx
    if (isKoas) responding = undefined
    // A layer that wraps `end` gets the chunk that Koa makes of the value.
    if (!isKoas || stored.isRead || isWrapped(this.res)) return stored.read()
    if (stored.kind === 'json') measure(this, stored.bytes)
    return stored.bytes
  },
  set(value: unknown) {
    Reflect.deleteProperty(this, 'body')
    this.body = value
  },
}

/** Koa sets the length of JSON when it sends it, whatever a layer has set. */
function measure(response: Response, { byteLength }: Buffer): void {
  if (response.headerSent) return
  if (response.req.method !== 'HEAD' || !response.res.hasHeader('Content-Length'))
    response.length = byteLength
}

/** Sets ctx.body to stored bytes, of a kind that is no stream. Koa guesses a type if there is none. */
export function setLazyBody(ctx: Context, bytes: Buffer, kind: BodyKind | undefined): void {
  const { app, response } = ctx
  if (hasOwnBody(app)) {
    response.body = bodyOfKind(bytes, kind)
    return
  }
  // Koa's own setter: status, length, and the end of a stream that was set before.
  response.body = bytes
  defineLazy(ctx, new StoredBody(bytes, kind, undefined))
}

/**
 * Has Koa send the JSON that was made of the handler's object, and not make it again. Only where no
 * layer is in front: one may change the object, and know it from elsewhere than ctx.body.
 */
export function sendJson(ctx: Context, json: Buffer, value: unknown): void {
  if (!hasOwnBody(ctx.app)) defineLazy(ctx, new StoredBody(json, 'json', value))
}

function defineLazy({ app, response }: Context, stored: StoredBody): void {
  tellLastRead(app)
  Object.assign(response, { [STORED]: stored })
  Object.defineProperty(response, 'body', LAZY)
}

/** Whether the app reads and sets a body in a way of its own. */
function hasOwnBody({ context, response }: Koa): boolean {
  return Object.hasOwn(response, 'body') || Object.hasOwn(context, 'body')
}

/** While Koa's respond() runs, until it has read the body. */
let responding: unknown

type Run = (ctx: Context) => Promise<unknown>

/** As Koa calls it for each request. */
interface Handling {
  handleRequest(ctx: Context, run: Run): unknown
}

const told = new WeakSet<object>()

/**
 * Koa calls respond() as soon as its outermost layer has returned, and nothing else tells when that
 * is. Where an app handles its requests in a way of its own, Koa's read is taken for a layer's.
 */
function tellLastRead(app: object): void {
  if (told.has(app)) return
  told.add(app)
  const handleRequest: unknown = Reflect.get(app, 'handleRequest')
  if (typeof handleRequest !== 'function' || !isKoas(app)) return
  const own: Handling = {
    handleRequest(ctx, run) {
      const runs = (context: Context): LastTurn => new LastTurn(context, run(context))
      return Reflect.apply(handleRequest, this, [ctx, runs])
    },
  }
  Object.assign(app, own)
}

/** Whether its handleRequest is that of the class Application, not of a subclass. */
function isKoas(app: object): boolean {
  let owner: object | null = app
  while (owner !== null && !Object.hasOwn(owner, 'handleRequest')) {
    owner = Object.getPrototypeOf(owner)
  }
  return owner !== null && Object.hasOwn(owner, 'createContext') && Object.hasOwn(owner, 'listen')
}

/** The promise of the layers; what is called when it is fulfilled is Koa's respond(). */
class LastTurn implements PromiseLike<unknown> {
  readonly #ctx: Context
  readonly #layers: Promise<unknown>

  constructor(ctx: Context, layers: Promise<unknown>) {
    this.#ctx = ctx
    this.#layers = layers
  }

  // biome-ignore lint/suspicious/noThenProperty: Koa calls it; a second promise would delay each response
  then<A, B>(
    respond?: ((value: unknown) => A | PromiseLike<A>) | null,
    failed?: ((error: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    const isLast = (value: unknown): A | PromiseLike<A> => {
      responding = this.#ctx
      try {
        return respond?.(value) as A
      } finally {
        responding = undefined
      }
    }
    return this.#layers.then(respond && isLast, failed) as Promise<A | B>
  }

  catch(failed: (error: unknown) => unknown): Promise<unknown> {
    return this.#layers.catch(failed)
  }

  finally(settled: () => void): Promise<unknown> {
    return this.#layers.finally(settled)
  }
}
