// Many clients with one connection and one request each. Usage: node crowd-clients.js.
import { connect, type Socket } from 'node:net'
import { offer } from '../lib/child.ts'
import { getRequest, readResponses } from '../lib/responses.ts'

export interface CrowdResponses {
  /** Milliseconds since 1970. */
  readonly lastAtMs: number
  readonly failed: number
}

const AT_ONCE = 200
let sockets: Socket[] = []

offer({ gather, ask })

async function gather({ port, clients }: { port: number; clients: number }): Promise<void> {
  for (const socket of sockets) socket.destroy()
  sockets = []
  while (sockets.length < clients) {
    const more = Math.min(AT_ONCE, clients - sockets.length)
    sockets.push(...(await Promise.all(Array.from({ length: more }, () => connected(port)))))
  }
}

const connected = (port: number): Promise<Socket> =>
  new Promise((resolve, reject) => {
    const socket = connect({ port, host: '127.0.0.1', noDelay: true })
    socket.once('connect', () => resolve(socket))
    socket.once('error', reject)
  })

/** Resolves when every client has its response. */
async function ask(path: string): Promise<CrowdResponses> {
  const request = getRequest(path)
  let failed = 0
  const responses = sockets.map(
    (socket) =>
      new Promise<void>((resolve) => {
        readResponses(socket, (isOk) => {
          if (!isOk) failed += 1
          resolve()
        })
        socket.once('close', () => {
          failed += 1
          resolve()
        })
        socket.write(request)
      }),
  )
  await Promise.all(responses)
  for (const socket of sockets) socket.removeAllListeners('close')
  return { lastAtMs: performance.timeOrigin + performance.now(), failed }
}
