// Core's `Exchange` for plain node:http, and for frameworks whose handlers get (req, res, next),
// such as Express.

import { AsyncResource } from 'node:async_hooks'
import type { IncomingMessage, ServerResponse } from 'node:http'
import {
  type createHttpCache,
  type Exchange,
  type OriginEnd,
  type OriginObserver,
  OWN_FIELDS,
  type Reply,
} from '@stampede/core/adapter'
import {
  type BodyVisit,
  bytesToSend,
  discardRequestBody,
  keepBody,
  type RequestBody,
  readRequestBody,
} from './request/body.ts'
import { type Departure, hasLeft } from './request/client-gone.ts'
import { HIDDEN, hideConditionals } from './request/conditionals.ts'
import { isHttp2, type RequestAddress, readRequest } from './request/read-request.ts'
import { watchReads } from './request/watch-reads.ts'
import { notCaptured } from './response/body.ts'
import { Capture } from './response/capture.ts'
import { addAtHead, SentHead, watchHead } from './response/head.ts'
import { writeReply } from './response/write-response.ts'
import {
  type Dispatch,
  MARK,
  type Marked,
  redispatch,
  takeRefresh,
  tlsMembersOf,
} from './revalidation.ts'

type HttpCache<Native> = ReturnType<typeof createHttpCache<Native>>
type RequestView = Exchange['request']

/** A request in a framework, with the framework's own objects and address. */
export interface RequestVisit<Native> extends BodyVisit<Native> {
  readonly res: ServerResponse
  readonly address: RequestAddress
  /** Sends a request through the whole app, for a background refresh. */
  readonly dispatch: Dispatch
}

/** A request in a framework with callbacks, such as Express. */
export interface NodeVisit<Native> extends RequestVisit<Native> {
  /** The response to the client, if outer layers make it from `res` after the capture. */
  readonly outer?: ServerResponse
  /** Passes the request or an error to the next handler of the app. */
  readonly next: (error?: unknown) => void
}

/**
 * The part of an exchange that all frameworks share. It is a class, so that a hit creates no
 * closures.
 */
export abstract class RequestExchange<
  Native,
  Visit extends RequestVisit<Native> = RequestVisit<Native>,
> implements Exchange<Native>
{
  readonly request: RequestView
  readonly native: Native
  protected readonly visit: Visit
  readonly #cache: HttpCache<Native>
  /**
   * Set when the handler runs. After that, a client whose response has ended normally must not
   * count as gone.
   */
  protected run: { readonly departure: Departure } | undefined
  #context: AsyncResource | undefined
  /** Whether a layer in front has read the body of a QUERY. */
  #wasRead = false

  constructor(visit: Visit, cache: HttpCache<Native>) {
    this.request = readRequest(visit.req, visit.address)
    this.native = visit.native
    this.visit = visit
    this.#cache = cache
  }

  abstract forward(...args: Parameters<Exchange['forward']>): void
  abstract runOrigin(observer: OriginObserver): void
  abstract send(reply: Reply): void
  /** Passes the request to the next handler, as if there was no cache. */
  protected abstract pass(): void

  /**
   * Lets the cache handle the request. `response` is the framework's object. Throws or rejects only
   * with an error of a callback option.
   */
  enter(response: unknown): void | Promise<void> {
    const { req, address } = this.visit
    const cache = this.#cache
    const mark = (req as Marked)[MARK]
    if (mark === undefined) return cache.handle(this)
    if (typeof mark === 'function') {
      const inner = cache.inner(this, [this.native, response])
      return inner && mark(inner) ? cache.handle(this) : this.pass()
    }
    const refresh = takeRefresh(req, cache, address.chosenBy, () => this.#parsedNow())
    if (refresh === undefined) return this.pass()
    this.captureContext()
    return this.runOrigin(refresh)
  }

  /** The bytes for the value that a parser in front has made of the body, if one has. */
  #parsedNow(): Uint8Array | undefined {
    const { visit } = this
    const body = readRequestBody(visit, Number.POSITIVE_INFINITY)
    return body instanceof Promise ? undefined : bytesToSend(visit.req, body, true)
  }

  isGone(): boolean {
    return this.run?.departure.left ?? hasLeft(this.visit.res)
  }

  async readBody(maxBytes: number): Promise<RequestBody> {
    const { visit } = this
    const { req, res } = visit
    this.#wasRead = req.readableDidRead
    const body = await readRequestBody(visit, maxBytes)
    keepBody(req, body)
    // A handler that does not run reads nothing. Over HTTP/2, the stream would stay open.
    res.once('finish', () => discardRequestBody(req))
    return body
  }

  captureContext(): AsyncResource {
    const { req, res } = this.visit
    // Node drops the address and the TLS state of a client when its connection closes, and a
    // background refresh may run after that. Both are kept once they have been read.
    void req.socket.remoteAddress
    if (isHttp2(res) || 'encrypted' in req.socket) tlsMembersOf(req)
    this.#context = new AsyncResource('StampedeRefresh')
    return this.#context
  }

  /** Writes the reply past the framework. False: it cannot be sent, and nothing has changed. */
  protected write(reply: Reply): boolean {
    return writeReply(this.visit.res, reply)
  }

  /**
   * Prepares a run of the handler that is not captured. Returns a function that reports the head to
   * `onHead`, if no head will be written.
   */
  protected watchRun(
    response: unknown,
    ...[add, { onHead, onInner, onEnd } = {}]: Parameters<Exchange['forward']>
  ): (() => void) | undefined {
    const { req, res }: { req: Marked; res: ServerResponse } = this.visit
    if (onInner !== undefined) req[MARK] = onInner
    addAtHead(res, add, OWN_FIELDS)
    if (onEnd !== undefined) res.once('close', onEnd)
    return onHead && watchHead(res, (head) => onHead(head, [this.native, response]))
  }

  /**
   * Prepares a run of the handler that is captured. If an inner cache takes the response, calls
   * `stop`. Returns a function that shows the client's conditions and ranges again, if they were
   * hidden.
   */
  protected prepareRun(observer: OriginObserver, stop: () => void): (() => void) | undefined {
    const { req, res }: { req: Marked; res: ServerResponse } = this.visit
    const { conditions } = observer
    let hides = conditions !== undefined
    for (const name of HIDDEN) if (req.headers[name] !== undefined) hides = true
    const showConditionals = hides ? hideConditionals(req, conditions) : undefined
    const onInner: NonNullable<OriginObserver['onInner']> = (inner) => {
      const add = observer.onInner?.(inner)
      if (add === undefined) return undefined
      // Only the inner cache captures the response, because two captures of one response would
      // disturb each other.
      stop()
      showConditionals?.()
      addAtHead(res, add, OWN_FIELDS)
      return add
    }
    req[MARK] = onInner
    this.#cache.audit?.(this.request, observer, watchReads(this.visit))
    return showConditionals
  }

  /**
   * Runs the app in the async context of this request. The current one may be that of another
   * request, which began the flight.
   */
  protected inContext<Result>(run: () => Result): Result {
    return this.#context === undefined ? run() : this.#context.runInAsyncScope(run)
  }

  redispatch(observer: OriginObserver): void {
    const { dispatch, req: from, address } = this.visit
    const { target, chosenBy } = address
    this.#context ??= new AsyncResource('StampedeRefresh')
    const [owner, context] = [this.#cache, this.#context]
    const { content } = this.request
    const body = content && (bytesToSend(from, content.body, this.#wasRead) ?? 'unknown')
    const isParsed = content?.body.type === 'parsed'
    redispatch({ from, target, body, isParsed, chosenBy, owner, observer, dispatch, context })
  }
}

/** Parts of a run that differ between frameworks. */
export interface NodeFramework {
  /** Called before the request is passed to the app. It is not called for a hit. */
  readonly beforeRun?: (req: IncomingMessage, res: ServerResponse) => void
}

/**
 * Returns a function that a middleware calls for each request. An error of the cache itself goes to
 * `next`.
 */
export function createNodeCache<Native>(
  cache: HttpCache<Native>,
  framework: NodeFramework = {},
): (visit: NodeVisit<Native>) => void {
  return (visit) => {
    const exchange = new NodeExchange(visit, cache, framework)
    try {
      exchange.enter(visit.res)?.catch((error) => exchange.failed(error))
    } catch (error) {
      exchange.failed(error)
    }
  }
}

class NodeExchange<Native> extends RequestExchange<Native, NodeVisit<Native>> {
  /** Whether the request was passed to the app, or a response was sent. */
  begun = false
  readonly #framework: NodeFramework

  constructor(visit: NodeVisit<Native>, cache: HttpCache<Native>, framework: NodeFramework) {
    super(visit, cache)
    this.#framework = framework
  }

  forward(...args: Parameters<Exchange['forward']>): void {
    const { req, res } = this.visit
    this.#framework.beforeRun?.(req, res)
    this.watchRun(res, ...args)
    this.pass()
  }

  runOrigin(observer: OriginObserver): void {
    const { req, res, outer, next } = this.visit
    this.begun = true
    this.#framework.beforeRun?.(req, res)
    const showConditionals = this.prepareRun(observer, () => capture.stop())
    const refusal =
      outer && new Promise<SentHead['refusal']>((headOver) => new SentHead(outer, { headOver }))
    const showsEarly = observer.conditions !== undefined
    const beforeHead = (): void => {
      // Outer layers act on the head, and would otherwise see the conditions of the cache.
      if (showsEarly) showConditionals?.()
      // Outer layers may make the response private later. Waiters then need no body.
      refusal?.then((reason) => reason && capture.stop(reason))
    }
    const ended = async (end: OriginEnd): Promise<void> => {
      const reason = end.type === 'not-captured' ? undefined : await refusal
      showConditionals?.()
      observer.ended(reason === undefined ? end : notCaptured(reason))
    }
    const capture = new Capture(res, observer, {
      natives: [this.native, res],
      sentAs: outer,
      beforeHead: showsEarly || refusal ? beforeHead : undefined,
      ended: showConditionals || refusal ? ended : undefined,
    })
    this.run = capture
    try {
      this.inContext(next)
    } catch (error) {
      // Frameworks catch errors of handlers. An error of a bare listener stays uncaught, as without
      // the cache.
      process.nextTick(next, error)
      showConditionals?.()
      process.nextTick(observer.ended, { type: 'failed', status: 500, error })
    }
  }

  /** Runs the handler if the reply cannot be sent. */
  send(reply: Reply): void {
    this.begun = true
    if (!this.write(reply)) this.visit.next()
  }

  protected pass(): void {
    this.begun = true
    this.visit.next()
  }

  /** Passes an error of the cache itself to the app. */
  failed(error: unknown): void {
    // If the handler already runs, calling `next` again would send a second response.
    if (this.begun) process.emitWarning(error instanceof Error ? error : String(error))
    else this.visit.next(error)
  }
}
