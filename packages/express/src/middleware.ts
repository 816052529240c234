// The type of what an app mounts.

import type { IncomingMessage, ServerResponse } from 'node:http'

/**
 * Wherever a `RequestHandler` goes. Said in Node's types: with Express's own, the handlers behind it would not be given the
 * parameters of their route.
 */
export type Middleware = (
  req: IncomingMessage,
  res: ServerResponse,
  next: (error?: unknown) => void,
) => void
