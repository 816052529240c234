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

/** What Node says of a response that was ended and has not been flushed. */
const ENDED = {
  headersSent: true,
  writableEnded: true,
  finished: true,
  writableFinished: false,
} as const

const HEAD_METHODS = ['setHeader', 'setHeaders', 'appendHeader', 'removeHeader', 'writeHead']

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

/** Returns what ends the show, and in turn returns what is still to be destroyed. */
function lookEnded(res: ServerResponse): () => () => void {
  let over = false
  const undo = Object.entries(ENDED).map(([name, value]) =>
    shadow(res, name, { get: () => value, set: () => {} }),
  )
  const wrap = (target: object, name: string, held: (args: unknown[]) => unknown): void => {
    const previous: unknown = Reflect.get(target, name)
    if (typeof previous !== 'function') return
    const value = (...args: unknown[]): unknown =>
      over ? Reflect.apply(previous, target, args) : held(args)
    undo.push(shadow(target, name, { value, writable: true }))
  }
  for (const name of HEAD_METHODS) {
    wrap(res, name, () => {
      throw headersSent(res)
    })
  }
  // Frameworks destroy the connection when an error comes after an answer, with which they take the answer for sent. It
  // would be cut off. With an error of its own, it is not they who do it.
  const late: Array<() => unknown> = []
  for (const target of [res, carrierOf(res)]) {
    const { destroy } = target
    wrap(target, 'destroy', (args) => {
      const now = (): unknown => Reflect.apply(destroy, target, args)
      if (args[0] !== undefined && args[0] !== null) return now()
      late.push(now)
      return target
    })
  }
  return () => {
    over = true
    for (const step of undo) step()
    return () => {
      for (const destroy of late) destroy()
    }
  }
}

/** What a destroy() of would take the response with it. */
function carrierOf(res: ServerResponse): { destroy(): unknown } {
  const stream: unknown = Reflect.get(res, 'stream')
  return (stream as { destroy(): unknown } | undefined) ?? res.req?.socket ?? res
}

/** Defines it on the object itself; undone unless somebody else has come on top since. */
function shadow(target: object, name: string, as: PropertyDescriptor): () => void {
  const before = Object.getOwnPropertyDescriptor(target, name)
  Object.defineProperty(target, name, { ...as, configurable: true, enumerable: true })
  return () => {
    const now = Object.getOwnPropertyDescriptor(target, name)
    if (now?.value !== as.value || now?.get !== as.get) return
    if (before === undefined) Reflect.deleteProperty(target, name)
    else Object.defineProperty(target, name, before)
  }
}

function headersSent(res: ServerResponse): Error {
  const code = isHttp2(res) ? 'ERR_HTTP2_HEADERS_SENT' : 'ERR_HTTP_HEADERS_SENT'
  return Object.assign(new Error('Cannot set headers after they are sent to the client'), { code })
}
