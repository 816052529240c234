// Warns about a middleware that is mounted after the routes. Their requests never reach it.

import type { IncomingMessage, ServerResponse } from 'node:http'
import { warnOnce } from '@stampede/core/adapter'

/**
 * A layer of an app: the middleware itself, a route with one of its methods, another route, or
 * another middleware. Error handlers do not count.
 */
export type Layer = 'self' | 'route' | 'other-route' | 'middleware'

type Checked = 'stampedeCache' | 'idempotency'

const METHODS: Readonly<Record<Checked, readonly string[]>> = {
  stampedeCache: ['GET', 'HEAD'],
  idempotency: ['POST', 'PUT', 'PATCH', 'DELETE'],
}

/**
 * Number of 404 responses before the warning, if another middleware comes later. That middleware is
 * probably a 404 handler, but it may also serve pages.
 */
const MOST_MISSES = 20

/** Checks the first requests of one middleware. */
export class MountOrder {
  /** Whether the middleware need not call `see` any more. */
  isDone = false
  readonly #name: Checked
  #misses: number | undefined

  constructor(name: Checked) {
    this.#name = name
  }

  /** `layersFor` is called at the first request, for the methods that the middleware handles. */
  see(
    req: IncomingMessage,
    res: ServerResponse,
    layersFor: (methods: readonly string[]) => readonly Layer[],
  ): void {
    const methods = METHODS[this.#name]
    this.#misses ??= missesToWait(layersFor(methods))
    if (this.#misses === 0) this.isDone = true
    else if (methods.includes(req.method ?? '')) {
      res.once('finish', () => this.#onStatus(res.statusCode))
    }
  }

  #onStatus(status: number): void {
    if (this.isDone) return
    this.#misses = (this.#misses ?? 0) - 1
    this.isDone = status !== 404 || this.#misses <= 0
    if (status !== 404 || !this.isDone) return
    warnOnce(
      'STAMPEDE_MOUNT_ORDER',
      `${this.#name}() is mounted after the routes, so it sees none of their requests, and those ` +
        `that it sees end with 404. Mount it before them: app.use(${this.#name}(...)), then the routes.`,
    )
  }
}

/**
 * Number of 404 responses after which the order counts as wrong. 0: the order is right, or unknown.
 */
function missesToWait(layers: readonly Layer[]): number {
  const at = layers.indexOf('self')
  const after = layers.slice(at + 1)
  const isAfterRoutes = layers.slice(0, Math.max(at, 0)).includes('route')
  if (!isAfterRoutes || after.includes('route') || after.includes('other-route')) return 0
  return after.includes('middleware') ? MOST_MISSES : 1
}
