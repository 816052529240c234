// Types of what an Express app mounts.

import type { IncomingMessage, ServerResponse } from 'node:http'

/**
 * A middleware that fits where Express expects a `RequestHandler`. Its parameters have the types of
 * Node. With the types of Express, TypeScript would not infer the route parameters of later
 * handlers.
 */
export type Middleware = (
  req: IncomingMessage,
  res: ServerResponse,
  next: (error?: unknown) => void,
) => void

/**
 * Further arguments, of which there are none. TypeScript rejects `app.use(stampedeCache)` by them:
 * a mounted function gets a response and `next`, which are not `never`. The type of the first
 * parameter is not enough, because error handlers get an `any` there.
 */
export type Uncalled = readonly never[]
