// Delays the end of a response until other work is done. Meanwhile the response already looks
// ended: a handler that responds a second time must get the error that Node would throw. Otherwise
// the headers of the second response would be sent with the first body, and the client would wait
// for bytes that never come.

import { type ServerResponse, validateHeaderValue } from 'node:http'
import type { OriginEnd, OriginObserver } from '@stampede/core/adapter'
import { isHttp2 } from '../request/http2.ts'

export interface CaptureObserver extends OriginObserver {
  /**
   * Called when the app has ended a response whose whole body was captured. If it returns a
   * promise, the end is sent when the promise settles. The capture then ends with `end`, even if
   * the client leaves.
   */
  beforeEnd?(end: OriginEnd): void | Promise<void>
  /**
   * How long the handler may still take after its client left, in ms. Default: see client-gone.ts.
   */
  readonly graceMs?: number
  /** The response to the client, if outer layers make it from the captured one. */
  readonly sentAs?: ServerResponse | undefined
  /** Set with `sentAs`. Resolves once it was sent, with the reason if it must not be shared. */
  readonly refusal?: Promise<'incomplete' | 'declined' | undefined> | undefined
}

/** Delays the end of one response. */
export class EndHold {
  /** Whether the app has ended the response and the end was not sent yet. */
  active = false
  readonly #res: ServerResponse
  readonly #beforeEnd: (end: OriginEnd) => void | Promise<void>

  constructor(res: ServerResponse, beforeEnd: (end: OriginEnd) => void | Promise<void>) {
    this.#res = res
    this.#beforeEnd = beforeEnd
  }

  /**
   * Whether this end may be delayed. False if Node would reject the arguments, because the error
   * must be thrown now, while the handler can catch it.
   */
  takes([chunk]: readonly unknown[], [status]: readonly unknown[]): boolean {
    const callback = typeof chunk === 'function'
    if (chunk && !callback && typeof chunk !== 'string' && !(chunk instanceof Uint8Array))
      return false
    return this.#res.headersSent || isStatusLine(Number(status), this.#res)
  }

  /**
   * Sends the end with `send`. The end of a complete response is delayed until the promise of
   * `beforeEnd` settles.
   */
  end(end: OriginEnd, args: readonly unknown[], send: (args: readonly unknown[]) => void): void {
    if (end.type !== 'complete') {
      send(args)
      return
    }
    this.active = true
    const until = this.#observe(end)
    const release = (sent: readonly unknown[]): void => {
      this.active = false
      sendSafely(this.#res, () => send(sent))
    }
    if (until === undefined) {
      release(args)
      return
    }
    const own = ownChunk(args)
    holdEnd(this.#res, until, () => release(own))
  }

  #observe(end: OriginEnd): void | Promise<void> {
    try {
      return this.#beforeEnd(end)
    } catch (error) {
      return Promise.reject(error)
    }
  }
}

/**
 * Calls `send`. If an outer layer throws in it, the error becomes a warning, because the handler
 * has returned by now and cannot catch it.
 */
function sendSafely(res: ServerResponse, send: () => void): void {
  try {
    send()
  } catch (error) {
    process.emitWarning(error instanceof Error ? error : String(error))
    res.destroy()
  }
}

/** Calls `release`, which ends the response, once `until` has settled. */
function holdEnd(res: ServerResponse, until: Promise<void>, release: () => void): void {
  const { statusCode } = res
  const restore = simulateEnd(res)
  const go = (): void => {
    const destroy = restore()
    // A second response may have assigned another status meanwhile.
    if (!res.headersSent) res.statusCode = statusCode
    release()
    destroy()
  }
  until.then(go, go)
}

function isStatusLine(status: number, res: ServerResponse): boolean {
  if (!Number.isInteger(status) || status < 100 || status > 999) return false
  if (isHttp2(res) || !res.statusMessage) return true
  try {
    validateHeaderValue('reason', res.statusMessage)
    return true
  } catch {
    return false
  }
}

/**
 * The arguments with a copy of the chunk, because the app may reuse its buffer as soon as end() has
 * returned.
 */
function ownChunk(args: readonly unknown[]): readonly unknown[] {
  const [chunk] = args
  return chunk instanceof Uint8Array ? args.with(0, Buffer.from(chunk)) : args
}

/** Properties of a response in Node after end() and before the flush. */
const ENDED = {
  headersSent: true,
  writableEnded: true,
  finished: true,
  writableFinished: false,
} as const

const HEAD_METHODS = ['setHeader', 'setHeaders', 'appendHeader', 'removeHeader', 'writeHead']

/**
 * Property descriptors of a response that looks ended. All responses share them, because creating
 * descriptors is expensive.
 */
const ENDED_PROPERTIES: ReadonlyArray<readonly [name: string, descriptor: PropertyDescriptor]> = [
  ...Object.entries(ENDED).map(
    ([name, value]) => [name, asProperty({ get: () => value, set: () => {} })] as const,
  ),
  ...HEAD_METHODS.map(
    (name) => [name, asProperty({ value: throwWhileEnded(name), writable: true })] as const,
  ),
]

function asProperty(as: PropertyDescriptor): PropertyDescriptor {
  return { ...as, configurable: true, enumerable: true }
}

interface EndedState {
  over: boolean
  /** The methods of the response from before it looked ended. */
  readonly methods: ReadonlyMap<string, unknown>
}

const endedStates = new WeakMap<object, EndedState>()

/**
 * Returns a method that throws while the response looks ended. A layer may keep this method and
 * call it later. Then it does what the original method does.
 */
function throwWhileEnded(name: string): unknown {
  return function (this: ServerResponse, ...args: unknown[]): unknown {
    const { over, methods } = endedStates.get(this) ?? {}
    const method = methods?.get(name)
    if (over !== true || typeof method !== 'function') throw headersSent(this)
    return Reflect.apply(method, this, args)
  }
}

/**
 * Makes the response look ended. The returned function restores it, and returns a function that
 * runs the delayed destroy() calls.
 */
function simulateEnd(res: ServerResponse): () => () => void {
  const before = new Map<string, PropertyDescriptor>()
  const methods = new Map<string, unknown>()
  for (const name of HEAD_METHODS) methods.set(name, Reflect.get(res, name))
  for (const [name, descriptor] of ENDED_PROPERTIES) {
    const own = Object.getOwnPropertyDescriptor(res, name)
    if (own !== undefined) before.set(name, own)
    Object.defineProperty(res, name, descriptor)
  }
  const state: EndedState = { over: false, methods }
  endedStates.set(res, state)
  const carriers = [res, carrierOf(res)].map(delayDestroy)
  return () => {
    state.over = true
    for (const [name, descriptor] of ENDED_PROPERTIES)
      putBack(res, name, descriptor, before.get(name))
    const late = carriers.flatMap((restore) => restore())
    return () => {
      for (const destroy of late) destroy()
    }
  }
}

/**
 * Delays calls of destroy() that have no error. If a handler fails after its response, frameworks
 * destroy the connection, because the response looks sent. That would cut off the delayed response.
 * Returns a function that restores destroy() and returns the delayed calls.
 */
function delayDestroy(target: { destroy(): unknown }): () => ReadonlyArray<() => unknown> {
  const { destroy } = target
  const before = Object.getOwnPropertyDescriptor(target, 'destroy')
  const late: Array<() => unknown> = []
  let over = false
  const value = (...args: unknown[]): unknown => {
    const now = (): unknown => Reflect.apply(destroy, target, args)
    if (over || (args[0] !== undefined && args[0] !== null)) return now()
    late.push(now)
    return target
  }
  const descriptor = asProperty({ value, writable: true })
  Object.defineProperty(target, 'destroy', descriptor)
  return () => {
    over = true
    putBack(target, 'destroy', descriptor, before)
    return late
  }
}

/** The object whose destroy() also destroys the response: the HTTP/2 stream or the socket. */
function carrierOf(res: ServerResponse): { destroy(): unknown } {
  const stream: unknown = Reflect.get(res, 'stream')
  return (stream as { destroy(): unknown } | undefined) ?? res.req?.socket ?? res
}

/** Restores a property, unless other code has replaced it since. */
function putBack(
  target: object,
  name: string,
  descriptor: PropertyDescriptor,
  before: PropertyDescriptor | undefined,
): void {
  const now = Object.getOwnPropertyDescriptor(target, name)
  if (now?.value !== descriptor.value || now?.get !== descriptor.get) return
  if (before === undefined) Reflect.deleteProperty(target, name)
  else Object.defineProperty(target, name, before)
}

function headersSent(res: ServerResponse): Error {
  const code = isHttp2(res) ? 'ERR_HTTP2_HEADERS_SENT' : 'ERR_HTTP_HEADERS_SENT'
  return Object.assign(new Error('Cannot set headers after they are sent to the client'), { code })
}
