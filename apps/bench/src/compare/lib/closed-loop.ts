// As many requests as a server answers: so many connections, each with one request under way. Written for cheapness, so that the
// server is what is measured: a raw socket, one write a request, and no parsing beyond Content-Length.
import { connect, type Socket } from 'node:net'

export interface ClosedLoop {
  readonly port: number
  /** Called for each request; one that is always the same costs nothing. */
  readonly path: () => string
  readonly connections: number
  readonly durationMs: number
}

export interface ClosedLoopResult {
  readonly requests: number
  readonly durationMs: number
  /** Not 200, or of another length than the first one: a rate with one of these in it says nothing. */
  readonly wrong: number
}

export async function closedLoop(load: ClosedLoop): Promise<ClosedLoopResult> {
  const state = { requests: 0, wrong: 0, bodyBytes: -1, isOver: false }
  const since = performance.now()
  const loops = Array.from({ length: load.connections }, () => oneConnection(load, state))
  const timer = setTimeout(() => {
    state.isOver = true
  }, load.durationMs)
  await Promise.all(loops)
  clearTimeout(timer)
  const { requests, wrong } = state
  return { requests, wrong, durationMs: performance.now() - since }
}

interface State {
  requests: number
  wrong: number
  bodyBytes: number
  isOver: boolean
}

const HEAD_END = Buffer.from('\r\n\r\n')

function oneConnection({ port, path }: ClosedLoop, state: State): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: '127.0.0.1', noDelay: true })
    const ask = asker(socket, port, path)
    /** Bytes of the body still to come; -1 before the end of the head. */
    let missing = -1
    let head: Buffer | undefined
    socket.once('connect', ask)
    socket.once('error', reject)
    socket.once('close', () => {
      if (!state.isOver) reject(new Error('a server closed a connection in use'))
      resolve()
    })
    socket.on('data', (chunk) => {
      let bytes = chunk.length
      if (missing < 0) {
        const data = head === undefined ? chunk : Buffer.concat([head, chunk])
        const end = data.indexOf(HEAD_END)
        if (end < 0) {
          head = data
          return
        }
        head = undefined
        missing = readHead(data, end, state)
        bytes = data.length - end - HEAD_END.length
      }
      missing -= bytes
      if (missing > 0) return
      missing = -1
      state.requests += 1
      if (state.isOver) socket.destroy()
      else ask()
    })
  })
}

function asker(socket: Socket, port: number, path: () => string): () => void {
  let last = ''
  let bytes: Buffer = Buffer.alloc(0)
  return () => {
    const next = path()
    if (next !== last) {
      last = next
      bytes = Buffer.from(
        `GET ${next} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nAccept: application/json\r\n\r\n`,
      )
    }
    socket.write(bytes)
  }
}

/** Content-Length. */
function readHead(data: Buffer, end: number, state: State): number {
  const text = data.toString('latin1', 0, end)
  const bytes = Number(/\ncontent-length: *(\d+)/i.exec(text)?.[1] ?? Number.NaN)
  if (Number.isNaN(bytes)) throw new Error(`no Content-Length in: ${text}`)
  if (state.bodyBytes < 0) state.bodyBytes = bytes
  if (!text.startsWith('HTTP/1.1 200') || bytes !== state.bodyBytes) state.wrong += 1
  return bytes
}
