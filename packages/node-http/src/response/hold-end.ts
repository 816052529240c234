// Holds back the end of a response until other work is done, while the response already reports
// that it has ended. A handler that responds a second time must meet the error that Node would
// throw. Otherwise its headers would go out with the first body, and the client would wait for
// bytes that never come.

import { type ServerResponse, validateHeaderValue } from 'node:http'
import type { OriginEnd, OriginObserver } from '@stampede/core/adapter'
import { isHttp2 } from '../request/http2.ts'

export interface CaptureObserver extends OriginObserver {
  /**
   * Called when the app ended a response whose whole body was seen. The end leaves when the promise settles, or at once
   * without one; the outcome of the capture is `end` then, whatever becomes of the client.
   */
  beforeEnd?(end: OriginEnd): void | Promise<void>
  /** How long the handler may take to go on after its client left. Default: see client-gone.ts. */
  readonly patienceMs?: number
}

/** The end of one response, and whether it is being held. */
export class EndHold {
  /** The app has ended the response, and the end has not left. */
  active = false
  readonly #res: ServerResponse
  readonly #beforeEnd: (end: OriginEnd) => void | Promise<void>

  constructor(res: ServerResponse, beforeEnd: (end: OriginEnd) => void | Promise<void>) {
    this.#res = res
    this.#beforeEnd = beforeEnd
  }

  /** An end that Node would refuse must be refused while its handler still listens. */
  takes([chunk]: readonly unknown[], [status]: readonly unknown[]): boolean {
    const callback = typeof chunk === 'function'
    if (chunk && !callback && typeof chunk !== 'string' && !(chunk instanceof Uint8Array))
      return false
    return this.#res.headersSent || isStatusLine(Number(status), this.#res)
  }

  /** Calls `leave` with the arguments: when the observer was told of a whole answer, at once after any other. */
  end(end: OriginEnd, args: readonly unknown[], leave: (args: readonly unknown[]) => void): void {
    if (end.type !== 'complete') {
      leave(args)
      return
    }
    this.active = true
    const told = this.#tell(end)
    const release = (sent: readonly unknown[]): void => {
      this.active = false
      leaveSafely(this.#res, () => leave(sent))
    }
    if (told === undefined) {
      release(args)
      return
    }
    const own = ownChunk(args)
    holdEnd(this.#res, told, () => release(own))
  }

  #tell(end: OriginEnd): void | Promise<void> {
    try {
      return this.#beforeEnd(end)
    } catch (error) {
      return Promise.reject(error)
    }
  }
}

/** A layer outside us may refuse; the handler it would have been thrown at has gone on, or was heard. */
function leaveSafely(res: ServerResponse, leave: () => void): void {
  try {
    leave()
  } catch (error) {
    process.emitWarning(error instanceof Error ? error : String(error))
    res.destroy()
  }
}

/** `release` ends the response; it is called once, when `until` has settled. */
function holdEnd(res: ServerResponse, until: Promise<void>, release: () => void): void {
  const { statusCode } = res
  const show = lookEnded(res)
  const go = (): void => {
    const destroy = show()
    // A second answer cannot be kept from assigning it.
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

/** The app may use its buffer again as soon as end() has returned. */
function ownChunk(args: readonly unknown[]): readonly unknown[] {
  const [chunk] = args
  return chunk instanceof Uint8Array ? args.with(0, Buffer.from(chunk)) : args
}

/** What Node says of a response that was ended and has not been flushed. */
const ENDED = {
  headersSent: true,
  writableEnded: true,
  finished: true,
  writableFinished: false,
} as const

const HEAD_METHODS = ['setHeader', 'setHeaders', 'appendHeader', 'removeHeader', 'writeHead']

/** The properties of a response that looks ended: the same for all, since making them costs most. */
const SHOWN: ReadonlyArray<readonly [name: string, shown: PropertyDescriptor]> = [
  ...Object.entries(ENDED).map(
    ([name, value]) => [name, shownAs({ get: () => value, set: () => {} })] as const,
  ),
  ...HEAD_METHODS.map(
    (name) => [name, shownAs({ value: refusing(name), writable: true })] as const,
  ),
]

function shownAs(as: PropertyDescriptor): PropertyDescriptor {
  return { ...as, configurable: true, enumerable: true }
}

interface Show {
  over: boolean
  /** The methods of the response before. */
  readonly methods: ReadonlyMap<string, unknown>
}

const shows = new WeakMap<object, Show>()

/** A layer that came on top during the show may call it afterwards. */
function refusing(name: string): unknown {
  return function (this: ServerResponse, ...args: unknown[]): unknown {
    const { over, methods } = shows.get(this) ?? {}
    const method = methods?.get(name)
    if (over !== true || typeof method !== 'function') throw headersSent(this)
    return Reflect.apply(method, this, args)
  }
}

/** Returns what ends the show, and in turn returns what is still to be destroyed. */
function lookEnded(res: ServerResponse): () => () => void {
  const before = new Map<string, PropertyDescriptor>()
  const methods = new Map<string, unknown>()
  for (const name of HEAD_METHODS) methods.set(name, Reflect.get(res, name))
  for (const [name, shown] of SHOWN) {
    const own = Object.getOwnPropertyDescriptor(res, name)
    if (own !== undefined) before.set(name, own)
    Object.defineProperty(res, name, shown)
  }
  const show: Show = { over: false, methods }
  shows.set(res, show)
  const carriers = [res, carrierOf(res)].map(putOffDestroy)
  return () => {
    show.over = true
    for (const [name, shown] of SHOWN) putBack(res, name, shown, before.get(name))
    const late = carriers.flatMap((restore) => restore())
    return () => {
      for (const destroy of late) destroy()
    }
  }
}

/**
 * Frameworks destroy the connection when an error comes after an answer, with which they take the answer for sent. It
 * would be cut off. With an error of its own, it is not they who do it. Returns what undoes it, and in turn returns the
 * calls that are still to be made.
 */
function putOffDestroy(target: { destroy(): unknown }): () => ReadonlyArray<() => unknown> {
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
  const shown = shownAs({ value, writable: true })
  Object.defineProperty(target, 'destroy', shown)
  return () => {
    over = true
    putBack(target, 'destroy', shown, before)
    return late
  }
}

/** What a destroy() of would take the response with it. */
function carrierOf(res: ServerResponse): { destroy(): unknown } {
  const stream: unknown = Reflect.get(res, 'stream')
  return (stream as { destroy(): unknown } | undefined) ?? res.req?.socket ?? res
}

/** Unless somebody else has come on top since. */
function putBack(
  target: object,
  name: string,
  shown: PropertyDescriptor,
  before: PropertyDescriptor | undefined,
): void {
  const now = Object.getOwnPropertyDescriptor(target, name)
  if (now?.value !== shown.value || now?.get !== shown.get) return
  if (before === undefined) Reflect.deleteProperty(target, name)
  else Object.defineProperty(target, name, before)
}

function headersSent(res: ServerResponse): Error {
  const code = isHttp2(res) ? 'ERR_HTTP2_HEADERS_SENT' : 'ERR_HTTP_HEADERS_SENT'
  return Object.assign(new Error('Cannot set headers after they are sent to the client'), { code })
}
