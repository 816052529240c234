// One stampede at the shop's own product routes: checks the order, runs it and counts the results.

import { randomUUID } from 'node:crypto'
import { type Address, fire, type Summary } from './fire.ts'
import type { OriginRuns } from './origin-runs.ts'
import { readWholeNumber, refuseUnknownFields } from './read-json.ts'
import { Problem } from './response.ts'

export interface StampedeOrder {
  readonly requests: number
  readonly path: string
  /** `'per-process'`: with the cache per process that the lab compares with. */
  readonly cached: boolean | 'per-process'
}

/** How the lab reaches the shop. */
export interface Route {
  /** The Host header with which the client addressed the shop. It is part of each key. */
  readonly hostHeader: string
  next(): Address
  /** As in `Volley`. */
  readonly retries: number
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
    route: Route,
    deadline: AbortSignal,
  ): Promise<StampedeOrder & Summary & { originRuns: number }>
}

const MAX_REQUESTS = 2000

export function createRunner(originRuns: OriginRuns): Runner {
  let running: Running | undefined
  return {
    running: () => running,
    async run(order, { hostHeader, next, retries }, deadline) {
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
        const target = { path: targetPath(order, runId), headers: { host: hostHeader } }
        const onShot = () => void answered++
        const { requests } = order
        const summary = await fire({ target, requests, next, deadline, retries, onShot })
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
  if (typeof cached !== 'boolean' && cached !== 'per-process')
    throw new Problem(400, 'Bad value', "cached must be true, false or 'per-process'.")
  return { requests, path, cached }
}

const PREFIXES = { true: '', false: '/uncached', 'per-process': '/per-process' } as const

function targetPath({ path, cached }: StampedeOrder, runId: string): string {
  return `${PREFIXES[`${cached}`]}${path}${path.includes('?') ? '&' : '?'}run=${runId}`
}
