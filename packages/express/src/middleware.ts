// The type of a middleware that an Express app mounts.

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
