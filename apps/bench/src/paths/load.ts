// The process that sends load to the servers, apart from them. Usage: node load.js.
import { offer } from '../compare/lib/child.ts'
import { type ClosedLoopResult, closedLoop } from '../compare/lib/closed-loop.ts'
import { type RequestKind, requestsOf } from './requests.ts'

export interface PathLoad {
  readonly port: number
  readonly request: RequestKind
  readonly durationMs: number
}

const CONNECTIONS = 50

offer({
  load: ({ port, request, durationMs }: PathLoad): Promise<ClosedLoopResult> =>
    closedLoop({ port, durationMs, connections: CONNECTIONS, next: () => requestsOf(request) }),
})
