// Closed loop: each connection sends its next request when the last response has arrived. The code
// does little per request, so that the server limits the rate.
import { connect } from 'node:net'
import { readResponses } from './responses.ts'

export interface ClosedLoop {
  readonly port: number
  /** Called once per connection. Returns a function that makes the bytes of the next request. */
  readonly next: () => () => Buffer
  readonly connections: number
  readonly durationMs: number
}

export interface ClosedLoopResult {
  readonly requests: number
  readonly durationMs: number
  /**
   * Responses with another status than 200 or 201, or another length than the first. The rate is
   * valid only if this is 0.
   */
  readonly wrong: number
  readonly bodyBytes: number
  /**
   * CPU time of this process per request. If it is higher than the server's, the load limits the
   * rate.
   */
  readonly cpuMicros: number
}

export async function closedLoop(load: ClosedLoop): Promise<ClosedLoopResult> {
  const state: State = { requests: 0, wrong: 0, bodyBytes: -1, isOver: false }
  const since = performance.now()
  const cpu = process.cpuUsage()
  const loops = Array.from({ length: load.connections }, () => oneConnection(load, state))
  setTimeout(() => {
    state.isOver = true
  }, load.durationMs)
  await Promise.all(loops)
  const { user, system } = process.cpuUsage(cpu)
  const { requests, wrong, bodyBytes } = state
  const durationMs = performance.now() - since
  return { requests, wrong, bodyBytes, durationMs, cpuMicros: (user + system) / requests }
}

interface State {
  requests: number
  wrong: number
  bodyBytes: number
  isOver: boolean
}

function oneConnection({ port, next: begin }: ClosedLoop, state: State): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: '127.0.0.1', noDelay: true })
    const next = begin()
    socket.once('connect', () => socket.write(next()))
    socket.once('error', reject)
    socket.once('close', () => {
      if (!state.isOver) reject(new Error('a server closed a connection in use'))
      resolve()
    })
    readResponses(socket, (isOk, bodyBytes) => {
      state.requests += 1
      if (state.bodyBytes < 0) state.bodyBytes = bodyBytes
      if (!isOk || bodyBytes !== state.bodyBytes) state.wrong += 1
      if (state.isOver) socket.destroy()
      else socket.write(next())
    })
  })
}
