// Hooks on the head of a response, for every way to send it.

import type { ServerResponse } from 'node:http'
import { type CapturedHead, type HeaderList, OWN_FIELDS } from '@stampede/core/adapter'
import { hasLeft } from '../request/client-gone.ts'
import { isHttp2 } from '../request/read-request.ts'
import type { NotCaptured } from './body.ts'
import { argsBelow, editFields, headOf, setPassedFields } from './fields.ts'
import { nodesWriteHead, type OwnMethods, watchCalls } from './original-methods.ts'

/** Calls `onHead` in the first call of writeHead. The response has all fields of the head then. */
function onWriteHead(res: ServerResponse, onHead: (status: number) => void): void {
  const { writeHead } = res
  const methods: Pick<OwnMethods, 'writeHead'> = res
  let isOver = false
  const own = (...args: unknown[]): unknown => {
    if (isOver || res.headersSent || !setPassedFields(res, args))
      return Reflect.apply(writeHead, res, args)
    isOver = true
    onHead(Number(args[0]))
    return Reflect.apply(writeHead, res, argsBelow(res, writeHead === nodesWriteHead, args))
  }
  methods.writeHead = own
}

/**
 * Adds the fields of `add` to the head that `res` will send, and removes those in `remove`, for
 * every way to write a head.
 */
export function addAtHead(
  res: ServerResponse,
  add: HeaderList,
  remove: readonly string[] = [],
): void {
  if (add.length > 0 || remove.length > 0) onWriteHead(res, () => editFields(res, add, remove))
}

/**
 * Calls `onHead` once, in writeHead. If no head will be written, call the returned function, which
 * calls `onHead` then.
 */
export function watchHead(res: ServerResponse, onHead: (head: CapturedHead) => void): () => void {
  let seen = false
  const see = (status?: number): void => {
    if (seen) return
    seen = true
    onHead(headOf(res, status))
  }
  onWriteHead(res, see)
  // If the client has left, Node writes no head. A layer may write it without this writeHead.
  for (const name of ['write', 'end', 'flushHeaders']) watchCalls(res, name, undefined, see)
  return see
}

type Refusal = Extract<NotCaptured, 'incomplete' | 'declined'>

export interface HeadHooks {
  /** Called once, when the head has been sent or never will be. */
  headOver(refusal: Refusal | undefined): void
}

/**
 * The head of a captured response, if layers in front may change it after core has judged it. The
 * fields for this cache are removed from it, even if the app writes the response itself.
 */
export class SentHead {
  /** Whether the head has been sent, or never will be. */
  isOver = false
  /** Why the response must not be shared. Undefined until the head is over. */
  refusal: Refusal | undefined
  /** Fields to add to the head when it is sent. */
  add: HeaderList = []
  readonly #res: ServerResponse
  readonly #on: HeadHooks
  /** Whether no layer gets the head after this one. */
  readonly #isLast: boolean
  #added: HeaderList = []

  /** Create it before the handler runs. */
  constructor(res: ServerResponse, on: HeadHooks) {
    this.#res = res
    this.#on = on
    const { writeHead } = res
    this.#isLast = writeHead === nodesWriteHead
    const over = this.#over.bind(this)
    // A layer, or HTTP/2, may write the head without this writeHead. Then the head is over at the
    // end of the response.
    res.once('finish', over).once('close', over)
    const own = (...args: readonly unknown[]): unknown => {
      try {
        const isSet = !res.headersSent && setPassedFields(res, args)
        return Reflect.apply(writeHead, res, isSet ? this.#edit(args) : args)
      } finally {
        if (res.headersSent) this.#over()
      }
    }
    const methods: Pick<OwnMethods, 'writeHead'> = res
    methods.writeHead = own
    // If the client has left, the `close` event was emitted before.
    if (res.headersSent || hasLeft(res)) this.#over()
  }

  /** `added` are the fields of the cache, which are wrong if the head gets a cookie. */
  judged(added: HeaderList): void {
    if (this.#isLast) this.#added = added
    else correctStored(this.#res, added)
  }

  #edit(args: readonly unknown[]): readonly unknown[] {
    const res = this.#res
    editFields(res, this.add, OWN_FIELDS)
    if (res.hasHeader('set-cookie') || res.hasHeader('set-cookie2')) correctStored(res, this.#added)
    return argsBelow(res, this.#isLast, args)
  }

  #over(): void {
    if (this.isOver) return
    const res = this.#res
    this.isOver = true
    if (!res.headersSent) this.refusal = 'incomplete'
    else if (setsCookie(res)) this.refusal = 'declined'
    this.#on.headOver(this.refusal)
  }
}

/**
 * Whether the sent head sets a cookie. If an outer layer passed the cookie only to writeHead,
 * getHeaders() does not have it. It is in the text of the head, for which Node has no public name.
 */
export function setsCookie(res: ServerResponse): boolean {
  if (res.hasHeader('set-cookie')) return true
  const text: unknown = Reflect.get(res, '_header')
  return typeof text === 'string' && /\r\nset-cookie2?:/i.test(text)
}

type Values = Record<number | string, unknown>

/**
 * Removes `stored` from the Cache-Status in `added` if the head of `res` has a cookie after all:
 * layers in front, such as a session, may set one after core has decided to store the response. It
 * does so in the last function that gets the head, for which Node has no public name.
 */
export function correctStored(res: ServerResponse, added: HeaderList): void {
  const member = added.find(([name]) => name === 'cache-status')?.[1]
  const honest = member?.replace(/; stored\b/, '')
  if (member === undefined || honest === undefined || member === honest) return
  const stream: unknown = Reflect.get(res, 'stream')
  const [sender, send] = stream instanceof Object ? [stream, 'respond'] : [res, '_storeHeader']
  const edit = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(edit)
    return typeof value === 'string' ? value.replace(member, `${honest}; detail=set-cookie`) : value
  }
  watchCalls(sender, send, (...args) => {
    // Node's own objects have no prototype.
    const fields = (args.find((arg) => typeof arg === 'object') ?? {}) as Values
    const names = Array.isArray(fields) ? fields.flat() : Object.keys(fields)
    if (names.some((name) => /^set-cookie2?$/i.test(name)))
      for (const name in fields) fields[name] = edit(fields[name])
  })
}

/** The error that Node throws for a head after the end. */
export function headersSentError(res: ServerResponse): Error {
  const code = isHttp2(res) ? 'ERR_HTTP2_HEADERS_SENT' : 'ERR_HTTP_HEADERS_SENT'
  return Object.assign(new Error('Cannot set headers after they are sent to the client'), { code })
}
