// The process that sends load to the servers: closed loops, open loops, and many clients at once.
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { type Arrival, seeded } from './arrivals.ts'
import { type RequestKind, requestsOf } from './requests.ts'

export const start = () => ({ closedLoop, openLoop, warmUp, gather, askAll })

const HEAD_END = Buffer.from('\r\n\r\n')

/** Reads status and Content-Length of the responses on a connection, as cheaply as possible. */
function readResponses(socket: Socket, onResponse: (isOk: boolean, bodyBytes: number) => void) {
  /** Bytes of the body that have not arrived yet. -1: the head is not complete. */
  let missing = -1
  let head: Buffer | undefined
  let isOk = false
  let bodyBytes = 0
  socket.on('data', (chunk: Buffer) => {
    let bytes = chunk.length
    if (missing < 0) {
      const data = head === undefined ? chunk : Buffer.concat([head, chunk])
      const end = data.indexOf(HEAD_END)
      head = end < 0 ? data : undefined
      if (end < 0) return
      const text = data.toString('latin1', 0, end)
      isOk = text.startsWith('HTTP/1.1 200 ') || text.startsWith('HTTP/1.1 201 ')
      const [, digits] = /\ncontent-length: *(\d+)/i.exec(text) ?? []
      if (digits === undefined) throw new Error(`no Content-Length in: ${text}`)
      bodyBytes = Number(digits)
      missing = bodyBytes
      bytes = data.length - end - HEAD_END.length
    }
    missing -= bytes
    if (missing > 0) return
    missing = -1
    onResponse(isOk, bodyBytes)
  })
}

const dial = (port: number): Socket => connect({ port, host: '127.0.0.1', noDelay: true })

export interface ClosedLoop {
  readonly port: number
  readonly request: RequestKind
  readonly connections: number
  readonly durationMs: number
}

/**
 * Each connection sends its next request when the last response has arrived. The code does little
 * per request, so that the server limits the rate.
 */
async function closedLoop({ port, request, connections, durationMs }: ClosedLoop) {
  const state = { requests: 0, wrong: 0, bodyBytes: -1 }
  const since = performance.now()
  const cpu = process.cpuUsage()
  let isOver = false
  setTimeout(() => {
    isOver = true
  }, durationMs)
  const oneConnection = () =>
    new Promise<void>((resolve, reject) => {
      const socket = dial(port)
      const next = requestsOf(request)
      socket.once('connect', () => socket.write(next()))
      socket.once('error', reject)
      socket.once('close', () => {
        if (!isOver) reject(new Error('a server closed a connection in use'))
        resolve()
      })
      readResponses(socket, (isOk, bodyBytes) => {
        state.requests += 1
        if (state.bodyBytes < 0) state.bodyBytes = bodyBytes
        if (!isOk || bodyBytes !== state.bodyBytes) state.wrong += 1
        if (isOver) socket.destroy()
        else socket.write(next())
      })
    })
  await Promise.all(Array.from({ length: connections }, oneConnection))
  const { user, system } = process.cpuUsage(cpu)
  /** `wrong`: responses with another status than 200 or 201, or another length than the first. */
  return {
    ...state,
    durationMs: performance.now() - since,
    cpuMicros: (user + system) / state.requests,
  }
}

const get = (key: string): string =>
  `GET /items/${key} HTTP/1.1\r\nHost: bench\r\nAccept: application/json\r\n\r\n`

/** After this time a request has failed, and counts with this latency. */
const GIVEN_UP_MS = 5_000

/** Connections to one process. A request takes an idle connection, or opens one. */
function pool(port: number) {
  interface Connection {
    readonly socket: Socket
    settle?: ((isOk: boolean) => void) | undefined
  }
  const idle: Connection[] = []
  const open = (): Connection => {
    const connection: Connection = { socket: dial(port) }
    readResponses(connection.socket, (isOk) => {
      idle.push(connection)
      connection.settle?.(isOk)
    })
    connection.socket.on('error', () => {})
    connection.socket.once('close', () => {
      const at = idle.indexOf(connection)
      if (at >= 0) idle.splice(at, 1)
      connection.settle?.(false)
    })
    return connection
  }
  return {
    get(key: string): Promise<boolean> {
      const connection = idle.pop() ?? open()
      return new Promise((resolve) => {
        const timer = setTimeout(() => connection.socket.destroy(), GIVEN_UP_MS)
        connection.settle = (isOk) => {
          clearTimeout(timer)
          connection.settle = undefined
          resolve(isOk)
        }
        connection.socket.write(get(key))
      })
    },
    close: () => {
      for (const { socket } of idle) socket.destroy()
    },
  }
}

export interface OpenLoop {
  readonly arrivals: readonly Arrival[]
  /** Seed that decides which process each request goes to. */
  readonly seed: number
  readonly ports: readonly number[]
  /** Prefix of every key, so that scenarios do not share keys. */
  readonly prefix: string
}

/** Sends each request at its moment, whether or not earlier ones have ended. */
async function openLoop({ arrivals, seed, ports, prefix }: OpenLoop) {
  const random = seeded(seed)
  const pools = ports.map(pool)
  /** Time from when each request was due until its last byte, in the order in which they ended. */
  const latenciesMs: number[] = []
  let failed = 0
  const since = performance.now()
  const send = async ({ key }: Arrival, dueAt: number) => {
    const isOk = await pools[Math.floor(random() * pools.length)]?.get(`${prefix}${key}`)
    if (!isOk) failed += 1
    latenciesMs.push(performance.now() - dueAt)
  }
  const sent: Promise<void>[] = []
  await new Promise<void>((resolve) => {
    const sendDue = (): void => {
      for (let next = arrivals[sent.length]; next; next = arrivals[sent.length]) {
        const dueAt = since + next.atMs
        const inMs = dueAt - performance.now()
        if (inMs > 0) return void setTimeout(sendDue, inMs)
        sent.push(send(next, dueAt))
      }
      resolve()
    }
    sendDue()
  })
  await Promise.all(sent)
  for (const each of pools) each.close()
  return { latenciesMs, failed }
}

/** Opens connections and lets each process compile its code, with hits of a key of its own. */
async function warmUp({ ports, prefix }: OpenLoop): Promise<void> {
  for (const port of ports) {
    const connections = pool(port)
    for (let i = 0; i < 30; i++) {
      const asked = Array.from({ length: 10 }, () => connections.get(`${prefix}warm-up`))
      if ((await Promise.all(asked)).includes(false)) throw new Error('a warm-up request failed')
    }
    connections.close()
  }
}

let crowd: Socket[] = []

/** Connects many clients, some at a time. */
async function gather(port: number, clients: number): Promise<void> {
  for (const socket of crowd) socket.destroy()
  crowd = []
  while (crowd.length < clients) {
    const more = Array.from({ length: Math.min(200, clients - crowd.length) }, () => dial(port))
    await Promise.all(more.map((socket) => once(socket, 'connect')))
    crowd.push(...more)
  }
}

/** Every client sends one request. Resolves when each has its response. */
async function askAll(key: string) {
  let failed = 0
  const responses = crowd.map(
    (socket) =>
      new Promise<void>((resolve) => {
        const end = (isOk: boolean) => {
          if (!isOk) failed += 1
          resolve()
        }
        socket.removeAllListeners('data')
        readResponses(socket, end)
        socket.once('close', () => end(false))
        socket.write(get(key))
      }),
  )
  await Promise.all(responses)
  for (const socket of crowd) socket.removeAllListeners('close')
  // Milliseconds since 1970: two processes of one machine can compare them.
  return { lastAtMs: performance.timeOrigin + performance.now(), failed }
}
