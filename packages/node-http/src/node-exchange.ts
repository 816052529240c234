// The Exchange port over a callback-style framework: (req, res, next). Express and plain node:http.

import { AsyncResource } from 'node:async_hooks'
import type { IncomingMessage, ServerResponse } from 'node:http'
import {
  type Begun,
  type Exchange,
  type HttpCache,
  type Natives,
  type OriginObserver,
  OWN_FIELDS,
  type RequestView,
} from '@stampede/core/adapter'
import { hasLeft, watchLeft } from './request/client-gone.ts'
import { hideConditionals } from './request/hide-conditionals.ts'
import { type RequestAddress, readRequest, rememberPeer } from './request/read-request.ts'
import { watchReads } from './request/watch-reads.ts'
import { openCapture } from './response/capture-response.ts'
import { withNatives } from './response/judge-head.ts'
import { canBreakOff, writeLive } from './response/live-stream.ts'
import { watchHead } from './response/watch-head.ts'
import { addAtHead } from './response/write-head.ts'
import { writeReady, writeReply } from './response/write-response.ts'
import { enterOrigin, isInsideOrigin, isTakenOn } from './revalidation/origin-scope.ts'
import { type Dispatch, redispatch, takeRevalidation } from './revalidation/revalidation.ts'

/** A request on its way through a framework. */
export interface NodeVisit<Native> {
  readonly req: IncomingMessage
  readonly res: ServerResponse
  /** Goes on to the app, or tells it of an error. */
  readonly next: (error?: unknown) => void
  readonly native: Native
  readonly address: RequestAddress
  /** The way into the whole app, for a refresh. */
  readonly dispatch: Dispatch
}

interface NodeExchange<Native> extends Exchange<Native> {
  /** The request was handed to the app, or answered. */
  readonly begun: boolean
}

/** What a middleware calls for each request. An error of the cache itself goes to `next`. */
export function createNodeCache<Native>(
  cache: HttpCache<Native>,
  allowsEtag?: Exchange<Native>['allowsEtag'],
): (visit: NodeVisit<Native>) => void {
  return (visit) => {
    const { req, res, next, native, address } = visit
    const revalidation = takeRevalidation(req, cache)
    if (revalidation === 'foreign' && !isInsideOrigin(req)) return next()
    const request = readRequest(req, address)
    let begun: Begun
    try {
      if (isTakenOn(req, () => cache.inner({ request, native }, [native, res]))) return next()
      if (typeof revalidation === 'object') {
        const exchange = createNodeExchange(visit, request, cache, allowsEtag)
        exchange.runOrigin(revalidation.observer).then(revalidation.settle)
        return
      }
      const answer = cache.begin(request, native)
      if (answer.type === 'ready') return writeReady(res, answer) ? undefined : next()
      begun = answer
    } catch (error) {
      return next(error)
    }
    handle(cache, createNodeExchange(visit, request, cache, allowsEtag), begun, next)
  }
}

function handle<Native>(
  cache: HttpCache<Native>,
  exchange: NodeExchange<Native>,
  begun: Begun,
  next: NodeVisit<Native>['next'],
): void {
  const failed = (error: unknown): void => {
    // Once the app is at work, a second way into it would answer twice.
    if (exchange.begun) process.emitWarning(error instanceof Error ? error : String(error))
    else next(error)
  }
  try {
    cache.handle(exchange, begun)?.catch(failed)
  } catch (error) {
    failed(error)
  }
}

/** Layers further out act on the head, and would take conditions of ours for the client's: `then` puts those back before. */
function atHead(observer: OriginObserver, then: () => void): OriginObserver {
  if (observer.conditions === undefined) return observer
  return {
    ...observer,
    onHead(...head) {
      then()
      return observer.onHead(...head)
    },
  }
}

function createNodeExchange<Native>(
  visit: NodeVisit<Native>,
  request: RequestView,
  owner: object,
  allowsEtag: Exchange<Native>['allowsEtag'],
): NodeExchange<Native> {
  const { req, res, next, native, address } = visit
  const natives: Natives = [native, res]
  let begun = false
  let isGone = () => hasLeft(res)
  rememberPeer(req)
  const context = new AsyncResource('StampedeRefresh')
  return {
    request,
    native,
    isGone: () => isGone(),
    get begun() {
      return begun
    },
    bypass(add, onHead, onInner) {
      begun = true
      if (onInner !== undefined) enterOrigin(req, onInner)
      addAtHead(res, add, OWN_FIELDS)
      if (onHead !== undefined) watchHead(res, (head) => onHead(head, natives))
      next()
    },
    async runOrigin(observer) {
      begun = true
      isGone = watchLeft(res)
      const showConditionals = hideConditionals(req, observer.conditions)
      const capture = openCapture(res, withNatives(atHead(observer, showConditionals), natives))
      enterOrigin(req, (inner) => {
        const add = observer.onInner?.(inner)
        if (add === undefined) return undefined
        // Of two captures of one response, each would take the other for the wire.
        capture.stop()
        showConditionals()
        addAtHead(res, add, OWN_FIELDS)
        return add
      })
      try {
        next()
        return await capture.ended
      } catch (error) {
        // Frameworks catch what handlers throw; a bare listener's exception stays uncaught, as without us.
        process.nextTick(next, error)
        return { type: 'failed', status: 500, error }
      } finally {
        showConditionals()
      }
    },
    send(reply) {
      begun = true
      if (!writeReply(res, reply)) next()
    },
    sendReady(ready) {
      begun = true
      if (!writeReady(res, ready)) next()
    },
    ...(allowsEtag && { allowsEtag }),
    watchReads: () => watchReads(req),
    sendLive: canBreakOff(req)
      ? (reply) => {
          begun = true
          if (!writeLive(res, reply)) next()
        }
      : undefined,
    redispatch(observer) {
      const { dispatch } = visit
      const { target } = address
      return redispatch({ from: req, target, owner, observer, dispatch, context })
    },
  }
}
