// Delays the end of a response until other work is done. Meanwhile the response already looks
// ended: a handler that responds a second time must get the error that Node would throw. Otherwise
// the headers of the second response would be sent with the first body, and the client would wait
// for bytes that never come.

import { type ServerResponse, validateHeaderValue } from 'node:http'
import type { OriginEnd } from '@stampede/core/adapter'
import { isHttp2 } from '../request/read-request.ts'
import { breakOff } from './write-response.ts'

export interface EndObserver {
  /**
   * Called when the app has ended a response whose whole body was captured. If it returns a
   * promise, the end is sent when the promise settles. The capture then ends with `end`, even if
   * the client leaves.
   */
  beforeEnd?(end: OriginEnd): void | Promise<void>
}

/** Delays the end of one response. */
export class EndHold {
  /** Whether the app has ended the response and the end was not sent yet. */
  active = false
  readonly #res: ServerResponse
  readonly #observer: EndObserver

  constructor(res: ServerResponse, observer: EndObserver) {
    this.#res = res
    this.#observer = observer
  }

  /**
   * Whether this end may be delayed. False if Node would reject the arguments, because the error
   * must be thrown now, while the handler can catch it.
   */
  takes([chunk]: readonly unknown[], [status]: readonly unknown[]): boolean {
    const isBody = typeof chunk === 'string' || chunk instanceof Uint8Array
    if (chunk && !isBody && typeof chunk !== 'function') return false
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
    let until: void | Promise<void>
    try {
      until = this.#observer.beforeEnd?.(end)
    } catch (error) {
      until = Promise.reject(error)
    }
    if (until === undefined) {
      this.#release(args, send)
      return
    }
    // A copy of the chunk, because the app may reuse its buffer as soon as end() has returned.
    const [chunk] = args
    const own = chunk instanceof Uint8Array ? args.with(0, Buffer.from(chunk)) : args
    const { statusCode } = this.#res
    const ended = new EndedLook(this.#res)
    const go = (): void => {
      ended.restore()
      // A second response may have assigned another status meanwhile.
      if (!this.#res.headersSent) this.#res.statusCode = statusCode
      this.#release(own, send)
      for (const destroy of ended.late) destroy()
    }
    until.then(go, go)
  }

  /**
   * Calls `send`. If an outer layer throws in it, the error becomes a warning, because the handler
   * has returned by now and cannot catch it.
   */
  #release(args: readonly unknown[], send: (args: readonly unknown[]) => void): void {
    this.active = false
    try {
      send(args)
    } catch (error) {
      process.emitWarning(error instanceof Error ? error : String(error))
      breakOff(this.#res)
    }
  }
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

type AnyMethod = (...args: unknown[]) => unknown

const HEAD_METHODS = ['setHeader', 'setHeaders', 'appendHeader', 'removeHeader', 'writeHead']

/** Properties of a response in Node after end() and before the flush. */
const ENDED: Readonly<Record<string, boolean>> = {
  headersSent: true,
  writableEnded: true,
  finished: true,
  writableFinished: false,
}

/**
 * Property descriptors of a response that looks ended. All responses share them, because creating
 * descriptors is expensive.
 */
const ENDED_PROPERTIES: Readonly<Record<string, PropertyDescriptor>> = Object.fromEntries([
  ...Object.entries(ENDED).map(([name, value]) => [name, property({ get: () => value, set() {} })]),
  ...HEAD_METHODS.map((name) => [name, property({ value: whileEnded(name), writable: true })]),
])
const ENDED_NAMES: readonly string[] = Object.keys(ENDED_PROPERTIES)

function property(as: PropertyDescriptor): PropertyDescriptor {
  return { ...as, configurable: true, enumerable: true }
}

const looks = new WeakMap<object, EndedLook>()

/**
 * Returns a method that throws while the response looks ended. A layer may keep this method and
 * call it later. Then it does what the original method does.
 */
function whileEnded(name: string): AnyMethod {
  return function (this: ServerResponse, ...args: unknown[]): unknown {
    const method = looks.get(this)?.originalIfOver(name)
    if (typeof method === 'function') return Reflect.apply(method, this, args)
    const code = isHttp2(this) ? 'ERR_HTTP2_HEADERS_SENT' : 'ERR_HTTP_HEADERS_SENT'
    throw Object.assign(new Error('Cannot set headers after they are sent to the client'), { code })
  }
}

type Replaced = readonly [
  target: object,
  by: PropertyDescriptor,
  before: PropertyDescriptor | undefined,
]

/** Makes a response look ended, until restore(). */
class EndedLook {
  /** Delayed calls of destroy(). */
  readonly late: Array<() => unknown> = []
  #isOver = false
  readonly #res: ServerResponse
  /** The response's own properties from before, in the order of `ENDED_NAMES`. */
  readonly #before: Array<PropertyDescriptor | undefined> = []
  readonly #destroys: Replaced[] = []

  constructor(res: ServerResponse) {
    this.#res = res
    looks.set(res, this)
    for (const name of ENDED_NAMES) this.#before.push(Object.getOwnPropertyDescriptor(res, name))
    Object.defineProperties(res, ENDED_PROPERTIES)
    // The HTTP/2 stream or the socket, whose destroy() also destroys the response.
    const carrier: unknown = Reflect.get(res, 'stream') ?? res.req?.socket
    this.#delayDestroy(res)
    if (carrier instanceof Object) this.#delayDestroy(carrier)
  }

  restore(): void {
    this.#isOver = true
    for (let i = 0; i < ENDED_NAMES.length; i++) {
      const name = ENDED_NAMES[i] as string
      putBack(this.#res, name, ENDED_PROPERTIES[name], this.#before[i])
    }
    for (const [target, by, before] of this.#destroys) putBack(target, 'destroy', by, before)
  }

  /** The method that the response had before it looked ended. Undefined until restore(). */
  originalIfOver(name: string): unknown {
    if (!this.#isOver) return undefined
    const own = this.#before[ENDED_NAMES.indexOf(name)]
    if (own === undefined) return Reflect.get(Object.getPrototypeOf(this.#res), name)
    return own.get === undefined ? own.value : own.get.call(this.#res)
  }

  /**
   * Delays calls of destroy() that have no error. If a handler fails after its response, frameworks
   * destroy the connection, because the response looks sent. That would cut off the delayed
   * response.
   */
  #delayDestroy(target: object): void {
    const destroy: unknown = Reflect.get(target, 'destroy')
    const value = (...args: unknown[]): unknown => {
      const now = (): unknown => Reflect.apply(destroy as AnyMethod, target, args)
      if (this.#isOver || (args[0] !== undefined && args[0] !== null)) return now()
      this.late.push(now)
      return target
    }
    const by = property({ value, writable: true })
    this.#destroys.push([target, by, Object.getOwnPropertyDescriptor(target, 'destroy')])
    Object.defineProperty(target, 'destroy', by)
  }
}

/** Puts a replaced property back, unless other code has replaced it again. */
function putBack(
  target: object,
  name: string,
  by: PropertyDescriptor | undefined,
  before: PropertyDescriptor | undefined,
): void {
  const now = Object.getOwnPropertyDescriptor(target, name)
  if (now?.value !== by?.value || now?.get !== by?.get) return
  if (before === undefined) Reflect.deleteProperty(target, name)
  else Object.defineProperty(target, name, before)
}
