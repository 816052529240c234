// The process that loads the servers: node load.js. On its own, so that its work is not the server's.
import { answers } from '../compare/lib/child.ts'
import { type ClosedLoopResult, closedLoop } from '../compare/lib/closed-loop.ts'
import { type RequestKind, requestsOf } from './requests.ts'

export interface PathLoad {
  readonly port: number
  readonly request: RequestKind
  readonly durationMs: number
}

const CONNECTIONS = 50

answers({
  load: ({ port, request, durationMs }: PathLoad): Promise<ClosedLoopResult> =>
    closedLoop({ port, durationMs, connections: CONNECTIONS, next: () => requestsOf(request) }),
})
