// The process that sends load to the servers, apart from them. Usage: node loader.js.
import { offer } from './child.ts'
import { type ClosedLoopResult, closedLoop } from './closed-loop.ts'
import { requestsFor } from './responses.ts'

export interface LoadOrder {
  readonly port: number
  readonly path: string
  /** Adds a new number to the path of each request. */
  readonly isEachNew: boolean
  readonly connections: number
  readonly durationMs: number
}

let asked = 0

offer({
  load: ({ path, isEachNew, ...order }: LoadOrder): Promise<ClosedLoopResult> =>
    closedLoop({
      ...order,
      next: () => requestsFor(isEachNew ? () => `${path}${asked++}` : () => path),
    }),
})
