// One stampede at the shop's own product routes: checks the order, runs it and counts the results.

import { randomUUID } from 'node:crypto'
import { fire, type Summary, type Target } from './fire.ts'
import type { OriginRuns } from './origin-runs.ts'
import { readWholeNumber, refuseUnknownFields } from './read-json.ts'
import { Problem } from './response.ts'

export interface StampedeOrder {
  readonly requests: number
  readonly path: string
  readonly cached: boolean
}

/** The running stampede. The page shows its progress. */
export interface Running extends StampedeOrder {
  readonly answered: number
  readonly originRuns: number
}

export interface Runner {
  running(): Running | undefined
  run(
    order: StampedeOrder,
    origin: Pick<Target, 'host' | 'port'>,
    deadline: AbortSignal,
  ): Promise<StampedeOrder & Summary & { originRuns: number }>
}

const MAX_REQUESTS = 2000

export function createRunner(originRuns: OriginRuns): Runner {
  let running: Running | undefined
  return {
    running: () => running,
    async run(order, origin, deadline) {
      // A new query parameter makes the key cold without a change to other entries.
      const runId = randomUUID()
      const watch = originRuns.watch(runId)
      let answered = 0
      running = {
        ...order,
        get answered() {
          return answered
        },
        get originRuns() {
          return watch.count
        },
      }
      try {
        const target = { ...origin, path: targetPath(order, runId) }
        const summary = await fire(target, order.requests, deadline, () => answered++)
        return { ...order, ...summary, originRuns: watch.count }
      } finally {
        running = undefined
        watch.stop()
      }
    },
  }
}

/** Throws a 400 `Problem` if the body is not a valid stampede at a product route. */
export function readStampedeOrder(body: Record<string, unknown>): StampedeOrder {
  refuseUnknownFields(body, ['requests', 'path', 'cached'])
  const requests = readWholeNumber(body, 'requests', 1, MAX_REQUESTS)
  const { path, cached } = body
  if (requests === undefined) {
    throw new Problem(
      400,
      'Bad value',
      `requests must be a whole number from 1 to ${MAX_REQUESTS}.`,
    )
  }
  // Only product routes: the lab must not send requests to itself or to another server.
  if (typeof path !== 'string' || !/^\/api\/products(\/\d{1,9})?(\?[\w=&%-]{0,200})?$/.test(path)) {
    throw new Problem(
      400,
      'Bad value',
      'path must be /api/products or /api/products/:id. It may have a query.',
    )
  }
  if (typeof cached !== 'boolean')
    throw new Problem(400, 'Bad value', 'cached must be true or false.')
  return { requests, path, cached }
}

function targetPath({ path, cached }: StampedeOrder, runId: string): string {
  return `${cached ? '' : '/uncached'}${path}${path.includes('?') ? '&' : '?'}run=${runId}`
}
