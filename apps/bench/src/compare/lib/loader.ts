// The process that loads servers: node loader.js. On its own, so that its work is not the server's.
import { answers } from './child.ts'
import { type ClosedLoopResult, closedLoop } from './closed-loop.ts'
import { requestsFor } from './responses.ts'

export interface LoadOrder {
  readonly port: number
  readonly path: string
  /** A number is put after the path that no request had before. */
  readonly isEachNew: boolean
  readonly connections: number
  readonly durationMs: number
}

let asked = 0

answers({
  load: ({ path, isEachNew, ...order }: LoadOrder): Promise<ClosedLoopResult> =>
    closedLoop({
      ...order,
      next: () => requestsFor(isEachNew ? () => `${path}${asked++}` : () => path),
    }),
})
