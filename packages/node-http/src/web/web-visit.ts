// A request in a framework on a server of Node whose handlers return a web Response, such as Hono.

import type { IncomingMessage, ServerResponse } from 'node:http'
import type { NodeVisit } from '../node-exchange.ts'
import type { BodyVisit } from '../request/body.ts'
import { HIDDEN } from '../request/conditionals.ts'
import { addressOf } from '../request/read-request.ts'
import { breakOff } from '../response/write-response.ts'
import {
  createWebResponse,
  isOnlyRaw,
  type SentResponse,
  toWebResponse,
  writeRaw,
  writeWebResponse,
} from './web-response.ts'

/** The parts of a request that its framework knows. */
export interface WebRequest<Native> extends Required<Omit<BodyVisit<Native>, 'parsed'>> {
  /** The response to the client. */
  readonly outer: ServerResponse
  /** Fields that layers in front have set. */
  readonly fields: Headers
  /**
   * Runs the next handlers. Resolves with their response, or with undefined if they have written to
   * `res` themselves. `hide` returns the request that the handlers must see.
   */
  run(res: ServerResponse, hide: (raw: Request) => Request): Promise<Response | undefined>
}

/** A visit whose response goes through layers in front before it is sent as `outer`. */
export type WebVisit<Native> = NodeVisit<Native> & { readonly outer: ServerResponse }

const NOT_SENT: SentResponse = { status: 500, headers: [], body: null }

/**
 * Calls `enter` with the request, and resolves with the response. Undefined: the response was
 * written to `outer`, because a web Response would change it. Rejects if `enter` calls `next` with
 * an error, or if the next handlers throw.
 */
export async function visitWeb<Native>(
  request: WebRequest<Native>,
  enter: (visit: WebVisit<Native>) => void,
): Promise<Response | undefined> {
  const { req, outer, native, readBody } = request
  const { res, sent, leave } = createWebResponse(req)
  moveFields(request, res)
  const { headers } = req
  outer.once('close', leave)
  let isAbandoned = false
  res.once('close', () => res.writableFinished || isAbandoned || breakOff(outer))
  // Without an end of `res`, other requests would wait for it. An attempt with an idempotency key
  // ends as failed, because otherwise its key would wait for a response of the handler.
  const abandon = (): void => {
    isAbandoned = true
    if (req.method !== 'GET' && req.method !== 'QUERY') fail(res)
    else if (!res.headersSent) res.destroy()
  }
  let hasTrailers = false
  const addTrailers: typeof res.addTrailers = (trailers) => {
    outer.addTrailers(trailers)
    hasTrailers = true
  }
  Object.assign(res, { addTrailers, writeEarlyHints: outer.writeEarlyHints.bind(outer) })
  let ran: Promise<void> | undefined
  const reply = await new Promise<SentResponse>((resolve, reject) => {
    // Layers in front must not go on while the handler of a client that left runs.
    sent.then(resolve, () => Promise.allSettled([ran]).then(() => resolve(NOT_SENT)))
    enter({
      req,
      res,
      outer,
      native,
      readBody,
      address: addressOf(req),
      // Node sets `server` on each socket that it accepts.
      dispatch: (...again) => void Reflect.get(req.socket, 'server').emit('request', ...again),
      next(error) {
        if (error !== undefined) return reject(error)
        const hide = (raw: Request): Request => withConditions(raw, headers, req.headers)
        ran = runInto(request, res, hide, abandon)
        ran.catch((thrown) => {
          reject(thrown)
          if (outer.headersSent) abandon()
          else fail(res)
        })
      },
    })
  })
  // A handler that has sent its response may still throw. Its framework then sets another one.
  await Promise.race([ran, ran && new Promise(setImmediate)])
  if (!hasTrailers && !isOnlyRaw(reply)) return toWebResponse(reply)
  writeRaw(reply, outer)
  return undefined
}

/** Moves the fields of layers in front to `res`, where replies are merged with them. */
function moveFields({ outer, fields }: WebRequest<unknown>, res: ServerResponse): void {
  for (const [name, value] of Object.entries(outer.getHeaders())) {
    if (value !== undefined) res.setHeader(name, value)
    outer.removeHeader(name)
  }
  for (const [name, value] of fields) res.appendHeader(name, value)
}

/**
 * The request with the conditions and ranges of `shown`, if the cache has hidden those of the
 * client. When a layer in front reads a field, `raw` gets a copy of all fields.
 */
function withConditions(
  raw: Request,
  sent: IncomingMessage['headers'],
  shown: IncomingMessage['headers'],
): Request {
  if (HIDDEN.every((name) => shown[name] === sent[name])) return raw
  const headers = new Headers([...raw.headers].filter(([name]) => !HIDDEN.includes(name)))
  for (const name of HIDDEN) if (name in shown) headers.set(name, String(shown[name]))
  const { url, method, signal, body } = raw
  return new Request(url, { method, headers, signal, ...(body && { body, duplex: 'half' }) })
}

async function runInto(
  request: WebRequest<unknown>,
  res: ServerResponse,
  hide: (raw: Request) => Request,
  abandon: () => void,
): Promise<void> {
  const response = await request.run(res, hide)
  if (response === undefined) return
  // If a layer in front, such as a timeout, has responded itself, `response` may be its own one.
  // The server sends that before the next tick.
  await new Promise(process.nextTick)
  if (request.outer.headersSent) {
    abandon()
    return
  }
  for (const name of request.fields.keys())
    if (!response.headers.has(name) && !res.headersSent) res.removeHeader(name)
  await writeWebResponse(response, res)
}

/** Ends a response whose handlers threw. Otherwise its key would stay taken until a timeout. */
function fail(res: ServerResponse): void {
  if (res.writableEnded) return
  if (res.headersSent) return void res.destroy()
  res.statusCode = 500
  res.end()
}
