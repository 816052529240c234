// The type of a middleware that an Express app mounts.

import type { IncomingMessage, ServerResponse } from 'node:http'

/**
 * Can be used in place of a `RequestHandler`. The parameters have the types of Node. With the types
 * of Express, TypeScript would not infer the route parameters for the handlers after it.
 */
export type Middleware = (
  req: IncomingMessage,
  res: ServerResponse,
  next: (error?: unknown) => void,
) => void
