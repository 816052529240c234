// Core's `Exchange` for plain node:http, and for frameworks whose handlers get (req, res, next),
// such as Express.

import { AsyncResource } from 'node:async_hooks'
import type { IncomingMessage, ServerResponse } from 'node:http'
import {
  type Exchange,
  type HttpCache,
  type OriginEnd,
  type OriginObserver,
  OWN_FIELDS,
  type ReadLog,
  type ReadyReply,
  type Reply,
  type RequestView,
} from '@stampede/core/adapter'
import { hasLeft } from './request/client-gone.ts'
import { hideConditionals } from './request/conditionals.ts'
import { type RequestAddress, readRequest, rememberPeer } from './request/read-request.ts'
import { type Reads, watchReads } from './request/watch-reads.ts'
import { notCaptured } from './response/body.ts'
import { Capture } from './response/capture.ts'
import { addAtHead, refusalOf, watchHead } from './response/head.ts'
import { writeReady, writeReply } from './response/write-response.ts'
import {
  type Dispatch,
  enterOrigin,
  isInsideOrigin,
  isTakenOn,
  redispatch,
  takeRevalidation,
} from './revalidation.ts'

/** A request in a framework, with the framework's own objects and address. */
export interface RequestVisit<Native> {
  readonly req: IncomingMessage
  readonly res: ServerResponse
  readonly native: Native
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
export class RequestExchange<Native, Visit extends RequestVisit<Native> = RequestVisit<Native>> {
  readonly request: RequestView
  readonly native: Native
  protected readonly visit: Visit
  readonly #owner: object
  /**
   * Set when the handler runs. After that, a client whose response has ended normally must not
   * count as gone.
   */
  protected run: { isLeft(): boolean } | undefined
  #context: AsyncResource | undefined

  /** `owner` is the object by which the cache recognises its own background refreshes. */
  constructor(visit: Visit, request: RequestView, owner: object) {
    this.request = request
    this.native = visit.native
    this.visit = visit
    this.#owner = owner
  }

  isGone(): boolean {
    return this.run?.isLeft() ?? hasLeft(this.visit.res)
  }

  prepare(): void {
    rememberPeer(this.visit.req)
    this.captureContext()
  }

  captureContext(): void {
    this.#context = new AsyncResource('StampedeRefresh')
  }

  /**
   * Runs the app in the async context of this request. The current one may be that of another
   * request, which began the flight.
   */
  protected inContext<Result>(run: () => Result): Result {
    return this.#context === undefined ? run() : this.#context.runInAsyncScope(run)
  }

  redispatch(observer: OriginObserver): Promise<OriginEnd> {
    const { dispatch, req: from, address } = this.visit
    const { target, chosenBy } = address
    this.#context ??= new AsyncResource('StampedeRefresh')
    const [owner, context] = [this.#owner, this.#context]
    return redispatch({ from, target, chosenBy, owner, observer, dispatch, context })
  }
}

/** Parts of an exchange that differ between frameworks. */
export interface NodeFramework<Native> {
  readonly allowsEtag?: Exchange<Native>['allowsEtag']
  readonly routeOf?: Exchange<Native>['routeOf']
  /** For the option `audit`: records what the handler reads of `native`. */
  readonly watch?: (native: Native, reads: Reads) => void
  /** Called before the request is passed to the app. It is not called for a hit. */
  readonly beforeRun?: (req: IncomingMessage, res: ServerResponse) => void
}

/**
 * Returns a function that a middleware calls for each request. An error of the cache itself goes to
 * `next`.
 */
export function createNodeCache<Native>(
  cache: HttpCache<Native>,
  framework: NodeFramework<Native> = {},
): (visit: NodeVisit<Native>) => void {
  return (visit) => {
    const { req, res, next, native, address } = visit
    const revalidation = takeRevalidation(req, cache, address.chosenBy)
    const isInside = isInsideOrigin(req)
    if (revalidation === 'foreign' && !isInside) return next()
    const request = readRequest(req, address)
    try {
      if (isInside && isTakenOn(req, cache.inner({ request, native }, [native, res]))) return next()
    } catch (error) {
      return next(error)
    }
    const exchange = new NodeExchange(visit, request, cache, framework)
    if (typeof revalidation === 'object') {
      exchange.prepare()
      exchange.runOrigin(revalidation.observer).then(revalidation.settle)
      return
    }
    try {
      cache.handle(exchange)?.catch((error) => exchange.failed(error))
    } catch (error) {
      exchange.failed(error)
    }
  }
}

class NodeExchange<Native>
  extends RequestExchange<Native, NodeVisit<Native>>
  implements Exchange<Native>
{
  readonly allowsEtag?: (native: Native) => boolean
  readonly routeOf?: (native: Native) => string | undefined
  /** Whether the request was passed to the app, or a response was sent. */
  begun = false
  readonly #framework: NodeFramework<Native>

  constructor(
    visit: NodeVisit<Native>,
    request: RequestView,
    owner: object,
    framework: NodeFramework<Native>,
  ) {
    super(visit, request, owner)
    this.#framework = framework
    if (framework.allowsEtag !== undefined) this.allowsEtag = framework.allowsEtag
    if (framework.routeOf !== undefined) this.routeOf = framework.routeOf
  }

  forward(...[add, { onHead, onInner, onEnd } = {}]: Parameters<Exchange['forward']>): void {
    const { req, res, next } = this.visit
    this.begun = true
    this.#framework.beforeRun?.(req, res)
    if (onInner !== undefined) enterOrigin(req, onInner)
    addAtHead(res, add, OWN_FIELDS)
    if (onHead !== undefined) watchHead(res, (head) => onHead(head, [this.native, res]))
    if (onEnd !== undefined) res.once('close', onEnd)
    next()
  }

  runOrigin(observer: OriginObserver): Promise<OriginEnd> {
    const { req, res, outer, next } = this.visit
    this.begun = true
    this.#framework.beforeRun?.(req, res)
    const showConditionals = hideConditionals(req, observer.conditions)
    const refusal = outer && refusalOf(outer)
    const showsEarly = observer.conditions !== undefined && showConditionals !== undefined
    const beforeHead = (): void => {
      // Outer layers act on the head, and would otherwise see the conditions of the cache.
      if (showsEarly) showConditionals()
      // Outer layers may make the response private later. Waiters then need no body.
      refusal?.then((reason) => reason && capture.stop(reason))
    }
    const capture = new Capture(res, observer, {
      natives: [this.native, res],
      sentAs: outer,
      beforeHead: showsEarly || refusal ? beforeHead : undefined,
    })
    this.run = capture
    enterOrigin(req, (inner) => {
      const add = observer.onInner?.(inner)
      if (add === undefined) return undefined
      // Only the inner cache captures the response, because two captures of one response would
      // disturb each other.
      capture.stop()
      showConditionals?.()
      addAtHead(res, add, OWN_FIELDS)
      return add
    })
    try {
      this.inContext(next)
    } catch (error) {
      // Frameworks catch errors of handlers. An error of a bare listener stays uncaught, as without
      // the cache.
      process.nextTick(next, error)
      showConditionals?.()
      return Promise.resolve({ type: 'failed', status: 500, error })
    }
    const ended = refusal ? unlessRefused(capture.ended, refusal) : capture.ended
    return showConditionals ? ended.finally(showConditionals) : ended
  }

  watchReads(): ReadLog {
    const { req, res, native } = this.visit
    const reads = watchReads(req, res, Object(native))
    const { watch = (request: Native) => reads.watch(Object(request), 'request') } = this.#framework
    if (!Object.is(native, req)) watch(native, reads)
    return reads
  }

  send(reply: Reply): void {
    this.#sent(writeReply(this.visit.res, reply))
  }

  sendReady(ready: ReadyReply): void {
    this.#sent(writeReady(this.visit.res, ready))
  }

  /** Passes an error of the cache itself to the app. */
  failed(error: unknown): void {
    // If the handler already runs, calling `next` again would send a second response.
    if (this.begun) process.emitWarning(error instanceof Error ? error : String(error))
    else this.visit.next(error)
  }

  /** Runs the handler if the reply could not be sent. */
  #sent(isSent: boolean): void {
    this.begun = true
    if (!isSent) this.visit.next()
  }
}

/** The end of a run, or why it must not be shared. */
async function unlessRefused(
  ended: Promise<OriginEnd>,
  refusal: ReturnType<typeof refusalOf>,
): Promise<OriginEnd> {
  const end = await ended
  const reason = end.type === 'not-captured' ? undefined : await refusal
  return reason === undefined ? end : notCaptured(reason)
}
