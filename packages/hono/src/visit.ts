// A request of Hono as node:http has it. The response becomes `c.res`, for middlewares in front.

import type { IncomingMessage, ServerResponse } from 'node:http'
import { StampedeError } from '@stampede/core'
import { visitWeb } from '@stampede/node-http/adapter'
import type { Context, Next } from 'hono'
import { readBody } from './body.ts'
import { watchContext } from './own-fields.ts'

type WebVisit<C> = Parameters<Parameters<typeof visitWeb<C>>[1]>[0]

interface HttpBindings {
  readonly incoming: IncomingMessage
  readonly outgoing: ServerResponse
}

const NO_SERVER =
  '@stampede/hono needs a server of Node, but c.env has no request of one; serve the app with ' +
  '@hono/node-server, also in tests that call app.request()'

const NO_RESPONSE =
  'the handler returned no Response; return the result of c.json() or c.text(), and in middlewares ' +
  'return or await next()'

/** The field of a response that the handler has written to `c.env.outgoing`. */
const ALREADY_SENT = 'x-hono-already-sent'

/**
 * Calls `enter` with the request. Then `c.res` is the response that `enter` has sent. Rejects if
 * `enter` calls `next` with an error, or if the next handlers throw or return no response.
 */
export async function visitOf<C extends Context>(
  c: C,
  next: Next,
  enter: (visit: WebVisit<C>) => void,
): Promise<void> {
  const { env } = c
  const { incoming: req, outgoing: outer }: Partial<HttpBindings> = Object(env)
  if (req === undefined) throw new StampedeError('ERR_STAMPEDE_RESPONSE', NO_SERVER)
  // An upgrade to a WebSocket has no response.
  if (outer === undefined) return next()
  let isOver = false
  const { raw } = c.req
  let seen = raw
  const { headers: fields } = c.newResponse(null)
  const run = async (
    res: ServerResponse,
    hide: (raw: Request) => Request,
  ): Promise<Response | undefined> => {
    // A handler that writes to the response of Node writes to the one that the cache reads.
    c.env = { ...env, outgoing: res }
    seen = hide(raw)
    c.req.raw = seen
    const sees = watchContext(c, fields, res)
    await next()
    if (isOver) return undefined
    // As Hono does. The getter of `c.res` would make an empty 200, which would be stored.
    if (!c.finalized) throw new StampedeError('ERR_STAMPEDE_RESPONSE', NO_RESPONSE)
    if (c.res.headers.has(ALREADY_SENT)) return undefined
    sees(c.res)
    return c.res
  }
  const reply = await visitWeb({ req, outer, native: c, fields, readBody, run }, enter)
  isOver = true
  c.env = env
  // A handler may have set another request, such as bodyLimit() does.
  if (c.req.raw === seen) c.req.raw = raw
  // Otherwise Hono would add the fields of the present response.
  c.res = undefined
  c.res = reply ?? alreadySent()
}

/** Tells @hono/node-server that the response was written to `outgoing`. */
function alreadySent(): Response {
  const response = new Response(null, { headers: { [ALREADY_SENT]: 'true' } })
  // The server writes its own lightweight responses without a look at their fields. Reading the
  // body makes a real response of it.
  void response.body
  return response
}
