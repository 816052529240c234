// stampedeDashboardKoa: the dashboard as a middleware of Koa.

import type { IncomingMessage, ServerResponse } from 'node:http'
import { Dashboard } from './dashboard.ts'
import { type DashboardOptions, readDashboardOptions } from './options.ts'

/** The parts of a Koa context that the dashboard uses. */
type KoaContext = {
  /** The request of Node. */
  readonly req: IncomingMessage
  /** The response of Node. */
  readonly res: ServerResponse
  /** The URL as received, with the path of the mount. */
  readonly originalUrl: string
  /** The request of Koa. */
  readonly request: object
  /** The dashboard sets it to `false`, because it writes the response itself. */
  respond?: boolean | undefined
}

/** A middleware of Koa. */
type KoaDashboard<Context extends KoaContext> = ((
  ctx: Context,
  next: () => Promise<unknown>,
) => Promise<unknown>) & {
  /** As `close` of `stampedeDashboard`. */
  close(): Promise<void>
}

/**
 * Returns a dashboard of the whole fleet. Mount it with `koa-mount`, or with the option `path`.
 * Throws `ERR_STAMPEDE_OPTION` without `authorize`.
 *
 * @example
 * const authorize = (ctx) => ctx.state.isOperator
 * app.use(stampedeDashboardKoa({ stampede, path: '/dashboard', authorize }))
 */
export function stampedeDashboardKoa<Context extends KoaContext = KoaContext>(
  options: DashboardOptions<Context>,
): KoaDashboard<Context> {
  const dashboard = new Dashboard(readDashboardOptions('stampedeDashboardKoa', options))
  const middleware: KoaDashboard<Context> = async (ctx, next) => {
    const { req, res, originalUrl, request } = ctx
    const target = req.url ?? '/'
    const visit = { req, native: ctx, target, originalTarget: originalUrl }
    const answer = await dashboard.answerFor(visit)
    if (answer === undefined) return next()
    ctx.respond = false
    await answer(res, (request as { body?: unknown }).body)
  }
  middleware.close = () => dashboard.close()
  return middleware
}
