// stampedeDashboard: the dashboard as a middleware of Express, and as a listener of node:http.

import type { IncomingMessage, ServerResponse } from 'node:http'
import { type Answer, Dashboard } from './dashboard.ts'
import { type DashboardOptions, readDashboardOptions } from './options.ts'
import { respondNothing } from './respond.ts'

type Handler = ReturnType<typeof stampedeDashboard>

/**
 * Returns a dashboard of the whole fleet: a middleware of Express, or a listener of node:http. Each
 * process of the fleet mounts one and reports through the store. Throws `ERR_STAMPEDE_OPTION`
 * without `authorize`.
 *
 * @example
 * app.use('/dashboard', stampedeDashboard({ stampede, authorize: (req) => isOperator(req) }))
 */
export function stampedeDashboard<Req extends IncomingMessage = IncomingMessage>(
  options: DashboardOptions<Req>,
): ((req: IncomingMessage, res: ServerResponse, next?: (error?: unknown) => void) => void) & {
  /**
   * Ends the reports of this process and all pages that are open. Call it before `server.close()`
   * and `stampede.close()`.
   */
  close(): Promise<void>
} {
  const dashboard = new Dashboard(readDashboardOptions('stampedeDashboard', options))
  const handler: Handler = (req, res, next) => {
    const { originalUrl, body } = req as { originalUrl?: string; body?: unknown }
    const target = req.url ?? '/'
    const finish = (answer: Answer | undefined): unknown => {
      if (answer !== undefined) return answer(res, body)
      return next === undefined ? respondNothing(res) : next()
    }
    const visit = { req, native: req as Req, target, originalTarget: originalUrl ?? target }
    const answer = dashboard.answerFor(visit)
    if (answer instanceof Promise) void answer.then(finish)
    else finish(answer)
  }
  handler.close = () => dashboard.close()
  return handler
}
