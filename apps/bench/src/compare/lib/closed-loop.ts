// As many requests as a server answers: so many connections, each with one request under way. Written for cheapness, so that the
// server is what is measured.
import { connect } from 'node:net'
import { readResponses } from './responses.ts'

export interface ClosedLoop {
  readonly port: number
  /** Called for each connection. Returns what makes the bytes of its next request. */
  readonly next: () => () => Buffer
  readonly connections: number
  readonly durationMs: number
}

export interface ClosedLoopResult {
  readonly requests: number
  readonly durationMs: number
  /** Not 200 or 201, or of another length than the first one: a rate with one of these in it says nothing. */
  readonly wrong: number
  readonly bodyBytes: number
  /** What this process was at work for a request: more than the server is, and the rate is this one's. */
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
