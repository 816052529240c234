// Fields that layers in front have set before the handler runs. Entries do not have them, because
// these layers set them for each request. A field that the handler has set too is its own, even
// with the same value: a layer may have set it for one request only.

import type { ServerResponse } from 'node:http'
import type { CapturedHead, HeaderList } from '@stampede/core/adapter'
import { fieldsOf, missingDate } from './fields.ts'
import { watchCalls } from './original-methods.ts'

const OUTER: unique symbol = Symbol('stampede.outer')

type Response = ServerResponse & { [OUTER]?: OuterFields }

/** Fields that layers in front set on one response, and the names that its handler set too. */
export class OuterFields {
  readonly list: HeaderList
  /** Names that the framework copies to the response itself, so that a copy tells nothing. */
  copied: ReadonlySet<string> | undefined
  /** The lines of each field that the handler has not set. */
  readonly #left = new Map<string, string>()

  /** Create it before the handler runs. */
  constructor(res: Response) {
    this.list = res.getHeaderNames().length === 0 ? [] : fieldsOf(res.getHeaders())
    if (this.list.length === 0) return
    for (const [name] of this.list) this.#left.set(name, linesOf(this.list, name))
    res[OUTER] = this
    const set = this.set.bind(this)
    watchCalls(res, 'setHeader', set)
    // HTTP/2 responses of older versions of Node have no appendHeader.
    watchCalls(res, 'appendHeader', set)
  }

  /** Returns the fields of a response that has some. */
  static of(res: Response): OuterFields | undefined {
    return res[OUTER]
  }

  /** The handler has set this field on the response of Node. */
  set(name: unknown): void {
    const key = String(name).toLowerCase()
    if (!this.copied?.has(key)) this.#left.delete(key)
  }

  /** The handler has set this field on an object of the framework. */
  setBy(name: string): void {
    this.#left.delete(name.toLowerCase())
  }

  /**
   * The head that a hit replays: with a date, and without fields of layers in front. `known` is the
   * missing date, if the caller has it already.
   */
  storedHead(status: number, fields: HeaderList, known?: HeaderList): CapturedHead {
    const date = known ?? missingDate(fields)
    const left = this.#left
    const isOwn = ([name]: HeaderList[number]): boolean =>
      !left.has(name) || left.get(name) !== linesOf(fields, name)
    const own = left.size === 0 ? fields : fields.filter(isOwn)
    return { status, headers: date.length === 0 ? own : [...own, ...date] }
  }
}

function linesOf(fields: HeaderList, name: string): string {
  let lines = ''
  for (const [key, value] of fields) if (key === name) lines += `${value}\n`
  return lines
}

/** The part of a reply of Fastify that has its fields. */
export interface ReplyFields {
  readonly raw: ServerResponse
  getHeaders(): Readonly<Record<string, number | string | string[] | undefined>>
}

/**
 * Sets the fields of a reply of Fastify on the raw response, where a response of the cache keeps
 * them. Fields that the raw response already has stay as they are.
 *
 * Call the returned function after the capture began, when the handler is about to run. It removes
 * the added fields again, because a handler may still change them in the reply.
 */
export function exposeReply(reply: ReplyFields): () => void {
  const { raw } = reply
  const added = Object.entries(reply.getHeaders()).filter(([name]) => !raw.hasHeader(name))
  for (const [name, value] of added) if (value !== undefined) raw.setHeader(name, value)
  return () => {
    for (const [name] of added) raw.removeHeader(name)
    watchReply(reply)
  }
}

/**
 * Prepares a reply of Fastify for a capture. Fastify copies all fields of the reply to the raw
 * response, so the raw response does not tell who set them: the reply does.
 */
function watchReply(reply: ReplyFields): void {
  const outer = OuterFields.of(reply.raw)
  if (outer !== undefined) {
    const names = Object.keys(reply.getHeaders())
    outer.copied = new Set(names.filter((name) => !reply.raw.hasHeader(name)))
    watchCalls(reply, 'header', (name) => outer.setBy(String(name)))
    watchCalls(reply, 'type', () => outer.setBy('content-type'))
  }
  deferHead(reply)
}

/**
 * Makes the writeHead that Fastify calls before a whole body set the status and the fields, so that
 * Node writes the head with the first bytes. Then a capture has the whole body when it judges the
 * head, and an ETag that the cache adds depends on the body alone. Fastify passes the fields that
 * its reply has as a private property. A head that the app writes itself counts as sent at once.
 */
export function deferHead(reply: { readonly raw: ServerResponse }): void {
  const { raw: res } = reply
  const { writeHead } = res
  const isOfReply = (fields: unknown): fields is object =>
    fields instanceof Object &&
    Object.getOwnPropertySymbols(reply).some((key) => Reflect.get(reply, key) === fields)
  const deferred = (...args: readonly unknown[]): unknown => {
    const [status, fields] = args
    const isCopied = isOfReply(fields)
    const outer = OuterFields.of(res)
    // Fields that the app passes are its own, also if a layer in front has set them on the reply.
    if (outer !== undefined && !isCopied) outer.copied = undefined
    if (!isCopied || res.headersSent) return Reflect.apply(writeHead, res, args)
    res.statusCode = Number(status)
    for (const [name, value] of Object.entries(fields)) {
      if (value !== undefined) res.setHeader(name, value)
    }
    return res
  }
  Object.assign(res, { writeHead: deferred })
}
